"""Workers that keep checkpoints are killed, paused and cut off from them: no false alarm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.partition import hash_of
from accountant.partition.key_hash import partition_of
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint, open_signed
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, until
from tests.faults.worker_process import WorkerProcess, running, settings_of
from tests.forks import commands
from tests.nightly import rounds
from tests.streams.cli.conftest import environment

STARTS = ("streams.cli",)

pytestmark = pytest.mark.faults

KILLS = rounds(3, 30)
TURNS = rounds(2, 10)
_PARTITIONS: Final = 2
_ALL: Final = {0, 1}
_SECONDS: Final = 0.1
_NAMES: Final = [
    next(name for i in range(99) if partition_of((name := f"ds-{i}").encode(), _PARTITIONS) == part)
    for part in sorted(_ALL)
]


class SigningWorker(WorkerProcess):
    """A worker that stores checkpoints, with an HTTP server that shows its health."""

    def __init__(self, ledger: Ledger, instance_id: str, directory: Path, place: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        super().__init__(
            ledger,
            instance_id,
            directory,
            ACCOUNTANT_CHECKPOINTS=str(place),
            ACCOUNTANT_CHECKPOINT_SECONDS=str(_SECONDS),
            ACCOUNTANT_METRICS_PORT=str(self.port),
        )

    def start(self) -> None:
        """Start, its log written by another process, which a limit of this one does not concern."""
        with self._log.open("ab") as log:
            copying = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log)
        assert copying.stdin is not None
        with copying.stdin as log:
            self._process = commands.start(
                "worker", env=self._environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def limit_files(self, most: int) -> None:
        """Have the system refuse to write a file of more bytes, as on a disk that is full."""
        assert self._process is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    def ready(self) -> tuple[int, list[str]]:
        """Return the status of `/readyz` and its notes; status 0 while no process listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as got:
                return got.status, json.load(got).get("notes", [])
        except urllib.error.HTTPError as error:
            return error.code, []
        except OSError:
            return 0, []

    def replayed(self, since: int) -> set[int]:
        return {entry["partition"] for entry in self.events("partition_refolded", since)}

    def alarms(self) -> list[dict[str, Any]]:
        """Return its complaints about a log or its checkpoints, over all its starts."""
        kinds = ("partition_halted", "partition_doubted", "checkpoints_trouble")
        return [entry for kind in kinds for entry in self.events(kind)]


