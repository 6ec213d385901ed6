"""The programs that are compared, each as a block in which it runs."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers import environment
from benchmarks.peers.cost import Unmeasured, process_seconds, tree_seconds
from benchmarks.processes import command, free_port, worker_settings
from streams.kafka.deployment import Deployment
from streams.processing.processor import BATCH
from streams.testing import LocalBroker
from streams.testing.broker_process import java_command
from streams.testing.kafka_install import java

LIMIT: Final = 10**12
"""The limit of each dataset's sum, in units of 1e-12: that of the benchmarks' policy."""

ANSWER_BYTES: Final = 900
"""The length of an answer, about that of a decision."""

_HEAP: Final = ("-Xms512m", "-Xmx512m")
_CACHE_BYTES: Final = 10 * 2**20  # the default of Kafka Streams
_START_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The requests that every program answers.

    Attributes:
        prefix: begins the names of this program's topics, groups and directories.
        scratch: a directory that is removed after the run.
    """

    broker: LocalBroker
    deployment: Deployment
    prefix: str
    scratch: Path

    @property
    def output(self) -> str:
        """The topic of the program's answers."""
        return f"{self.prefix}.answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running program.

    Attributes:
        spent: processor seconds of the program, with its servers, and of the broker.
        check: raises `Unmeasured` when the program has ended.
        committed: number of visible answers; None where they are records of a topic.
        answers: counts them in the end, with those granted and the mean length; None likewise.
    """

    spent: Callable[[], tuple[float, float]]
    check: Callable[[], None]
    committed: Callable[[], Awaitable[int]] | None = None
    answers: Callable[[], tuple[int, int, float]] | None = None


Start = Callable[[Load], contextlib.AbstractContextManager[Running]]


@contextlib.contextmanager
def worker(load: Load) -> Iterator[Running]:
    """Run this project's worker, its read side elsewhere."""
    port = free_port()
    settings = worker_settings(load.deployment, port, read_side=False)
    with command("worker", settings, port=port, ready=False) as process:
        yield Running(
            spent=lambda: (process_seconds(process), process_seconds(load.broker.pid)),
            check=lambda: None,
        )


def kafka_streams(load: Load) -> contextlib.AbstractContextManager[Running]:
    """Run Kafka Streams with RocksDB, its changelog and its cache."""
    return _kafka_streams(load, _CACHE_BYTES)


def kafka_streams_uncached(load: Load) -> contextlib.AbstractContextManager[Running]:
    """Run Kafka Streams with RocksDB and its changelog."""
    return _kafka_streams(load, 0)


@contextlib.contextmanager
def _kafka_streams(load: Load, cache: int) -> Iterator[Running]:
    class_path = environment.java_class_path()
    program = ["KafkaStreamsPeer", load.broker.bootstrap, load.prefix]
    program += [load.deployment.topics.requests, load.output, str(load.scratch / "state")]
    program += [str(LIMIT), str(ANSWER_BYTES), str(cache)]
    temporary = load.scratch / "tmp"
    temporary.mkdir()
    arguments = java_command(java(), class_path, program, temporary=temporary, options=_HEAP)
    with _process([str(each) for each in arguments], load) as process:
        yield _on_broker(process, load)


@contextlib.contextmanager
def quix(load: Load) -> Iterator[Running]:
    """Run Quix Streams with RocksDB and its changelog."""
    arguments = [str(environment.python()), str(environment.HERE / "quix_peer.py")]
    arguments += [load.broker.bootstrap, load.prefix, load.deployment.topics.requests, load.output]
    arguments += [str(load.scratch / "state"), str(LIMIT), str(ANSWER_BYTES)]
    with _process(arguments, load) as process:
        yield _on_broker(process, load)


