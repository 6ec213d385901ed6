"""What the programs of other systems need, made on demand in build/peers."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from benchmarks.peers.cost import Unmeasured
from streams.testing.kafka_install import KafkaUnavailable, java, kafka_jars

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "peers"
_REQUIREMENTS = ROOT / "requirements" / "peers.txt"
_SOURCE = HERE / "KafkaStreamsPeer.java"
_JAVA_RELEASE = "21"


def python() -> Path:
    """Return the interpreter of an environment with requirements/peers.txt.

    Raises:
        Unmeasured: it cannot be made.
    """
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()
    environment, ready = BUILD / "python", BUILD / "python" / ".ready"
    interpreter = environment / "bin" / "python"
    if not ready.exists() or ready.read_text(encoding="utf-8") != digest:
        shutil.rmtree(environment, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(environment)], "make an environment")
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--require-hashes"]
        _run([*pip, "--requirement", str(_REQUIREMENTS)], "install requirements/peers.txt")
        ready.write_text(digest, encoding="utf-8")
    return interpreter


def pinned_jars(text: str) -> dict[str, str]:
    """Return the SHA-256 of each Maven coordinate in the text of jars.txt."""
    pins = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            coordinate, digest = line.split()
            pins[coordinate] = digest
    return pins


def java_class_path() -> list[Path]:
    """Return the class path of the compiled program on Kafka Streams.

    Raises:
        Unmeasured: a jar cannot be fetched or is not the pinned one, or the compiler fails.
    """
    pins = pinned_jars((HERE / "jars.txt").read_text(encoding="utf-8"))
    jars = [_jar(coordinate, digest) for coordinate, digest in pins.items()]
    # The clients' version is that of Kafka Streams; the broker may be of another one.
    version = next(each.split(":")[2] for each in pins if ":kafka-streams:" in each)
    try:
        libraries = [*kafka_jars(version), *jars]
        runtime = java()
    except KafkaUnavailable as error:
        raise Unmeasured(str(error)) from error
    compiler = next(jar for jar in jars if jar.name.startswith("ecj-"))
    classes = BUILD / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    # The runtime of the broker has no javac.
    command = [str(runtime), "-jar", str(compiler), "--release", _JAVA_RELEASE, "-proc:none"]
    command += ["-cp", os.pathsep.join(map(str, libraries)), "-d", str(classes), str(_SOURCE)]
    _run(command, f"compile {_SOURCE.name}")
    return [classes, *(jar for jar in libraries if jar != compiler)]


def _jar(coordinate: str, digest: str) -> Path:
    """Return the jar of a coordinate, fetched unless it is there, and compared with its pin."""
    name, version = coordinate.split(":")[1:]
    kept = BUILD / "jars" / f"{name}-{version}.jar"
    if not kept.exists():
        _fetch(coordinate, kept)
    if hashlib.sha256(kept.read_bytes()).hexdigest() != digest:
        kept.unlink()
        raise Unmeasured(f"{coordinate} does not have the SHA-256 in jars.txt")
    return kept


def _fetch(coordinate: str, kept: Path) -> None:
    try:
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ImportError as error:
        raise Unmeasured("jgo is not installed: install the extra local-kafka") from error
    repository = BUILD / "repository"
    shutil.rmtree(repository, ignore_errors=True)
    context = MavenContext(repo_cache=repository, local_repos=[], timeout=60)
    # The user's mirrors come before jgo's default repository.
    context.remote_repos = {**GlobalSettings.load().repositories, **context.remote_repos}
    kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        path = context.create_dependency(coordinate).artifact.resolve()
        with zipfile.ZipFile(path) as jar:
            jar.testzip()
        path.rename(kept)
    # jgo raises a plain RuntimeError for a missing artifact, else any error of its libraries.
    except Exception as error:
        raise Unmeasured(f"cannot fetch {coordinate} from a Maven repository: {error}") from error


def postgres_programs() -> Path:
    """Return the directory of PostgreSQL's programs: POSTGRES_BIN, PATH, or Debian's directory.

    Raises:
        Unmeasured: there is none.
    """
    chosen = os.environ.get("POSTGRES_BIN")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    on_path = [Path(found).resolve().parent] if found else []
    for directory in [Path(chosen)] if chosen else [*on_path, *debian]:
        if (directory / "initdb").exists() and (directory / "postgres").exists():
            return directory
    raise Unmeasured(
        "initdb and postgres are not found: install PostgreSQL (Debian: the package postgresql), "
        "or set POSTGRES_BIN to the directory of its programs"
    )


def _run(command: list[str], what: str) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
        raise Unmeasured(f"cannot {what}: {lines[-1]}")
