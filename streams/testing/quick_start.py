"""What a short-lived broker starts from: an archive of Kafka's classes, and formatted storage.

Java maps the archive (class data sharing) instead of reading, checking and linking each class,
and a copy of formatted storage replaces a run of Kafka's StorageTool. A start then
takes a third of the processor time. Both lie beside the jars, and are made once, at the first such
start.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import Final

from streams.clock import steady
from streams.testing.broker_process import (
    COLLECTOR,
    QUICK_COMPILER,
    answers,
    java_command,
    spawn,
    watchdog,
)
from streams.testing.broker_settings import BrokerError, free_ports, server_properties
from streams.testing.kafka_install import cache_directory, java, kafka_jars, locked

META: Final = "meta.properties"
"""The file of Kafka's storage that has its ids; storage without it is not formatted."""

_ARCHIVE: Final = "classes.jsa"
_STORAGE: Final = "storage"
_WITHIN_S: Final = 120.0  # the start of one broker, or the dump of its classes


@dataclass(frozen=True)
class QuickStart:
    """What is prepared; a broker starts without it, too, but slower.

    Attributes:
        options: of the Java machine. Java ignores an archive that is damaged or of another Java.
        storage: formatted, for a broker without users and without settings of its own.
    """

    options: tuple[str, ...] = ()
    storage: Path | None = None


def quick_start(version: str, *, cache: Path | None = None) -> QuickStart:
    """Return what is prepared for a Kafka version; the first call prepares it.

    Several processes may call this at once: one prepares, the others wait. Without success the
    result is empty, and the next process tries again.

    Raises:
        KafkaUnavailable: the jars cannot be fetched.
    """
    prepared = _prepared(version, cache)
    archive, storage = prepared / _ARCHIVE, prepared / _STORAGE
    return QuickStart(
        options=(f"-XX:SharedArchiveFile={archive}",) if archive.exists() else (),
        storage=storage if (storage / META).exists() else None,
    )


def quick_directory(version: str, *, cache: Path | None = None) -> Path:
    """Return the directory of what is prepared for this Kafka and this Java.

    Java refuses an archive of another Java, or of jars with another time or size: each has a
    directory of its own.
    """
    key = hashlib.sha256((java().parents[1] / "release").read_bytes())
    for jar in kafka_jars(version, cache=cache):
        stat = jar.stat()
        key.update(f"{jar} {stat.st_size} {int(stat.st_mtime)}\n".encode())
    return (cache or cache_directory()) / f"kafka-{version}-quick-{key.hexdigest()[:16]}"


def copy_storage(storage: Path, data: Path) -> None:
    """Copy formatted storage to an empty directory, and give it ids of its own."""
    shutil.copytree(storage, data, dirs_exist_ok=True, ignore=shutil.ignore_patterns(META))
    lines = (storage / META).read_text(encoding="utf-8").split("\n")
    fresh = {"cluster.id": new_id(), "directory.id": new_id()}
    shown = []
    for line in lines:
        name = line.partition("=")[0]
        shown.append(f"{name}={fresh[name]}" if name in fresh else line)
    # The last file: storage that an interrupted copy leaves is not formatted.
    (data / META).write_text("\n".join(shown), encoding="utf-8")


def new_id() -> str:
    """Return a random id in the form that Kafka gives clusters and directories."""
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


@once  # a failure is not repeated by each start of this process
def _prepared(version: str, cache: Path | None) -> Path:
    directory = quick_directory(version, cache=cache)
    if not directory.is_dir():
        try:
            with locked(directory.with_name(f"{directory.name}.lock")):
                if not directory.is_dir():
                    _prepare(version, kafka_jars(version, cache=cache), directory)
        except (BrokerError, OSError, subprocess.SubprocessError):
            pass
    return directory


def _prepare(version: str, jars: list[Path], directory: Path) -> None:
    staging = directory.with_name(f"{directory.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)  # of a killed process: this one has the lock
    staging.mkdir(mode=0o700)
    try:
        ready = staging / "ready"
        ready.mkdir()
        preparation = _Preparation(version, jars, staging)
        preparation.format(ready / _STORAGE)
        preparation.list_classes()
        preparation.dump(ready / _ARCHIVE)
        ready.rename(directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class _Preparation:
    """One broker that starts and ends, and the archive of the classes which it has loaded."""

    def __init__(self, version: str, jars: list[Path], staging: Path) -> None:
        self._version = version
        self._jars = jars
        self._staging = staging
        self._data = staging / "data"
        self._log = staging / "log"
        self._classes = staging / "classes"
        self._properties = staging / "server.properties"
        self._ports = free_ports()
        text = server_properties(self._ports, self._data, {})
        self._properties.write_text(text, encoding="utf-8")

    def format(self, storage: Path) -> None:
        program = (
            "kafka.tools.StorageTool", "format", f"--cluster-id={new_id()}", "-c", self._properties
        )  # fmt: skip
        self._data.mkdir()
        self._run(program, "-Xmx128m", *QUICK_COMPILER, "-XX:+UseSerialGC")
        shutil.copytree(self._data, storage)

    def list_classes(self) -> None:
        lists = f"-XX:DumpLoadedClassList={self._classes}"
        options = (*COLLECTOR, *QUICK_COMPILER, "-Xmx256m", lists)
        broker = self._spawn(("kafka.Kafka", self._properties), *options)
        guard = watchdog(broker.pid, None)
        try:
            self._wait_for(broker)
            broker.terminate()
            broker.wait(_WITHIN_S)
        finally:
            broker.kill()
            broker.wait()
            guard.kill()
            guard.communicate()

    def dump(self, archive: Path) -> None:
        file = f"-XX:SharedArchiveFile={archive}"
        options = ("-Xshare:dump", f"-XX:SharedClassListFile={self._classes}", file)
        self._run((), *options, *COLLECTOR, "-Xmx512m")

    def _wait_for(self, broker: subprocess.Popen[bytes]) -> None:
        meta = (self._data / META).read_text(encoding="utf-8")
        cluster = meta.partition("cluster.id=")[2].split("\n")[0]
        deadline = steady() + _WITHIN_S
        while not answers(self._ports.clients, cluster):
            if broker.poll() is not None or steady() > deadline:
                raise BrokerError(f"Kafka {self._version} does not answer")
            time.sleep(0.05)

    def _run(self, program: tuple[str | Path, ...], *options: str) -> None:
        process = self._spawn(program, *options)
        try:
            code = process.wait(_WITHIN_S)
        finally:
            process.kill()
            process.wait()
        if code != 0:
            raise BrokerError(f"Java ends with {code}: {program}")

    def _spawn(self, program: tuple[str | Path, ...], *options: str) -> subprocess.Popen[bytes]:
        command = java_command(
            java(), self._jars, program, temporary=self._staging, options=options
        )
        return spawn(command, self._log)