@contextlib.contextmanager
def postgres(load: Load) -> Iterator[Running]:
    """Run PostgreSQL, and a client that commits batches as large as the worker's."""
    programs, interpreter = environment.postgres_programs(), environment.python()
    with _postgres_server(programs) as (server, connection):
        arguments = [str(interpreter), str(environment.HERE / "postgres_peer.py")]
        arguments += [load.broker.bootstrap, load.deployment.topics.requests]
        arguments += [str(load.deployment.partitions), connection]
        arguments += [str(LIMIT), str(ANSWER_BYTES), str(BATCH)]
        with _process(arguments, load, reads=True) as process:
            done = _Printed(process)

            def spent() -> tuple[float, float]:
                # A worker keeps its sums itself: the server's part of that is the program's.
                program = process_seconds(process.pid) + tree_seconds(server.pid)
                return program, process_seconds(load.broker.pid)

            yield Running(
                spent=spent,
                check=lambda: _check(process, load),
                committed=done.committed,
                answers=lambda: _rows(programs, connection),
            )


class _Printed:
    """The last number that a process printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._last = 0
        threading.Thread(target=self._read, args=[process], daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._last = int(line)

    async def committed(self) -> int:
        """Return the number."""
        return self._last


def _on_broker(process: subprocess.Popen[str], load: Load) -> Running:
    return Running(
        spent=lambda: (process_seconds(process.pid), process_seconds(load.broker.pid)),
        check=lambda: _check(process, load),
    )


def _log(load: Load) -> Path:
    return load.scratch / "log"


def _check(process: subprocess.Popen[str], load: Load) -> None:
    if process.poll() is not None:
        lines = _log(load).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise Unmeasured(f"the program ended: {lines[-1] if lines else process.returncode}")


@contextlib.contextmanager
def _process(
    arguments: Sequence[str], load: Load, *, reads: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends; `reads`: its output can be read."""
    with _log(load).open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE if reads else log, stderr=log, text=True
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _postgres_server(programs: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server of a new database, reached by a socket in a private directory alone."""
    user = _server_user()
    # Below /tmp: a socket's path is short, and another user must reach the directory.
    directory = Path(tempfile.mkdtemp(prefix="peers-"))
    server = None
    try:
        if user is not None:
            shutil.chown(directory, user)
        data = directory / "data"
        initdb = [str(programs / "initdb"), "--pgdata", str(data), "--username=bench"]
        initdb += ["--auth=trust", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(
            initdb, user=user, cwd=directory, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Unmeasured(f"initdb fails: {done.stderr.strip()}")
        arguments = [str(programs / "postgres"), "-D", str(data), "-k", str(directory)]
        arguments += ["-c", "listen_addresses=", "-c", "logging_collector=off"]
        arguments += ["-c", "max_wal_size=4GB"]
        log = (directory / "log").open("w", encoding="utf-8")
        with log:
            server = subprocess.Popen(
                arguments, user=user, cwd=directory, stdout=log, stderr=log, text=True
            )
        connection = f"host={directory} user=bench dbname=postgres"
        _await_server(programs, server, connection)
        yield server, connection
    finally:
        if server is not None:
            _end(server)
        shutil.rmtree(directory, ignore_errors=True)


def _server_user() -> str | None:
    """Return the user to run a server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise Unmeasured("PostgreSQL does not run as root, and no other user is known")


def _await_server(programs: Path, server: subprocess.Popen[str], connection: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and server.poll() is None:
        probe = [str(programs / "pg_isready"), "--dbname", connection]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise Unmeasured("the PostgreSQL server did not start")


def _rows(programs: Path, connection: str) -> tuple[int, int, float]:
    query = """SELECT count(*), count(*) FILTER (WHERE body LIKE '{"outcome":"granted"%'),
        coalesce(avg(length(body)), 0) FROM answers"""
    psql = [str(programs / "psql"), "-At", "-F", " ", "-d", connection, "-c", query]
    done = subprocess.run(psql, capture_output=True, text=True, check=True)
    rows, granted, length = done.stdout.split()
    return int(rows), int(granted), float(length)
