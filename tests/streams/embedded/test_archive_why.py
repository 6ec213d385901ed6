"""Why a budget is as it is, where the log's beginning is in an archive."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from accountant.records import decode_decision
from accountant.records.outcomes import Outcome
from accountant.views.why import Why
from streams.embedded.ledger_file import read_decisions
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill, ledger_of


@pytest.fixture
def used(file: Path, clock: TestClock) -> Path:
    fill(file, clock)
    return file


def why(file: Path, clock: TestClock, dataset: str) -> Why:
    with ledger_of(file, clock) as ledger:
        found = ledger.why(dataset, analyst="a0")
    assert found is not None
    return found


def forget_index(file: Path) -> None:
    for suffix in (".index", ".index-wal", ".index-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("dataset", ["census", "survey"])
def test_after_archiving_the_sums_stay_and_finer_rows_begin_with_the_rest(
    used: Path, clock: TestClock, tmp_path: Path, dataset: str
) -> None:
    before = why(used, clock, dataset)
    assert before.since is None
    assert before.refusals or dataset == "census"
    archive_file(used, clock, tmp_path / "old.jsonl.gz")
    kept = [decode_decision(value) for value in read_decisions(used)]
    of_dataset = [each for each in kept if each.dataset == dataset and each.sequence is not None]
    for _ in range(2):  # with the old index, which has all, and with one of the seal
        after = why(used, clock, dataset)
        for table in ("by_analyst", "by_purpose", "by_week", "by_team", "spent", "left"):
            assert getattr(after, table) == getattr(before, table)
        forget_index(used)
    assert of_dataset
    assert after.since == of_dataset[0].sequence
    refused = [each for each in of_dataset if each.outcome is Outcome.REFUSED]
    assert sum(each.refused for each in after.refusals) == len(refused)
    granted = {each.sequence for each in of_dataset if each.granted}
    assert {each.sequence for each in after.largest} <= granted
    whole = {each.days: each.spent for each in after.forecasts if each.scope == "all"}
    assert whole == {each.days: each.spent for each in before.forecasts if each.scope == "all"}
    cost = sum(
        Fraction(next(iter((each.cost or {}).values())))
        for each in of_dataset
        if each.granted and b'"analyst":"a0"' in bytes(each.request)
    )
    assert {Fraction(each.spent) for each in after.forecasts if each.name == "a0"} == {cost}


def test_an_archived_dataset_without_new_requests_begins_after_its_last_decision(
    file: Path, clock: TestClock, tmp_path: Path
) -> None:
    with ledger_of(file, clock) as ledger:
        ledger.as_owner("owner").open("quiet", {"filter": "basic", "epsilon": "1"}, as_given=True)
        ledger.ask("quiet", "pure:0.1", analyst="a0")
    clock.pass_(seconds=3 * 3600)
    fill(file, clock)
    archive_file(file, clock, tmp_path / "old.jsonl.gz")
    forget_index(file)
    found = why(file, clock, "quiet")
    assert (found.since, found.spent, found.largest) == (3, "0.1", ())
    with ledger_of(file, clock) as ledger:
        ledger.ask("quiet", "pure:0.2", analyst="a0")
    found = why(file, clock, "quiet")
    assert (found.since, found.spent) == (3, "0.3")
    assert [each.cost for each in found.largest] == ["0.2"]
