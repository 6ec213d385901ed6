"""A question on a source that is not its dataset's: granted by the ledger, and never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accountant.answers import NoisyAnswer
from streams.errors import Unavailable
from streams.sources.source_access import SourceAccess
from streams.sources.source_settings import CsvSource
from tests.faults.ledger import until
from tests.streams.curator.curated import CuratedLedger, member, opened, question, session


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    """A ledger whose source is for `census` and `again`; `mine` names it, too."""
    made = CuratedLedger(tmp_path)
    source = CsvSource(path=str(made.data), datasets=("census", "again"))
    made.access = SourceAccess({"census": source}, "population")
    async with made.open():
        for name in ("census", "mine"):
            await made.send(opened(name, population="city"), "admin")
            await made.send(member("curator", "curator", dataset=name), "admin")
        yield made


async def outcome(ledger: CuratedLedger, body: bytes) -> NoisyAnswer:
    """Ask past every server, and return the answer."""
    return await ledger.answer(await ledger.ask(body))


async def test_a_dataset_that_is_not_named_for_a_source_reads_no_row(
    ledger: CuratedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    async with ledger.curated() as curator:
        refused = await outcome(ledger, question("mine"))
        assert (refused.outcome, refused.values) == ("failed", ())
        assert ledger.answering.draws == []
        assert (await outcome(ledger, question("census"))).outcome == "answered"
        await until(lambda: curator.counts.failed == 1, "it is counted")
    assert "question_on_another_source" in caplog.text


async def test_a_question_waits_while_another_dataset_of_its_source_is_not_known(
    ledger: CuratedLedger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def check(dataset: str) -> None:
        if dataset == "again":
            raise Unavailable("a row is missing")

    monkeypatch.setattr(ledger.service, "check_is_known", check)
    async with ledger.curated():
        grant = await ledger.ask(question("census"))
        await until(lambda: "question_waits" in caplog.text, "it waits")
        assert ledger.answering.draws == []
        assert await ledger.store.get(grant) is None
        monkeypatch.undo()
        assert (await ledger.answer(grant)).outcome == "answered"


async def test_a_refused_session_never_begins_so_nothing_of_it_is_lost(
    ledger: CuratedLedger,
) -> None:
    async with ledger.curated():
        grant = await ledger.ask(session("mine"))
        assert (await ledger.answer(grant)).outcome == "failed"
    assert ledger.answering.draws == []
    found = ledger.service.open_reservation("mine", grant)
    assert found is not None
    assert found.stage == "reserved"  # its holder may void it, and everything comes back


async def test_a_named_dataset_of_other_people_reads_no_row(ledger: CuratedLedger) -> None:
    # Their budgets would not add up, so what one person loses had no bound.
    await ledger.send(opened("again", population="town"), "admin")
    async with ledger.curated():
        assert (await outcome(ledger, question("again"))).outcome == "failed"
        assert ledger.answering.draws == []
        assert (await outcome(ledger, question("census"))).outcome == "answered"


async def test_the_start_says_who_reads_a_source_and_the_watch_who_names_it(
    ledger: CuratedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with ledger.curated() as curator:
        await until(lambda: bool(curator.counts.unexpected_datasets), "it has looked")
        assert curator.counts.unexpected_datasets == {"census": 1}
    said = caplog.text
    assert "source_datasets" in said
    assert "census, again" in said
    assert "source_named_by_another_dataset" in said
    assert "'mine'" in said or "dataset=mine" in said
