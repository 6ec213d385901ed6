"""`verify.py`, which imports nothing of the product, finds the noise of each kind of question."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.answers import encode_answer
from accountant.policy import Neighbours
from accountant.questions import encode_schema
from accountant.questions.schema import DateColumn, TimeColumn, UnitColumn
from accountant.questions.sensitivity import VectorStatistic
from streams.evidence import verify
from tests.accountant.answers.runs import RUNS, Asked, answer, ask, zeros
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import CENSUS, replaced, visits
from tests.every_case import check_each

RELATIONS: list[Neighbours] = ["add_remove", "replace"]
OF_CENSUS = [
    *("count by band(age, 18, 65)", "count by band(age, 0, 120)", "count by band(age, width 120)"),
    *("sum(age) by band(age, width 50)", "histogram(age, width 10)", "histogram(age, width 120)"),
    *("histogram(clamp(age, 10, 20), width 30)", "histogram(smoker)", "sum(clamp(age, 18, 65))"),
    *("mean(clamp(age, 18, 65)) by smoker", "variance(clamp(age, 18, 65))"),
    "mean(clamp(age, 18, 65)), count, sum(income)",
]
OF_DATES = [
    f"count by {part}({column})"
    for column, parts in (("d", ("year", "quarter", "month", "week", "day", "weekday")), ("t", ()))
    for part in (*parts, *(("hour", "day") if column == "t" else ()))
]
RANGES = [("2025-11-01", "2026-02-28"), ("2026-03-02", "2026-03-08"), ("2026-03-02", "2026-03-02")]


def records(asked: Asked) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return an answer, its claim and its schema as records of JSON."""
    found = msgspec.json.decode(encode_answer(answer(asked, zeros(asked), bits_of(1))))
    return found, found["claim"], msgspec.json.decode(encode_schema(asked.checked.schema))


def why_not(asked: Asked) -> str:
    """Return why the noise of an honest answer is not accepted, "" if it is."""
    try:
        return "" if verify.check_noise(*records(asked), None) else "left to the audit"
    except verify.Wrong as error:
        return str(error)


def test_the_noise_of_each_question_is_at_its_claim() -> None:
    def check_case(run: tuple[str, str], relation: Neighbours) -> None:
        asked = ask(*run, schema=replaced(CENSUS, neighbours=relation))
        draws = asked.derivation.draws
        if all(isinstance(draw.statistic, VectorStatistic) for draw in draws):
            assert verify.check_noise(*records(asked), None)

    check_each(check_case, RUNS, RELATIONS)


def test_bands_and_narrower_bounds_are_read_from_the_question() -> None:
    def check_case(text: str, relation: Neighbours) -> None:
        asked = ask(text, "epsilon: 0.5", schema=replaced(CENSUS, neighbours=relation))
        assert not why_not(asked)

    check_each(check_case, OF_CENSUS, RELATIONS)


def test_parts_of_dates_are_one_group_or_more() -> None:
    def check_case(text: str, relation: Neighbours, ends: tuple[str, str]) -> None:
        first, last = ends
        columns = (
            DateColumn(name="d", first=first, last=last),
            TimeColumn(name="t", first=first, last=last),
        )
        asked = ask(text, "epsilon: 0.5", schema=visits(columns=columns, neighbours=relation))
        assert not why_not(asked)

    check_each(check_case, OF_DATES, RELATIONS, RANGES)


PER_GROUP = [
    *("count by region, job rows_per_group 2", "sum(income) by region rows_per_group 1"),
    *("mean(age) by band(age, width 30), smoker rows_per_group 3", "count rows_per_group 2"),
    *("histogram(age, width 10) rows 5 rows_per_group 2", "sum(income) by job rows_per_group 4"),
]


def test_rows_in_each_group_are_read_from_the_question() -> None:
    def check_case(text: str, noise: str, relation: Neighbours) -> None:
        unit = UnitColumn(column="person", rows=7)
        schema = replaced(CENSUS, neighbours=relation, unit=unit)
        assert not why_not(ask(text, noise, schema=schema))

    check_each(check_case, PER_GROUP, ["epsilon: 0.5", "rho: 0.01"], RELATIONS)


def test_groups_of_dates_are_counted() -> None:
    def check_case(text: str, ends: tuple[str, str]) -> None:
        first, last = ends
        columns = (
            DateColumn(name="d", first=first, last=last),
            TimeColumn(name="t", first=first, last=last),
        )
        unit = UnitColumn(column="unit", rows=500)
        schema = visits(columns=columns, unit=unit)
        assert not why_not(ask(f"{text} rows_per_group 1", "epsilon: 0.5", schema=schema))

    check_each(check_case, OF_DATES, RANGES)


def test_bounds_that_the_noise_does_not_name_are_left_to_the_audit() -> None:
    two = "mean(age), sum(clamp(age, 18, 65))"
    assert not verify.check_noise(*records(ask(two, "epsilon: 0.5")), None)


def test_noise_by_narrower_bounds_than_the_question_s_is_found() -> None:
    narrow, wide = (
        records(ask(text, "epsilon: 1")) for text in ("sum(clamp(age, 18, 65))", "sum(age)")
    )
    forged = {**wide[0], "statistics": narrow[0]["statistics"]}
    with pytest.raises(verify.Wrong, match="at its claim"):
        verify.check_noise(forged, *wide[1:], None)


def test_less_noise_than_was_claimed_is_found() -> None:
    for text in ("mean(age) by region", "variance(income)"):
        asked = ask(text, "epsilon: 1")
        found, claim, schema = records(asked)
        found["statistics"][-1]["scale"] = str((asked.derivation.draws[-1].scale or 0) / 2)
        with pytest.raises(verify.Wrong, match="at its claim"):
            verify.check_noise(found, claim, schema, None)
