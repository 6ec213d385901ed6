"""Background tasks run apart from each other, or without threads by a clock of a test."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from accountant.partition import hash_of
from accountant.views.usage import BYS
from streams.embedded.queue import QueuedBody, ThreadWaiter
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.evidence.checkpointer import Checkpointer
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint, open_signed
from streams.evidence.sink_sender import Senders
from streams.evidence.sinks import Kind
from streams.evidence.store import CheckpointStore, Directory
from streams.index import Indexer
from streams.settings import load
from streams.tasks.background import BackgroundTask, ThreadRunner
from streams.testing import ManualBackground, ManualClock
from tests.patience import PATIENCE_S
from tests.streams.bodies import asking, opening
from tests.streams.index.logs import ListedLog, busy_world, index_counts, recounted

START = 1_795_262_400_000


class Steps:
    """A task that does what a test says."""

    def __init__(self) -> None:
        self.steps = 0
        self.fault: Exception | None = None
        self.free = threading.Event()
        self.free.set()
        self.moved = threading.Semaphore(0)
        self.is_finished = False

    def step(self) -> float | None:
        self.steps += 1
        self.moved.release()
        self.free.wait()
        if self.fault is not None:
            raise self.fault
        return None

    def finish(self) -> None:
        self.is_finished = True


def started(task: BackgroundTask, name: str) -> ThreadRunner:
    runner = ThreadRunner(task, name)
    runner.start()
    return runner


def test_a_step_that_blocks_delays_no_other_and_not_the_end() -> None:
    hanging, well = Steps(), Steps()
    hanging.free.clear()
    runners = [started(hanging, "hanging"), started(well, "well")]
    for _ in range(3):
        assert well.moved.acquire(timeout=PATIENCE_S)
        runners[1].wake()
    for runner in runners:
        runner.stop()
    runners[0].join(0.05)
    runners[1].join(PATIENCE_S)
    assert hanging.steps == 1
    assert (hanging.is_finished, well.is_finished) == (False, True)
    assert runners[0].is_running
    hanging.free.set()
    runners[0].join(PATIENCE_S)
    assert hanging.is_finished
    assert not runners[0].is_running


def test_a_failed_step_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    task = Steps()
    task.fault = RuntimeError("it broke")
    runner = started(task, "breaking")
    assert task.moved.acquire(timeout=PATIENCE_S)
    assert task.moved.acquire(timeout=PATIENCE_S)
    runner.stop()
    runner.join(PATIENCE_S)
    assert task.is_finished
    assert "background_step_failed" in caplog.text
    assert "breaking" in caplog.text


def test_a_stopped_runner_starts_no_thread() -> None:
    task = Steps()
    runner = ThreadRunner(task, "never")
    runner.stop()
    runner.wake()
    runner.join(None)
    assert task.steps == 0


class SlowPlace:
    """A place whose first tries fail."""

    kind: Kind = "directory"
    name = "slow"

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.taken: list[int] = []

    def put(self, checkpoint: Checkpoint, note: bytes) -> str:
        if self.failures:
            self.failures -= 1
            raise Unavailable("it is away")
        self.taken.append(checkpoint.sequence)
        return self.name


def notes_in(place: Path) -> list[Checkpoint]:
    key = SigningKey.load(place.parent / "kept" / "key").verifier
    return [open_signed(note, [key]) for _, note in Directory(place).notes()]


class Simulated:
    """An index, signed checkpoints and their places behind one log, without a thread."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock(START)
        self.background = ManualBackground(self.clock)
        self.log = ListedLog(busy_world().log[:20])
        self.index = Indexer(self.log, directory / "index", background=self.background)
        self.place = SlowPlace(failures=2)
        self.senders = Senders([self.place], 60, background=self.background)
        self.kept = CheckpointStore(
            directory / "kept", 0, "5d0c" * 8, SigningKey.create(directory / "key", "k")
        )
        self.heads = Checkpointer(
            lambda: self.kept,
            lambda number: hash_of(self.log.values[number]),
            self.clock,
            seconds=10,
            required=False,
            send=self.senders.take,
            background=self.background,
        )
        self.heads.begin(self.head)

    @property
    def head(self) -> SimpleNamespace:
        last = len(self.log.values) - 1
        return SimpleNamespace(
            sequence=last, head=hash_of(self.log.values[last]), branch=0, key=None
        )

    def commit(self, values: list[bytes]) -> None:
        self.log.values += values
        self.index.wake()
        self.heads.wake(self.head)

    def close(self) -> None:
        self.index.close()
        self.heads.close()
        self.senders.close()


def test_a_simulation_runs_the_steps_by_its_clock(tmp_path: Path) -> None:
    before, whole = threading.active_count(), busy_world().log
    ledger = Simulated(tmp_path)
    ledger.background.pass_(9_999)
    assert ledger.heads.newest is None
    ledger.background.pass_(1)
    assert [each.sequence for each in ledger.kept.load().checkpoints] == [19]
    assert ledger.place.failures == 1
    ledger.background.pass_(1_000)
    assert ledger.place.failures == 0
    assert ledger.senders.notes
    ledger.background.pass_(2_000)
    assert ledger.place.taken == [19]
    assert not ledger.senders.notes

    ledger.commit(whole[20:30])
    ledger.background.pass_(400)
    assert ledger.index.parts[0].reached.sequence == -1  # nobody has asked: it waits half a second
    ledger.background.pass_(200)
    assert ledger.index.parts[0].reached.sequence == 29
    ledger.commit(whole[30:])
    ledger.background.pass_(60_000)
    found = ledger.index.read(
        {0: len(whole) - 1},
        lambda rows: {by: index_counts(rows, "adult", by) for by in BYS},
        wait=0,
    )
    assert found == {by: recounted(whole, "adult", by) for by in BYS}
    assert ledger.place.taken == [19, len(whole) - 1]
    ledger.close()
    assert threading.active_count() == before


def test_a_whole_ledger_in_a_file_runs_without_a_thread(tmp_path: Path) -> None:
    before, clock, place = threading.active_count(), ManualClock(START), tmp_path / "place"
    place.mkdir()
    background = ManualBackground(clock)
    settings = load(
        checkpoints=tmp_path / "kept", checkpoint_places=str(place), checkpoint_seconds=10
    )
    ledger = EmbeddedService.open(
        tmp_path / "ledger.db", settings, clock=clock, background=background
    )
    ledger.submit_sync("admin", opening("census", START, 0), 0)
    ledger.submit_sync("requests", asking("census", START, 1), 0)
    waiter = ThreadWaiter()
    queued = QueuedBody("requests", asking("census", START, 2), clock.now(), waiter)
    ledger._writer.submit(queued, in_caller_thread=False)
    assert waiter.wait(0) is None
    background.pass_(100)
    assert waiter.wait(0) is not None
    background.pass_(20_000)
    (row,) = ledger._usage.rows("census", "analyst", 3, wait=0)
    assert row.granted == 2
    assert [note.sequence for note in notes_in(place)] == [3]
    assert threading.active_count() == before
    ledger.close_sync()
