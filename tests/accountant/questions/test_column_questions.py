"""What can be asked of each kind of column: each example runs, and a refusal names the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from accountant.display.columns import column_views
from accountant.errors import RequestInvalid
from accountant.questions import Schema, check_schema, parse_question
from accountant.questions.column_questions import questions_of
from accountant.questions.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    NumberColumn,
    TimeColumn,
)
from tests.accountant.questions.schemas import CENSUS, SOURCE, visits

COLUMNS: tuple[Column, ...] = (
    NumberColumn(name="two", lower="0", upper="1"),
    NumberColumn(name="part", lower="-0.5", upper="0.25", places=3),
    NumberColumn(name="all", lower="0", upper="999999999999999"),
    NumberColumn(name="net income", lower="-1000", upper="100000", places=2, step="50"),
    CategoryColumn(name="one", categories=("it's",)),
    CategoryColumn(name="many", categories=tuple(map(str, range(1000))), missing="7"),
    BooleanColumn(name="by", missing=False),
    DateColumn(name="all days", first="0001-01-01", last="9999-12-31"),
    DateColumn(name="a day", first="2026-03-01", last="2026-03-01"),
    TimeColumn(name="all times", first="0001-01-01", last="9999-12-31"),
)


@pytest.mark.parametrize(
    "schema",
    [CENSUS, visits(), replace(CENSUS, columns=COLUMNS, unit=visits().unit)],
    ids=["census", "visits", "ends"],
)
def test_each_example_runs_as_it_is_written(schema: Schema) -> None:
    for column in check_schema(schema).columns:
        found = questions_of(column)
        assert len(found) >= 2
        for each in found:
            assert column.name in parse_question(each, schema).column_names, each


def test_values_are_in_words_and_long_lists_are_cut() -> None:
    schema = check_schema(
        Schema(source=SOURCE, columns=COLUMNS, neighbours="replace", zone="Europe/Berlin")
    )
    values = {each.column.name: each.values for each in column_views(schema)}
    assert values == {
        "two": "0 to 1",
        "part": "-0.5 to 0.25, 3 digits after the point",
        "all": "0 to 999999999999999, no quantiles: its schema has no step of 100000000000 or more",
        "net income": "-1000 to 100000, 2 digits after the point, quantiles in steps of 50",
        "one": "it's",
        "many": "0, 1, 2, 3, 4, ... (1,000 categories), a missing one as 7",
        "by": "true or false, a missing one as false",
        "all days": "0001-01-01 to 9999-12-31, on the clocks of Europe/Berlin",
        "a day": "2026-03-01 to 2026-03-01, on the clocks of Europe/Berlin",
        "all times": "0001-01-01 to 9999-12-31, on the clocks of Europe/Berlin",
    }


def test_a_refusal_of_a_kind_names_the_same_questions() -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_question("mean(region)", CENSUS)
    *first, last = questions_of(CENSUS.find("region", field="column"))
    assert f"ask {', '.join(first)} or {last}" in str(refused.value)
