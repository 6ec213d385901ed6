"""A question on what its source lacks, that no server has refused: granted, and never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from streams.curator.state_watch import StateWatch
from streams.sources.confirmed_facts import ConfirmedFacts
from streams.sources.source_facts import read_facts
from streams.sources.source_settings import CsvSource
from streams.sources.source_states import SourceStates
from tests.faults.ledger import until
from tests.streams.curator.curated import (
    SCHEMA,
    CuratedLedger,
    member,
    opened,
    question,
    session,
)

LACKS = {"ask": "mean", "column": "income"}
WIDER = SCHEMA | {
    "columns": [
        *SCHEMA["columns"],  # type: ignore[misc]
        {"type": "number", "name": "income", "lower": "0", "upper": "9"},
    ]
}
"""A schema of whose columns the source lacks one."""


class Ledger(CuratedLedger):
    """A ledger whose `census` reads all that its schema declares, and whose `wide` does not."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.sources = {"census": CsvSource(path=str(self.data))}
        self.confirmed = ConfirmedFacts(directory / "sources.json.confirmed")
        self.states = SourceStates(self.sources, self.confirmed)

    def confirm(self) -> None:
        """Confirm what the file has, as an owner."""
        self.confirmed.confirm("census", read_facts(self.sources["census"]))

    def header(self, names: str) -> None:
        """Replace the names of the file's columns."""
        _, _, rows = self.data.read_text().partition("\n")
        self.data.write_text(f"{names}\n{rows}")

    async def outcome(self, body: bytes) -> str:
        """Ask past every server; return what the answer says."""
        return (await self.answer(await self.ask(body))).outcome


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    made = Ledger(tmp_path)
    async with made.open():
        await made.send(opened("census", population="city"), "admin")
        await made.send(opened("wide", schema=WIDER, population="city"), "admin")
        for name in ("census", "wide"):
            await made.send(member("curator", "curator", dataset=name), "admin")
        yield made


async def test_a_question_on_what_the_source_lacks_fails_without_a_look_at_it(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    async with ledger.curated():
        assert await ledger.outcome(question("wide", question=LACKS)) == "failed"
        assert ledger.answering.draws == []
        assert await ledger.outcome(question("wide")) == "answered"
    assert "question_on_a_source_that_lacks_it" in caplog.text
    assert "column `income`: the source has no such column" in caplog.text


async def test_a_session_on_it_never_begins_so_its_holder_may_void_it(ledger: Ledger) -> None:
    async with ledger.curated():
        ledger.header("years,area")
        grant = await ledger.ask(session("census"))
        assert (await ledger.answer(grant)).outcome == "failed"
    found = ledger.service.open_reservation("census", grant)
    assert found is not None
    assert found.stage == "reserved"


async def test_a_change_stops_questions_until_it_is_confirmed(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    async with ledger.curated():
        assert await ledger.outcome(question()) == "answered"
        ledger.header("age,area")
        assert await ledger.outcome(question()) == "failed"
        assert "`region` is gone" in caplog.text
        ledger.confirm()
        assert await ledger.outcome(question()) == "answered"
        by_region = question(question={"ask": "count", "by": ["region"]})
        assert await ledger.outcome(by_region) == "failed"


async def test_a_question_waits_for_a_source_that_was_never_there(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    away = ledger.data.with_name("away.csv")
    ledger.data.rename(away)
    async with ledger.curated():
        grant = await ledger.ask(question())
        await until(lambda: "question_waits" in caplog.text, "it waits")
        assert ledger.answering.draws == []
        away.rename(ledger.data)
        assert (await ledger.answer(grant)).outcome == "answered"


async def test_the_start_says_what_sources_lack_and_the_watch_what_they_lack_by_then(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with ledger.curated() as curator:
        said = caplog.text
        assert "source_confirmed" in said
        assert "source_lacks_columns" in said
        assert "age text, region text" in said
        assert "dataset='wide'" in said or "dataset=wide" in said
        assert curator.counts.closed_sources == {"census": 0}
        assert curator.counts.source_findings == {"census": 1}
        assert ledger.states is not None
        assert ledger.states.note() is None
        caplog.clear()
        ledger.header("years,area")
        watch = StateWatch(ledger.service, ledger.access, ledger.states, curator.counts)
        await watch.look()
        assert curator.counts.closed_sources == {"census": 1}
        assert curator.counts.source_findings == {"census": 5}
        assert "source_closed" in caplog.text
        assert "`years` is new, of type text" in caplog.text
        await watch.look()
        assert caplog.text.count("source_closed") == 1
        ledger.header("age,region")
        await watch.look()
        assert curator.counts.closed_sources == {"census": 0}
        assert "source_open_again" in caplog.text
