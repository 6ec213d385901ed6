"""One record that breaks deciding or committing is set aside; no other pays for it."""

from __future__ import annotations

import json
from typing import ClassVar

import msgspec
import pytest

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from streams.errors import CommitRejected, CommitUnknown, Refused, Unavailable
from streams.processing.journal import Commit
from streams.processing.processor import MOST_DECISION_BYTES
from streams.testing import Crash, CrashPoints, MemoryJournal
from tests.streams.model import POISON
from tests.streams.processing.stage import Stage, outcomes, play


def internal_error(draft: Draft, record: Input, clock: int) -> EncodedDecision:
    """Decide as the real thing does, but raise on a poisoned body."""
    if POISON.encode() in (record.value or b""):
        raise ZeroDivisionError("planted")
    return decide(draft, record, clock)


def test_a_request_that_fails_in_adjudication_is_rejected_and_later_ones_are_decided() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(3)
        stage.ask(purpose=POISON)
        stage.ask(3)
        observer = await stage.settle(decide=internal_error)
        assert observer.drops == [None]
        assert outcomes(stage) == {"opened": 1, "granted": 6, "internal_error": 1}
        assert [letter.reason for letter in stage.log.dead_letters] == ["internal_error"]
        decision = json.loads(stage.log.decisions[5])
        assert decision["outcome"] == "invalid"
        assert "request" not in decision

    play(story())


def test_a_decision_too_large_for_the_log_charges_and_remembers_nothing() -> None:
    def too_large(draft: Draft, record: Input, clock: int) -> EncodedDecision:
        encoded = decide(draft, record, clock)
        if POISON.encode() not in (record.value or b""):
            return encoded
        large = encoded.value + b" " * MOST_DECISION_BYTES
        return msgspec.structs.replace(encoded, value=large)

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(purpose=POISON)
        stage.feed("admin", stage.log.inputs["admin"][0].value)
        await stage.settle(decide=too_large)
        stage.feed("requests", stage.log.inputs["requests"][0].value)
        stage.ask(2)
        await stage.settle(decide=too_large)
        assert outcomes(stage) == {"opened": 1, "repeated": 1, "internal_error": 2, "granted": 2}

    play(story())


class Picky(MemoryJournal):
    """A journal that rejects some commits."""

    rejects: bytes = b""
    error: type[Exception] = CommitRejected
    rejected = 0

    async def commit(self, commit: Commit) -> None:
        if any(self.rejects in encoded.value for encoded in commit.decisions):
            self.rejected += 1
            raise self.error("too large for the topic")
        await super().commit(commit)


@pytest.mark.parametrize("error", [CommitRejected, ZeroDivisionError])
@pytest.mark.parametrize("batch", [1, 4, 500])
def test_the_one_record_that_a_journal_rejects_is_set_aside(
    batch: int, error: type[Exception]
) -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        stage.ask(purpose=POISON)
        stage.ask(2)
        stage.ask(purpose=POISON)
        stage.ask(2)
        journal = Picky(stage.log)
        journal.rejects, journal.error = b'"purpose": "%b"' % POISON.encode(), error
        observer = await stage.settle(journal=journal, batch=batch)
        assert observer.halt is None
        assert outcomes(stage) == {"opened": 1, "granted": 8, "internal_error": 2}
        assert journal.rejected <= 6

    play(story())


def test_after_a_rejected_record_batches_have_full_size() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(purpose=POISON)
        stage.ask(20)
        journal = Picky(stage.log)
        journal.rejects = b'"purpose": "%b"' % POISON.encode()
        observer = await stage.settle(journal=journal, batch=4)
        assert [len(commit) for commit in observer.commits] == [1] * 4 + [4] * 4 + [2]

    play(story())


def test_a_journal_that_rejects_everything_halts_the_partition() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        observer = await stage.settle(journal=Picky(stage.log))
        assert isinstance(observer.halt, CommitRejected)
        assert len(stage.log.decisions) == 1
        assert observer.partition is None

    play(story())


def test_a_fault_elsewhere_makes_no_record_a_suspect() -> None:
    class Leaky(MemoryJournal):
        """Lets a library's own error through while it is owned, again and again."""

        owned = 0

        async def own(self) -> None:
            self.owned += 1
            if 1 < self.owned < 5:
                raise OSError("connection reset")
            await super().own()

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        journal = Leaky(stage.log, reach=CrashPoints(Crash(point="commit_begun")))
        await stage.settle(journal=journal)
        assert outcomes(stage) == {"opened": 1, "granted": 4}

    play(story())


@pytest.mark.parametrize("error", [Refused("the broker refuses"), CommitUnknown("away")])
def test_a_fault_without_a_record_makes_no_later_record_suspect(
    error: Exception,
) -> None:
    reset = OSError("connection reset")

    class Scripted(MemoryJournal):
        """Fails as the test asks."""

        owning: ClassVar = [None, reset, reset, None, reset]
        committing: ClassVar = [Unavailable("away"), error]

        async def own(self) -> None:
            error = self.owning.pop(0) if self.owning else None
            if error:
                raise error
            await super().own()

        async def commit(self, commit: Commit) -> None:
            if self.committing:
                raise self.committing.pop(0)
            await super().commit(commit)

    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.ask(4)
        await stage.settle(journal=Scripted(stage.log), looks_again=(1.0, 3.0))
        assert outcomes(stage) == {"opened": 1, "granted": 4}

    play(story())
