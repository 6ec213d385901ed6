"""One analyst's questions do not stop another's, and an owner can end them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from streams.answers.granted import GrantedQuestion
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.metrics import CuratorMetrics
from streams.curator.start import make_curator
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from tests.faults.ledger import until
from tests.nightly import rounds
from tests.streams.clock import TestClock
from tests.streams.curator.curated import (
    Counting,
    CuratedLedger,
    brake,
    comes_true,
    member,
    opened,
    question,
    session,
)

STARTS = ()

_COSTLY_S = 0.05
MANY = rounds(60, 1_000)
"""Costly questions that wait when a cheap one comes."""


class CostlyLedger(CuratedLedger):
    """A ledger whose questions of `ana` take their time."""

    async def ask_many(self, count: int, dataset: str = "census") -> list[str]:
        asked = (self.ask(question(dataset, epsilon="0.0001")) for _ in range(count))
        return await asyncio.gather(*asked)

    def costly(self) -> Counting:
        self.analysts = list[str]()
        """Who had a turn, in their order."""

        def breaks(question: GrantedQuestion) -> None:
            self.analysts.append(question.request.analyst)
            if question.request.analyst == "ana":
                time.sleep(_COSTLY_S)

        return Counting(self.answering, breaks)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CostlyLedger]:
    made = CostlyLedger(tmp_path)
    async with made.open():
        await made.send(opened("census"), "admin")
        await made.send(member("curator", "curator"), "admin")
        await made.store.open_log(0, await made.id(), 0)
        yield made


async def test_a_cheap_question_has_its_turn_before_a_thousand_costly_ones(
    ledger: CostlyLedger,
) -> None:
    await ledger.ask_many(1_020)
    cheap = await ledger.ask(question(analyst="bob"))
    async with ledger.curated(ledger.costly(), CuratorOptions(tick=0.05)):
        assert (await ledger.answer(cheap)).outcome == "answered"
    assert "bob" in ledger.analysts[: 2 * 3]


async def test_a_cheap_question_that_comes_later_waits_for_three_turns_at_most(
    ledger: CostlyLedger,
) -> None:
    await ledger.ask_many(MANY)
    async with ledger.curated(ledger.costly(), CuratorOptions(tick=0.05)) as curator:
        await until(lambda: len(curator.counts.waiting) == MANY, "all of them wait")
        before = len(ledger.analysts)
        cheap = await ledger.ask(question(analyst="bob"))
        assert (await ledger.answer(cheap)).outcome == "answered"
    assert "bob" in ledger.analysts[before : before + 2 * 3]


async def test_a_question_waits_for_one_turn_of_an_engine_whoever_it_asks_for(
    ledger: CostlyLedger,
) -> None:
    await ledger.send(member("app", "engine"), "admin")
    for i in range(12):
        await ledger.ask(question(analyst=f"person-{i}", via="app"))
    cheap = await ledger.ask(question(analyst="bob"))
    async with ledger.curated(ledger.costly(), CuratorOptions(tick=0.05)):
        assert (await ledger.answer(cheap)).outcome == "answered"
    assert "bob" in ledger.analysts[: 2 * 3]


async def test_questions_that_are_refused_hold_no_place_until_the_tick(
    ledger: CostlyLedger,
) -> None:
    # Their dataset may not read the source, so they fail without a look at it.
    await ledger.send(opened("mine"), "admin")
    refused = await ledger.ask_many(20, "mine")
    cheap = await ledger.ask(question(analyst="bob"))

    async def all_refused() -> bool:
        found = [await ledger.store.get(each) for each in refused]
        return None not in found

    async with ledger.curated(options=CuratorOptions(tick=3.0)):
        assert (await ledger.answer(cheap)).outcome == "answered"
        # Two at a time would take ten ticks.
        assert await comes_true(all_refused, seconds=11.0)


@pytest.mark.parametrize("analyst", ["ana", None])
async def test_an_owner_ends_the_questions_that_wait(
    ledger: CostlyLedger, analyst: str | None
) -> None:
    grants = [*await ledger.ask_many(20), await ledger.ask(session())]
    of_bob = await ledger.ask(question(analyst="bob"))
    async with ledger.curated(ledger.costly(), CuratorOptions(tick=0.05, at_once=1)) as curator:
        await until(lambda: len(ledger.analysts) == 1, "the first one runs")
        assert curator.end_questions("other") == 0
        assert curator.end_questions("census", "eva") == 0
        ended = curator.end_questions("census", analyst)
        assert curator.end_questions("census", analyst) == 0, "they were ended already"
        found = [(await ledger.answer(each)).outcome for each in grants]
        assert found.count("answered") == 1, "what runs gets its answer"
        assert (await ledger.answer(of_bob)).outcome == ("answered" if analyst else "failed")
        later = await ledger.ask(question())
        assert (await ledger.answer(later)).outcome == "answered", "later ones run"
        await until(lambda: not len(curator.counts.waiting), "nothing waits")
    assert ended == (20 if analyst else 21)
    assert curator.counts.ended == ended
    with pytest.raises(Unavailable, match="Start it again, then end them"):
        curator.end_questions("census")
    assert ledger.analysts.count("ana") == 2


async def test_a_session_that_waits_for_the_end_of_a_pause_can_be_ended(
    ledger: CostlyLedger,
) -> None:
    grant = await ledger.ask(session())
    await ledger.send(brake("pause"), "admin")
    async with ledger.curated() as curator:
        await until(lambda: len(curator.counts.waiting) == 1, "it waits")
        assert curator.end_questions("census") == 1
        assert await comes_true(lambda: ledger.store.get(grant))
        assert (await ledger.answer(grant)).outcome == "failed"
    reservation = ledger.service.open_reservation("census", grant)
    assert reservation is not None
    assert reservation.stage == "reserved", "it never began, and its analyst may void it"


async def test_more_than_the_most_of_one_name_fail_at_once(
    ledger: CostlyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.curator.log_follower.MAX_OF_A_NAME", 5)
    grants = await ledger.ask_many(8)
    of_bob = await ledger.ask(question(analyst="bob"))
    async with ledger.curated(ledger.costly()):
        found = [(await ledger.answer(each)).outcome for each in grants]
        assert (await ledger.answer(of_bob)).outcome == "answered"
    assert found.count("failed") == 3


async def test_metrics_count_what_waits_by_dataset(ledger: CostlyLedger) -> None:
    await ledger.send(opened("mine"), "admin")
    curator: Curator
    async with ledger.curated(ledger.costly(), CuratorOptions(tick=0.05, at_once=1)) as curator:
        await ledger.ask(question("mine"))
        await until(lambda: not len(curator.counts.waiting), "it is finished")
        await ledger.ask_many(3)
        await until(lambda: len(curator.counts.waiting) == 3, "they wait")
        later = TestClock(max(curator.counts.waiting.oldest().values()) + 60_000)
        found = {
            (each.name, sample.labels["dataset"]): sample.value
            for each in CuratorMetrics(curator.counts, later).collect()
            for sample in each.samples
            if "dataset" in sample.labels
        }
    assert found["privacy_questions_waiting", "census"] == 3
    assert found["privacy_questions_waiting", "mine"] == 0
    assert found["privacy_question_wait_seconds", "census"] >= 60
    assert found["privacy_question_wait_seconds", "mine"] == 0


async def test_a_session_whose_begin_is_not_decided_lets_others_have_their_turn(
    ledger: CostlyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.curator.question_runner._BEGIN_S", 0.2)
    submit, released = ledger.service.submit, asyncio.Event()

    async def undecided(source: Any, body: bytes, **more: Any) -> Any:
        if b'"type":"begin"' in body:
            await released.wait()
        return await submit(source, body, **more)

    monkeypatch.setattr(ledger.service, "submit", undecided)
    waiting = await ledger.ask(session())
    async with ledger.curated(options=CuratorOptions(tick=0.05, at_once=1)):
        cheap = await ledger.ask(question(analyst="bob"))
        came = await comes_true(lambda: ledger.store.get(cheap))
        begun = await ledger.store.get(waiting)
        released.set()
        assert (came, begun) == (True, None)
        assert (await ledger.answer(waiting)).outcome == "answered", "it begins later, once"


async def test_no_source_may_take_longer_than_a_turn(ledger: CostlyLedger) -> None:
    sources = ledger.directory / "sources.json"
    sources.write_text(
        json.dumps({"census": {"kind": "csv", "path": str(ledger.data), "seconds": 151}})
    )
    sources.chmod(0o600)
    settings = Settings(data_sources=sources)
    with pytest.raises(Refused, match="ACCOUNTANT_CURATOR_TURN_SECONDS to at least 906"):
        make_curator(ledger.service, ledger.store, settings)
    longer = settings.model_copy(update={"curator_turn_seconds": 906})
    make_curator(ledger.service, ledger.store, longer)
