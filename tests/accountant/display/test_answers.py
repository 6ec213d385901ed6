"""Answers as text and HTML: escaped, and rounded so that an interval only grows."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from accountant.answers import AnswerRow, GroupColumn, NoisyAnswer, failed_answer
from accountant.display.answers import (
    MAX_ROWS,
    answer_chart,
    answer_html,
    answer_in_short,
    answer_text,
    interval_text,
)
from tests.accountant.answers.runs import RUNS, answer, ask, zeros
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import CENSUS
from tests.every_case import check_rows

HOSTILE = "<script>alert('x')</script>\x1b&\""


def of(text: str, noise: str, number: int = 0) -> NoisyAnswer:
    question = ask(text, noise)
    statistics = [[Fraction(number)] * len(each) for each in zeros(question)]
    return answer(question, statistics, bits_of(1))


def test_one_value_is_one_line_with_its_interval_and_cost() -> None:
    lines = answer_text(of("count where age > 65", "epsilon: 0.5", 4286)).splitlines()
    value = r"count where age > 65: 42\d\d ± 18"
    assert re.fullmatch(f"{value}, 95 % interval of the bounded rows", lines[0])
    assert lines[1:] == ["bounds: at most 3 rows per person", "cost ε 0.5 (epsilon: 0.5)"]


def test_groups_are_a_table() -> None:
    lines = answer_text(of("count by region, smoker", "rho: 0.5", 100)).splitlines()
    assert lines[0] == "count by region, smoker, 95 % intervals of the bounded rows"
    assert lines[1].split() == ["region", "smoker", "count"]
    assert re.fullmatch(r"north +false +\d+ ± \d+", lines[2])
    assert len(lines) == 2 + 6 + 2
    top = answer_text(of("top(region, 2)", "epsilon: 1")).splitlines()
    assert top[1].split() == ["rank", "region"]
    assert [line.split()[0] for line in top[2:4]] == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("count", "at most 3 rows per person"),
        ("count rows 1", "at most 1 row per person"),
        ("histogram(region)", "at most 3 rows per person"),
        ("mean(income)", "at most 3 rows per person; income from -1000 to 250000.5"),
        ("median(age) by smoker", "at most 3 rows per person; age from 0 to 120"),
    ],
)
def test_an_answer_says_the_bounds_that_it_keeps_to(text: str, bounds: str) -> None:
    shown = of(text, "epsilon: 1")
    assert f"\nbounds: {bounds}\n" in answer_text(shown)
    assert f"<p>bounds: {bounds}</p>" in answer_html(shown)


def test_several_statistics_are_a_column_each() -> None:
    shown = of("count, mean(income), median(age) by region", "epsilon: 4")
    head, names, first, *rest = answer_text(shown).splitlines()
    assert head.startswith("count, mean(income), quantile(age, 0.5) by region, 95 % intervals")
    assert names.split("  ")[0] == "region"
    assert [each.strip() for each in names.split("  ") if each.strip()][1:] == [
        *("count", "mean(income)", "quantile(age, 0.5)"),
    ]
    assert first.startswith("north")
    assert "; income from -1000 to 250000.5; age from 0 to 120" in "\n".join(rest)
    html = answer_html(shown)
    assert "<th>mean(income)</th>" in html
    assert html.count("<tr>") == 4
    assert answer_in_short(shown) == "9 values"
    alone = of("count, sum(age)", "epsilon: 4")
    assert answer_in_short(alone).startswith("count ")
    assert ", sum(age) " in answer_in_short(alone)


def test_an_answer_says_that_each_row_is_a_unit() -> None:
    question = ask("count", "epsilon: 1", schema=msgspec.structs.replace(CENSUS, unit=UNSET))
    shown = answer(question, zeros(question), bits_of(1))
    assert "bounds: each row counts as one unit" in answer_text(shown)


def test_a_failed_answer_says_so() -> None:
    failed = failed_answer(ask("mean(age)", "epsilon: 1").granted)
    for shown in (answer_text(failed), answer_html(failed)):
        assert str(failed.reason) in shown
        assert "cost ε 1" in shown


def test_a_failed_session_costs_at_most_its_maximum() -> None:
    asked = ask("count", "epsilon: 2, laplace_reduction", "relative_error: 0.1")
    failed = failed_answer(asked.granted)
    for shown in (answer_text(failed), answer_html(failed)):
        assert "if its session began, its maximum stays charged" in shown
        assert "cost at most ε 2" in shown


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags = set[str]()
        self.attributes = set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_well_formed_and_has_no_script_or_style() -> None:
    def check_case(text: str, noise: str) -> None:
        tags = _Tags()
        tags.feed(answer_html(of(text, noise, 50)))
        assert not tags.open
        assert tags.tags <= {
            *("table", "caption", "thead", "tbody", "tr", "th", "td", "p"),
            *("svg", "g", "title", "text", "rect", "path"),
        }
        assert not {each for each in tags.attributes if each.startswith("on") or each == "style"}

    check_rows(check_case, RUNS)


def test_foreign_texts_are_escaped() -> None:
    first = of("histogram(region)", "epsilon: 1", 5)
    hostile = msgspec.structs.replace(
        first,
        groups=(GroupColumn(column=HOSTILE, values=(HOSTILE, "b", "c")),),
        question=msgspec.structs.replace(first.question, where=f"job = '{HOSTILE}'"),
    )
    html = answer_html(hostile)
    assert "<script" not in html
    assert "\x1b" not in html + answer_text(hostile)
    chosen = of("top(region, 1)", "epsilon: 1")
    assert "<script" not in answer_html(msgspec.structs.replace(chosen, values=(HOSTILE,)))


def test_a_chart_has_a_bar_and_an_interval_for_each_group() -> None:
    drawn = answer_chart(of("histogram(region) by smoker", "epsilon: 0.5", 40))
    chart = ET.fromstring(drawn)
    name = "{http://www.w3.org/2000/svg}"
    assert [len(chart.findall(f"{name}g/{name}{each}")) for each in ("rect", "path")] == [6, 6]
    width = float(chart.attrib["width"])
    for bar in chart.iter(f"{name}rect"):
        assert (
            0
            <= float(bar.attrib["x"])
            <= float(bar.attrib["x"]) + float(bar.attrib["width"])
            <= width
        )
    assert answer_chart(of("count", "epsilon: 1")) == ""
    assert answer_chart(of("top(region, 2)", "epsilon: 1")) == ""


def test_long_tables_end() -> None:
    first = of("histogram(region)", "epsilon: 1")
    number = MAX_ROWS + 50
    values = tuple([str(i) for i in range(number)])
    long = msgspec.structs.replace(
        first,
        groups=(GroupColumn(column="region", values=values),),
        values=values,
        low=values,
        high=values,
    )
    assert "and 50 more rows" in answer_text(long)
    assert answer_html(long).count("<tr>") == MAX_ROWS + 1
    assert answer_chart(long) == ""


def row(value: str, low: str, high: str) -> AnswerRow:
    return AnswerRow((), 0, value, low, high)


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        ("4286", "4268", "4304", "4286 ± 18"),
        ("20259951.89", "20240352.25", "20279551.53", "20259952 ± 19600"),
        ("48233.30979899", "41224.23024509", "55603.68211341", "48233 (41224 to 55604)"),
        ("0.123456", "0.1", "0.2", "0.123 (0.100 to 0.200)"),
        ("-3", "-3", "-3", "-3 ± 0"),
    ],
)
def test_values_have_as_many_digits_as_their_interval(
    value: str, low: str, high: str, shown: str
) -> None:
    assert interval_text(row(value, low, high)) == shown


DECIMALS = st.integers(0, 12).flatmap(
    lambda places: st.decimals(-(10**12), 10**12, allow_nan=False, places=places)
)


@given(DECIMALS, DECIMALS, DECIMALS)
def test_a_shown_interval_contains_the_exact_one(a: Decimal, b: Decimal, c: Decimal) -> None:
    low, value, high = sorted((a, b, c))
    shown = interval_text(row(f"{value:f}", f"{low:f}", f"{high:f}"))
    numbers = [Decimal(each) for each in re.findall(r"-?[0-9.]+", shown)]
    if "±" in shown:
        numbers = [numbers[0], numbers[0] - numbers[1], numbers[0] + numbers[1]]
    assert numbers[1] <= low <= high <= numbers[2]
