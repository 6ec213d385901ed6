"""A process that runs no questions knows which have no answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from streams.answers import StoredAnswer
from streams.answers.unanswered import NOTE_MS, UnansweredQuestions
from streams.answers.waiting import QuestionQueue
from streams.curator.metrics import UnansweredMetrics
from streams.server.monitoring import with_answers
from streams.tasks.broadcast import Broadcast
from tests.faults.ledger import request, until
from tests.streams.clock import TestClock
from tests.streams.curator.curated import CuratedLedger, comes_true, opened, question

STARTS = ()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    made = CuratedLedger(tmp_path)
    async with made.open():
        await made.send(opened("census"), "admin")
        await made.store.open_log(0, await made.id(), 0)
        yield made


@contextlib.asynccontextmanager
async def following(
    ledger: CuratedLedger, clock: TestClock | None = None
) -> AsyncIterator[UnansweredQuestions]:
    made = UnansweredQuestions(ledger.service, ledger.store, clock or TestClock())
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait({task})


def number_waits(found: UnansweredQuestions, number: int) -> Callable[[], Awaitable[bool]]:
    async def waits() -> bool:
        return len(found.waiting) == number

    return waits


async def test_grants_before_and_after_its_start_wait_until_they_are_answered(
    ledger: CuratedLedger,
) -> None:
    async with ledger.curated():
        await ledger.stored(await ledger.ask(question()))
    await ledger.ask(question())
    await ledger.ask(request("census"))
    async with following(ledger) as found:
        assert await comes_true(number_waits(found, 1)), "the one from before waits"
        await ledger.ask(question(analyst="bob"))
        await until(lambda: found.waiting.count_of("bob") == 1, "the new one waits, too")
        async with ledger.curated():
            await until(lambda: not len(found.waiting), "both are answered")


async def test_an_answer_that_nobody_announced_is_found(
    ledger: CuratedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.answers.unanswered._AGAIN_S", 0.1)
    monkeypatch.setattr(ledger.store, "subscribe", Broadcast[StoredAnswer]().subscribe)
    grant = await ledger.ask(question())
    async with following(ledger) as found:
        await until(lambda: len(found.waiting) == 1, "it waits")
        async with ledger.curated():
            assert await comes_true(number_waits(found, 0)), "it is answered"
    assert await ledger.store.get(grant) is not None


async def test_a_question_without_an_answer_for_five_minutes_is_a_note(
    ledger: CuratedLedger,
) -> None:
    clock = TestClock()
    async with following(ledger, clock) as found:
        queue = QuestionQueue(found.waiting, note=found.note)
        readiness = with_answers(ledger.service.readiness, ledger.store, queue)
        assert readiness().notes == []
        await ledger.ask(question())
        await until(lambda: len(found.waiting) == 1, "it waits")
        since = found.waiting.oldest()["census"]
        clock.pass_(seconds=(since + NOTE_MS - 1 - clock.now()) / 1000)
        assert readiness().notes == []
        clock.pass_(seconds=1)
        (note,) = readiness().notes
        assert "1 granted questions have no answer, the oldest for 5 minutes" in note
        assert "accountant curator" in note
        assert readiness().ready
        # What it says ends it.
        async with ledger.curated():
            await until(lambda: not readiness().notes, "the question is answered")
        await ledger.ask(question())
        await until(lambda: len(found.waiting) == 1, "another one waits")
        clock.pass_(seconds=NOTE_MS / 1000 + 60)
        found_ages = {
            sample.name: sample.value
            for family in UnansweredMetrics(found.waiting, clock).collect()
            for sample in family.samples
        }
        assert found_ages["privacy_questions_unanswered"] == 1
        assert found_ages["privacy_question_unanswered_seconds"] >= NOTE_MS / 1000
