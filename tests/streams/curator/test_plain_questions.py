"""A curator and plain questions: each grant has one answer, whatever happens in between."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accountant.answers import FAILED
from accountant.claims import Pure, Zcdp
from streams.answers.granted import GrantedQuestion, granted_question
from streams.clock import SystemClock
from streams.curator.answering import ClaimDiffers
from streams.curator.curator import CuratorOptions
from streams.curator.draw_guard import DrawGuard
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.log.appended import Appended
from streams.tasks.broadcast import Broadcast
from tests.faults.ledger import opening, request, until
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import (
    ROWS,
    Counting,
    CuratedLedger,
    opened,
    question,
    write_data,
)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    made = CuratedLedger(tmp_path)
    async with made.open():
        assert (await made.send(opened("census"), "admin"))["outcome"] == "opened"
        yield made


async def test_a_question_gets_an_answer_near_the_truth(ledger: CuratedLedger) -> None:
    async with ledger.curated() as curator:
        body = question(epsilon="5", question={"ask": "count", "by": ["region"]})
        answer = await ledger.answer(await ledger.ask(body))
        assert answer.outcome == "answered"
        assert [abs(int(each) - ROWS // 2) < 30 for each in answer.values] == [True, True]
        assert answer.request_id == json.loads(body)["request_id"]
        found = await ledger.store.find("census", "ana", answer.request_id)
        assert found is not None
        assert found.value == (await ledger.stored(answer.grant)).value
        await until(lambda: curator.counts.answered == 1, "it is counted")
        assert curator.counts.failed == 0


async def test_an_error_gets_the_noise_of_the_law_that_the_ledger_took(tmp_path: Path) -> None:
    made = CuratedLedger(tmp_path)
    async with made.open():
        await made.send(opened("census", filter="zcdp_tight", delta="1e-6"), "admin")
        async with made.curated():
            body = question(noise={"error": "20", "confidence": "0.95"})
            answer = await made.answer(await made.ask(body))
    assert isinstance(answer.claim, Zcdp)
    assert answer.statistics[0].law == "discrete_gaussian"
    assert abs(int(str(answer.values[0])) - ROWS) < 100


async def test_a_grant_that_nobody_announces_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(EmbeddedService):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.log.appended = Broadcast[Appended]().subscribe

    monkeypatch.setattr("streams.curator.log_follower._REREAD_S", 0.1)
    silent = CuratedLedger(tmp_path, Silent)
    async with silent.open():
        await silent.send(opened("census"), "admin")
        async with silent.curated():
            grant = await silent.ask(question())
            assert (await silent.answer(grant)).outcome == "answered"


async def test_a_request_that_states_a_claim_gets_no_answer(ledger: CuratedLedger) -> None:
    async with ledger.curated():
        plain = await ledger.ask(request("census"))
        await ledger.stored(await ledger.ask(question()))
        assert await ledger.store.get(plain) is None


async def test_a_stored_answer_is_never_drawn_again(ledger: CuratedLedger) -> None:
    async with ledger.curated():
        grants = [await ledger.ask(question()) for _ in range(5)]
        stored = [await ledger.stored(each) for each in grants]
    await ledger.store.move(0, (await ledger.store.place(0))._replace(number=0, head=""))
    async with ledger.curated() as again:
        last = await ledger.ask(question())
        await ledger.stored(last)
        await until(lambda: not len(again.counts.waiting), "everything is finished")
    assert sorted(ledger.answering.draws) == sorted([*grants, last])
    assert [await ledger.store.get(each) for each in grants] == stored


async def test_a_repeated_request_has_the_answer_of_its_first_decision(
    ledger: CuratedLedger,
) -> None:
    async with ledger.curated():
        body = question()
        grant = await ledger.ask(body)
        await ledger.stored(grant)
        assert (await ledger.send(body))["outcome"] == "repeated"
        await ledger.stored(await ledger.ask(question()))
    assert ledger.answering.draws.count(grant) == 1
    assert len(await ledger.store.page("census", after=0, limit=10)) == 2


async def test_grants_without_an_answer_get_one_after_a_restart(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        async with ledger.curated():
            await ledger.stored(await ledger.ask(question()))
        missed = [await ledger.ask(question()) for _ in range(3)]
    async with ledger.open(), ledger.curated():
        for each in missed:
            assert (await ledger.answer(each)).outcome == "answered"


async def test_a_store_that_is_lost_answers_nothing_again(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        async with ledger.curated():
            old = await ledger.ask(question())
            await ledger.stored(old)
    ledger.lose_answers()
    async with ledger.open(), ledger.curated():
        new = await ledger.ask(question())
        assert (await ledger.answer(new)).outcome == "answered"
        answer = await ledger.answer(old)
        assert (answer.outcome, answer.reason) == ("failed", FAILED)
    assert ledger.answering.draws.count(old) == 1


async def test_what_cannot_be_read_fails_in_the_same_words(ledger: CuratedLedger) -> None:
    ledger.data.unlink()
    async with ledger.curated(options=CuratorOptions(tick=0.05, turn_seconds=1)) as curator:
        missing = await ledger.answer(await ledger.ask(question()))
        write_data(ledger.data)
        ledger.data.write_text("age\n7\n")
        other = await ledger.answer(await ledger.ask(question(question={"ask": "count"})))
        await until(lambda: curator.counts.failed >= 1, "it is counted")
    assert missing.outcome == "failed"
    assert missing.reason == FAILED
    assert other.reason in {FAILED, msgspec.UNSET}
    alike = {"grant": "", "request_id": ""}
    if other.outcome == "failed":
        assert msgspec.structs.replace(missing, **alike) == msgspec.structs.replace(other, **alike)


async def test_a_question_that_breaks_the_code_fails_and_stops_no_other(
    ledger: CuratedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(question: GrantedQuestion) -> None:
        if question.request.purpose == "poison":
            raise ValueError("the secret cell 4711")

    answering = Counting(ledger.answering, breaks)
    async with ledger.curated(answering) as curator:
        sent = [question(purpose="poison" if i % 2 else "") for i in range(6)]
        answers = [await ledger.answer(await ledger.ask(each)) for each in sent]
        counts = curator.counts
        await until(lambda: (counts.answered, counts.failed) == (3, 3), "each is counted")
    assert [each.outcome for each in answers] == ["answered", "failed"] * 3
    assert all(each.reason == FAILED for each in answers[1::2])
    assert "ValueError" in caplog.text
    assert "4711" not in caplog.text


async def test_a_question_that_takes_too_long_fails(ledger: CuratedLedger) -> None:
    release = threading.Event()

    def breaks(question: GrantedQuestion) -> None:
        if question.request.purpose == "slow":
            assert release.wait(PATIENCE_S)

    options = CuratorOptions(tick=0.05, turn_seconds=1.5)  # enough for a quick one on any machine
    async with ledger.curated(Counting(ledger.answering, breaks), options):
        slow = await ledger.ask(question(purpose="slow"))
        try:
            assert (await ledger.answer(slow)).outcome == "failed"
        finally:
            release.set()
        assert (await ledger.answer(await ledger.ask(question()))).outcome == "answered"


async def test_a_claim_that_this_process_does_not_derive_never_runs(
    ledger: CuratedLedger,
) -> None:
    answer = await ledger.service.submit("requests", question(), wait=60)
    assert answer.decision is not None
    found = granted_question(0, answer.decision)
    assert found is not None
    view = await ledger.service.dataset("census")
    assert view is not None
    assert view.schema is not msgspec.UNSET
    cheaper = GrantedQuestion(
        **{name: getattr(found, name) for name in GrantedQuestion.__slots__}
        | {"claim": Pure(epsilon="0.5")}
    )
    ledger.data.unlink()  # it would fail in other ways if it were read
    with pytest.raises(ClaimDiffers):
        ledger.answering.open(cheaper, view.schema, DrawGuard())


async def test_two_draws_of_one_question_have_noise_of_their_own(ledger: CuratedLedger) -> None:
    answer = await ledger.service.submit("requests", question(epsilon="0.01"), wait=60)
    assert answer.decision is not None
    found = granted_question(0, answer.decision)
    assert found is not None
    view = await ledger.service.dataset("census")
    assert view is not None
    assert view.schema is not msgspec.UNSET
    drawn = {ledger.answering.open(found, view.schema, DrawGuard()).draw() for _ in range(8)}
    assert len(drawn) > 1, "the noise follows from the request"


async def test_a_differing_claim_is_counted(ledger: CuratedLedger) -> None:
    def breaks(_: GrantedQuestion) -> None:
        raise ClaimDiffers

    async with ledger.curated(Counting(ledger.answering, breaks)) as curator:
        assert (await ledger.answer(await ledger.ask(question()))).outcome == "failed"
        assert curator.counts.claim_differs == 1


async def test_answers_become_readable_at_ticks_alone(ledger: CuratedLedger) -> None:
    tick, late = 3.0, 1.5  # a commit takes time on a busy machine
    async with ledger.curated(options=CuratorOptions(tick=tick)):
        coming = ledger.store.subscribe()
        for pause in (0.05, 0.21, 0.32, 0.13):
            await ledger.ask(question())
            await asyncio.sleep(pause)
        for _ in range(4):
            async with asyncio.timeout(PATIENCE_S):
                await anext(coming)
            assert SystemClock().now() / 1000 % tick < late
        coming.close()


async def test_stopping_finishes_what_runs_and_starts_nothing(ledger: CuratedLedger) -> None:
    def breaks(_: GrantedQuestion) -> None:
        time.sleep(0.5)

    options = CuratorOptions(tick=0.05, at_once=1)
    answering = Counting(ledger.answering, breaks)
    async with ledger.curated(answering, options):
        grants = [await ledger.ask(question()) for _ in range(3)]
        await until(lambda: answering.draws, "one runs")
    stored = [await ledger.store.get(each) for each in grants]
    assert stored[0] is not None
    assert stored[2] is None
    async with ledger.curated():
        assert (await ledger.answer(grants[2])).outcome == "answered"


async def test_the_store_of_another_ledger_is_refused(ledger: CuratedLedger) -> None:
    await ledger.store.open_log(0, "another ledger", 0)
    with pytest.raises(Refused, match="Give each"):
        async with ledger.curated():
            pytest.fail("it has started")


async def test_a_dataset_without_questions_costs_the_curator_nothing(
    ledger: CuratedLedger,
) -> None:
    await ledger.send(opening("survey"), "admin")
    async with ledger.curated() as curator:
        for _ in range(20):
            await ledger.ask(request("survey"))
        await ledger.stored(await ledger.ask(question()))
        await until(lambda: curator.counts.answered == 1, "it is counted")
