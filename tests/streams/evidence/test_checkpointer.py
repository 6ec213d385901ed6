"""Heads are signed behind the commits of a processor, and of no decision that is not made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accountant.partition import Partition, hash_of
from streams.clock import SystemClock
from streams.errors import Refused, Unavailable
from streams.evidence.checkpointer import Checkpointer
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint
from streams.evidence.store import CheckpointStore, FileCheckpoints
from streams.processing.observers import Committed
from streams.processing.processor import Processor
from streams.testing import (
    Crash,
    CrashPoints,
    ManualBackground,
    ManualClock,
    MemoryJournal,
    RecordingObserver,
)
from tests.streams.processing.stage import Stage, play

LEDGER = "5d0c" * 8


class Signing(RecordingObserver):
    """Tells `Checkpointer` what a ledger's own process tells it."""

    def __init__(self, heads: Checkpointer) -> None:
        super().__init__()
        self._heads = heads

    def replayed(self, partition: Partition, seconds: float) -> None:
        self._heads.begin(partition)
        super().replayed(partition, seconds)

    def committed(self, committed: Committed) -> None:
        self._heads.wake(committed.partition)
        super().committed(committed)


def test_an_uncommitted_decision_is_never_signed(tmp_path: Path) -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        checkpoint_store = CheckpointStore(
            tmp_path / "kept", 0, LEDGER, SigningKey.create(tmp_path / "key", "census")
        )
        heads = Checkpointer(
            lambda: checkpoint_store,
            lambda number: hash_of(stage.log.decisions[number]),
            stage.clock,
            seconds=0,
            required=False,
        )
        # The second commit is the one of the requests: it is paused, and then never made.
        points = CrashPoints(Crash(point="commit_begun", nth=2, action="pause"))
        observer = Signing(heads)
        journal = MemoryJournal(stage.log, reach=points)
        processor = Processor(journal, stage.genesis, observer, clock=stage.clock, reach=points)
        task = asyncio.create_task(processor.run())
        await observer.until(lambda: len(observer.decisions) == 1)
        stage.ask(3)
        await asyncio.sleep(1)
        assert points.paused == "commit_begun"
        heads.close()  # signs the last reported head
        newest = checkpoint_store.load().checkpoints[-1]
        assert (newest.sequence, newest.head) == (1, hash_of(stage.log.decisions[1]))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(story())


def test_a_log_shorter_than_its_checkpoints_is_refused_unread(tmp_path: Path) -> None:
    def unreadable(number: int) -> str:
        raise Unavailable(f"decision {number} cannot be read")

    checkpoint_store = CheckpointStore(
        tmp_path / "kept", 0, LEDGER, SigningKey.create(tmp_path / "key", "census")
    )
    for sequence in (1, 9):
        checkpoint_store.put(sequence, hash_of(b"%d" % sequence), 0, 1)
    heads = Checkpointer(
        lambda: checkpoint_store, unreadable, SystemClock(), seconds=0, required=False
    )
    log = SimpleNamespace(sequence=3, head=hash_of(b"3"), branch=0, key=None)
    with pytest.raises(Refused, match="ends at decision 3, but decision 9 was there"):
        heads.begin(log)