class SignedLedger:
    """A ledger whose workers, as processes, keep checkpoints in one directory.

    Attributes:
        place: that directory.
    """

    def __init__(self, ledger: Ledger, directory: Path) -> None:
        self.ledger, self.place, self._directory = ledger, directory / "kept", directory

    def workers(self, *names: str) -> AbstractContextManager[Sequence[SigningWorker]]:
        """Start workers; at the end kill the running ones."""
        return running(
            [SigningWorker(self.ledger, name, self._directory, self.place) for name in names]
        )

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Keep asking until the block ends."""

        async def ask() -> None:
            while True:
                await self.ledger.send_all(request(name, epsilon="0.00001") for name in _NAMES)
                await asyncio.sleep(0.01)

        asking = asyncio.create_task(ask())
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    def notes(self) -> list[Checkpoint]:
        """Return the stored checkpoints, each signed by the key in the same directory."""
        if not (self.place / "key").exists():
            return []
        known, found = [SigningKey.load(self.place / "key").verifier], list[Checkpoint]()
        for path in self.place.rglob("*.note"):
            with contextlib.suppress(FileNotFoundError):  # forgotten meanwhile
                found.append(open_signed(path.read_bytes(), known))
        return found

    async def newer(self) -> None:
        """Return once another checkpoint of each partition is there."""
        before = self._newest()
        await until(
            lambda: all(self._newest().get(n, 0) > before.get(n, 0) for n in _ALL),
            "another checkpoint of each partition",
        )

    def _newest(self) -> dict[int, int]:
        ordered = sorted((each.partition, each.sequence) for each in self.notes())
        return dict(ordered)

    def logs(self) -> list[list[bytes]]:
        topic = self.ledger.topic("decisions")
        found = oracle.read(self.ledger.bootstrap, topic, _PARTITIONS)
        return [[r.value for r in part if r.value is not None] for part in found]

    def check_notes(self) -> None:
        """Check that each checkpoint is one of the log."""
        notes, logs = self.notes(), self.logs()  # notes first: every signed decision is committed
        for each in notes:
            assert hash_of(logs[each.partition][each.sequence]) == each.head, each

    async def kept_to_the_end(self) -> None:
        """Return once the newest checkpoints are of the last decisions, without a further one."""
        await self.ledger.settle()
        ends = {n: len(log) - 1 for n, log in enumerate(await asyncio.to_thread(self.logs))}
        await until(lambda: self._newest() == ends, f"checkpoints of the ends {ends}")

    async def audited(self) -> None:
        """Check that an audit with these checkpoints agrees."""
        env = environment(**settings_of(self.ledger))
        key = SigningKey.load(self.place / "key").verifier.text
        line = ("audit", "--checkpoints", str(self.place), "--key", key)
        done = await asyncio.to_thread(commands.run, *line, env=env, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("checkpoints agree") == _PARTITIONS


@pytest.fixture
async def signed(
    broker: LocalBroker, application: str, tmp_path: Path
) -> AsyncIterator[SignedLedger]:
    async with Ledger(broker.bootstrap, application, partitions=_PARTITIONS) as ledger:
        await ledger.open(*_NAMES)
        yield SignedLedger(ledger, tmp_path)


@pytest.mark.timeout(1_800)
async def test_kills_around_signing_cause_no_false_alarm_and_no_gap(signed: SignedLedger) -> None:
    draw = random.Random(5)
    with signed.workers("w1") as (worker,):
        await signed.ledger.settle()
        async with signed.load():
            for _ in range(KILLS):
                await signed.newer()
                await asyncio.sleep(draw.uniform(0, 2 * _SECONDS))
                worker.kill()
                await asyncio.to_thread(signed.check_notes)
                since = worker.mark()
                worker.start()
                await until(lambda since=since: worker.replayed(since) == _ALL, "it serves again")
        await signed.kept_to_the_end()
        assert worker.alarms() == []
        await signed.audited()
        assert worker.stop() == 0


@pytest.mark.timeout(1_800)
async def test_successive_owners_with_late_checkpoints_raise_no_false_alarm(
    signed: SignedLedger,
) -> None:
    draw = random.Random(6)
    with signed.workers("w1", "w2") as workers:
        await until(lambda: all(len(each.replayed(0)) for each in workers), "each serves")
        async with signed.load():
            for number in range(TURNS):
                paused, other = workers[number % 2], workers[1 - number % 2]
                await signed.newer()
                await asyncio.sleep(draw.uniform(0, 2 * _SECONDS))
                since, since_paused = other.mark(), paused.mark()
                paused.pause()
                await until(lambda other=other, s=since: other.replayed(s) == _ALL, "taken over")
                await signed.newer()
                since = other.mark()
                paused.resume()  # it stores the waiting checkpoints now
                await until(lambda p=paused, s=since_paused: p.replayed(s), "it serves again")
                await until(lambda other=other, s=since: other.replayed(s), "both replay")
                await asyncio.to_thread(signed.check_notes)
        await signed.kept_to_the_end()
        for each in workers:
            assert each.alarms() == []
        await signed.audited()
        assert [each.stop() for each in workers] == [0, 0]


def take_away(signed: SignedLedger, worker: SigningWorker) -> None:
    signed.place.rename(signed.place.with_name("elsewhere"))
    signed.place.write_text("no directory")


def bring_back(signed: SignedLedger, worker: SigningWorker) -> None:
    signed.place.unlink()
    signed.place.with_name("elsewhere").rename(signed.place)


TROUBLES: Final[dict[str, tuple[Callable[[SignedLedger, SigningWorker], None], ...]]] = {
    "away": (take_away, bring_back),
    "full": (
        lambda _, worker: worker.limit_files(0),
        lambda _, worker: worker.limit_files(resource.RLIM_INFINITY),
    ),
}


@pytest.mark.parametrize("how", TROUBLES)
async def test_an_unusable_sink_is_reported_and_catches_up_later(
    signed: SignedLedger, how: str
) -> None:
    begin, end = TROUBLES[how]
    with signed.workers("w1") as (worker,):
        await signed.kept_to_the_end()
        begin(signed, worker)
        await signed.ledger.send_all(request(name, epsilon="0.00001") for name in _NAMES)
        await signed.ledger.settle()  # decisions continue
        await until(lambda: len(worker.ready()[1]) == _PARTITIONS, "each partition is reported")
        status, notes = worker.ready()
        assert status == 200
        assert all("checkpoints cannot be" in each for each in notes), notes
        end(signed, worker)
        await signed.kept_to_the_end()
        await until(lambda: worker.ready() == (200, []), "nothing is reported any more")
        assert not worker.events("partition_dropped")
        await signed.audited()
        assert worker.stop() == 0
