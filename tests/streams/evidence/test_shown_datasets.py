"""verify.py: what a folder shows of each dataset follows from the dataset's decisions."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from streams.evidence import verify
from tests.accountant.world import opened
from tests.golden.replayed_logs import LOGS, played
from tests.streams.evidence.dataset_rows import rows_of, write_rows
from tests.streams.evidence.test_verify import LONG

Rows = list[dict[str, Any]]
WHOLE = {"chained": True}


@lru_cache
def taken(name: str) -> tuple[verify.Log, Rows, list[bytes]]:
    """Return a golden log, verified, and the rows of its datasets."""
    log, values = verify.Log(), played(name).log
    for value in values:
        log.take(value)
    return log, rows_of(values), values


def compared(folder: Path, name: str, rows: Rows) -> list[str]:
    """Compare rows with a golden log; return what is not proved."""
    log = copy.copy(taken(name)[0])
    log.outside = []
    write_rows(folder, rows)
    verify.check_datasets(folder, WHOLE, log)
    return log.outside


@pytest.mark.parametrize("name", [name for name in LOGS if name not in LONG])
def test_what_the_product_shows_agrees(tmp_path: Path, name: str) -> None:
    assert compared(tmp_path, name, taken(name)[1]) == []


def _set(*places: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        inner = row
        for place in places[:-1]:
            inner = inner[place]
        assert inner.get(places[-1]) != to
        inner[places[-1]] = to

    return change


def _drop(field: str) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.pop(field)


FORGED = [
    ("records", "census", _set("guarantee", to=""), "guarantee of census"),
    ("records", "census", _set("guarantee", to="if_bounded"), "guarantee of census"),
    ("records", "census", _set("recorded", to=False), "recorded of census"),
    ("records", "census", _set("over_budget", to=False), "over_budget of census"),
    ("records", "before", _drop("spent"), "spent of"),
    ("budgets", "census", _set("left", "epsilon", to="9"), "left.epsilon of census"),
    ("budgets", "census", _set("budget", "epsilon", to="9"), "budget.epsilon of census"),
    ("budgets", "census", _set("in_force", "epsilon", to="9"), "in_force.epsilon of census"),
    ("budgets", "census", _set("ceiling", "epsilon", to="9"), "ceiling.epsilon of census"),
    ("budgets", "census", _drop("in_force"), "in_force of census"),
    ("budgets", "gauss", _set("odometers", to={}), "odometers of gauss"),
    ("joint", "rho", _set("rounded_up", to={}), "rounded_up of rho"),
    ("labels", "census", _set("label", to="harmless"), "label of census"),
    ("members", "census", _set("policy", "access", to="anyone"), "policy.access of census"),
    ("members", "census", _set("totals", "mechanisms", to=0), "totals.mechanisms of census"),
    ("members", "census", _set("sequence", to=999), "sequence of census"),
    ("members", "census", _set("opened_at", to="2020"), "opened_at of census"),
    ("members", "census", _set("last_decided_at", to="2020"), "last_decided_at of census"),
    ("members", "census", _set("paused", to=False), "paused of census"),
    ("members", "census", _set("partition_sequence", to=999), "datasets.jsonl shows census as of"),
    ("members", "census", _set("partition_sequence", to=0), "datasets.jsonl shows census as of"),
    ("questions", "basic", _set("schema", "columns", to=[]), "schema.columns of basic"),
    ("reservations", "one", _set("open_reservations", to=7), "open_reservations of one"),
    ("reservations", "one", _set("reserved", "rho", to="0"), "reserved.rho of one"),
    ("reservations", "one", _set("broken", to=3), "broken of one"),
    ("labels", "census", _set("horizon_ends_at", to="2030"), "horizon_ends_at of census"),
    ("renewals", "census", _set("closed", to=False), "closed of census"),
    ("renewals", "census", _set("closed_at", to=None), "closed_at of census"),
    ("renewals", "census", _set("granted_at", to=None), "granted_at of census"),
    ("renewals", "census", _set("renewed_as", to=""), "renewed_as of census"),
    ("renewals", "census::2", _set("generation", to=1), "generation of census::2"),
    ("renewals", "other", _set("lifetime", "spent", "rho", to="9"), "lifetime.spent.rho of other"),
    ("renewals", "census", _drop("lifetime"), "lifetime of census"),
    ("renewals", "census", _set("lifetime_guarantee", to="void"), "lifetime_guarantee of census"),
    (
        "populations",
        "visits",
        _set("lifetime", "spent", "epsilon", to="1"),
        "lifetime.spent.epsilon of visits",
    ),
    ("populations", "alone", _set("dataset", to="new"), "datasets.jsonl does not show alone"),
]


@pytest.mark.parametrize(
    ("name", "dataset", "change", "why"), FORGED, ids=[f"{n} {why}" for n, _, _, why in FORGED]
)
def test_what_a_forger_shows_is_found(
    tmp_path: Path, name: str, dataset: str, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    rows = copy.deepcopy(taken(name)[1])
    change(next(row for row in rows if row["dataset"] == dataset))
    with pytest.raises(verify.Wrong, match=f"^{re.escape(why)}"):
        compared(tmp_path, name, rows)


@pytest.mark.parametrize("name", ["records", "renewals", "populations"])
def test_a_dataset_that_is_not_shown_is_missed(tmp_path: Path, name: str) -> None:
    rows = taken(name)[1]
    for place, row in enumerate(rows):
        with pytest.raises(verify.Wrong, match=f"does not show {row['dataset']}$"):
            compared(tmp_path, name, rows[:place] + rows[place + 1 :])


def test_a_horizon_ends_so_many_days_after_the_opening(tmp_path: Path) -> None:
    world, log = opened(filter="basic", epsilon="1", horizon="P365D"), verify.Log()
    for value in world.log:
        log.take(value)
    rows = rows_of(world.log)
    assert rows[0]["horizon_ends_at"]
    write_rows(tmp_path, rows)
    verify.check_datasets(tmp_path, WHOLE, log)
    rows[0]["horizon_ends_at"] = "2099-01-01T00:00:00.000Z"
    write_rows(tmp_path, rows)
    with pytest.raises(verify.Wrong, match=r"^horizon_ends_at of census"):
        verify.check_datasets(tmp_path, WHOLE, log)


def test_no_dataset_is_shown_twice(tmp_path: Path) -> None:
    with pytest.raises(verify.Wrong, match=r"rows of datasets\.jsonl"):
        compared(tmp_path, "labels", taken("labels")[1] * 2)


def test_the_guarantee_of_a_lifetime_is_the_worst_of_all_its_datasets(tmp_path: Path) -> None:
    log, rows, _ = taken("populations")
    log, rows = copy.deepcopy(log), copy.deepcopy(rows)
    log.datasets["costs"].last["guarantee"] = "void"
    next(row for row in rows if row["dataset"] == "costs")["guarantee"] = "void"
    write_rows(tmp_path, rows)
    with pytest.raises(verify.Wrong, match=r"^lifetime_guarantee of \S+ .* must be void"):
        verify.check_datasets(tmp_path, WHOLE, log)


def test_rows_of_an_earlier_time_are_not_proved(tmp_path: Path) -> None:
    """Datasets are read before the log: it may have more."""
    values = taken("populations")[2]
    said = compared(tmp_path, "populations", rows_of(values[:8]))
    assert "datasets.jsonl shows wages as of another record" in said


def test_an_owner_of_one_dataset_has_its_row_alone(tmp_path: Path) -> None:
    log, rows, values = verify.Log(), *taken("renewals")[1:]
    for value in values:
        record = verify.parse(value)
        if record.get("dataset") == "other":
            log.decision(record, "")
    own = [row for row in rows if row["dataset"] == "other"]
    manifest = {"chained": False, "dataset": "other"}
    write_rows(tmp_path, own)
    verify.check_datasets(tmp_path, manifest, log)
    write_rows(tmp_path, rows)
    with pytest.raises(verify.Wrong, match="which was never opened"):
        verify.check_datasets(tmp_path, manifest, log)
    write_rows(tmp_path, [])
    with pytest.raises(verify.Wrong, match=r"datasets\.jsonl does not show other$"):
        verify.check_datasets(tmp_path, manifest, log)