def log_end(sequence: int, key: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(sequence=sequence, head=hash_of(b"%d" % sequence), branch=0, key=key)


def test_checkpoints_are_overdue_while_a_change_of_the_key_stops_them(tmp_path: Path) -> None:
    own = SigningKey.create(tmp_path / "key", "census")
    other = SigningKey.create(tmp_path / "other", "census").verifier.text
    store = CheckpointStore(tmp_path / "kept", 0, LEDGER, own)
    clock = ManualClock(0)
    background = ManualBackground(clock)
    heads = Checkpointer(
        lambda: store,
        lambda number: hash_of(b"%d" % number),
        clock,
        seconds=1,
        required=False,
        background=background,
    )
    heads.begin(log_end(1))
    background.pass_(10_000)
    assert heads.overdue_seconds == 0
    heads.wake(log_end(2, key=other))
    background.pass_(301_000)
    assert heads.overdue_seconds == pytest.approx(300)
    assert "no checkpoint is signed" in heads.notes[0]
    heads.wake(log_end(3, key=other))  # a later commit does not start the time again
    assert heads.overdue_seconds == pytest.approx(300)
    heads.wake(log_end(3, key=own.verifier.text))
    background.pass_(5_000)
    assert heads.overdue_seconds == 0
    background.pass_(600_000)  # nothing is committed, so nothing is missing
    assert heads.overdue_seconds == 0


def test_checkpoints_are_overdue_while_their_store_cannot_be_opened(tmp_path: Path) -> None:
    def unreachable() -> CheckpointStore:
        raise Unavailable("the directory is not mounted")

    clock = ManualClock(0)
    background = ManualBackground(clock)
    heads = Checkpointer(
        unreachable, lambda _: None, clock, seconds=60, required=False, background=background
    )
    heads.begin(log_end(1))
    background.pass_(59_000)
    assert heads.overdue_seconds == 0
    background.pass_(400_000)
    assert heads.overdue_seconds == pytest.approx(399)


class RacedStore(FileCheckpoints):
    """The store of one of two copies; `meanwhile` runs once, after its comparison."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__(directory, Path(name), LEDGER, lambda _: True)
        self.meanwhile: Callable[[], object] = lambda: None

    def put(self, *checkpoint: Any) -> tuple[Checkpoint, bytes]:
        done, self.meanwhile = self.meanwhile, lambda: None
        done()
        return super().put(*checkpoint)


class Copies:
    """Two copies of a ledger with decision 10, each with a process that signs; 11 differs."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self.clock = ManualClock(0)
        self.background = ManualBackground(self.clock)
        self.stores = [RacedStore(directory, name) for name in ("/a.db", "/b.db")]
        logs = [{10: hash_of(b"10"), 11: hash_of(name)} for name in (b"a", b"b")]
        self.ends = [SimpleNamespace(sequence=11, head=x[11], branch=0, key=None) for x in logs]
        self.heads = [
            Checkpointer(
                lambda store=store: store,
                log.get,
                self.clock,
                seconds=seconds,
                required=False,
                background=self.background,
            )
            for store, log in zip(self.stores, logs, strict=True)
        ]
        for each in self.heads:
            each.begin(log_end(10))
        self.background.pass_(60_000)

    def commit(self, which: int) -> None:
        """Commit decision 11 and sign it now."""
        self.heads[which].wake(self.ends[which])

    def signed(self, which: int) -> list[tuple[int, str]]:
        return [(each.sequence, each.head) for each in self.stores[which].load().checkpoints]


@pytest.mark.parametrize("seconds", [0, 10])
def test_of_two_copies_that_compare_before_either_signs_one_answers(
    tmp_path: Path, seconds: float
) -> None:
    copies = Copies(tmp_path, seconds)
    assert [each.refused for each in copies.heads] == [None, None]
    copies.stores[0].meanwhile = lambda: copies.heads[1].wake(copies.ends[1])
    with pytest.raises(Refused, match="is a file of this ledger, too"):
        copies.heads[0].wake(copies.ends[0])
    assert copies.heads[1].refused is None
    copies.background.pass_(max(10 * seconds, 1) * 1000)
    assert all("is a file of this ledger, too" in (each.refused or "") for each in copies.heads)


def test_the_copy_that_finds_the_other_signs_its_own_head_first(tmp_path: Path) -> None:
    copies = Copies(tmp_path, 10)
    copies.commit(0)
    with pytest.raises(Refused, match="is a file of this ledger, too"):
        copies.commit(1)  # before it signs, it compares
    assert "`accountant accept-rollback --lost 11-11" in (copies.heads[1].refused or "")
    assert copies.signed(1)[-1] == (11, copies.ends[1].head)
    with pytest.raises(Refused, match="is a file of this ledger, too"):
        copies.heads[1].wake(copies.ends[1])
    assert copies.heads[0].refused is None
    copies.background.pass_(100_000)
    assert "/b.db is a file of this ledger, too" in (copies.heads[0].refused or "")


def test_a_refused_start_signs_nothing(tmp_path: Path) -> None:
    copies = Copies(tmp_path, 10)
    copies.commit(0)
    before = copies.signed(1)
    with pytest.raises(Refused, match="is a file of this ledger, too"):
        copies.heads[1].begin(copies.ends[1])
    copies.heads[1].close()
    assert copies.signed(1) == before


def test_a_head_whose_key_becomes_known_later_is_still_found(tmp_path: Path) -> None:
    copies = Copies(tmp_path, 10)
    key = SigningKey.create(tmp_path / "other", "other")
    theirs = RacedStore(tmp_path, "/b.db")
    theirs.key = key
    theirs.put(11, copies.ends[1].head, 0, 1)
    (keys,) = (each for each in tmp_path.glob("*/*/keys") if key.verifier.text in each.read_text())
    known = keys.read_text()
    keys.write_text(known.partition("\n")[0])  # as while the line is being written
    copies.background.pass_(200_000)
    assert copies.heads[0].refused is None
    keys.write_text(known)
    copies.background.pass_(100_000)
    assert "/b.db is a file of this ledger, too" in (copies.heads[0].refused or "")
