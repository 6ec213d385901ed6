"""Questions as text and on the wire, and what a schema refuses of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.errors import RequestInvalid
from accountant.questions import (
    Question,
    check_question,
    encode_question,
    parse_question,
    question_text,
)
from accountant.questions.statistics import WORDS, CountQuestion, MeanQuestion, QuantileQuestion
from tests.accountant.questions.schemas import CENSUS
from tests.every_case import check_rows


def test_a_question_has_one_text_and_one_form_in_bytes() -> None:
    def check_case(text: str, canonical: str, wire: str) -> None:
        checked = parse_question(text, CENSUS)
        assert question_text(checked.question) == canonical
        assert parse_question(canonical, CENSUS) == checked
        decoded = msgspec.json.decode(encode_question(checked), type=Question)
        assert check_question(decoded, CENSUS) == checked
        fields = msgspec.json.decode(encode_question(checked))
        assert fields == msgspec.json.decode(wire)
        assert next(iter(fields)) == "ask"

    check_rows(
        check_case,
        [
            ("count", "count", '{"ask":"count"}'),
            (
                "count where age>65",
                "count where age > 65",
                '{"ask":"count","where":"age > 65"}',
            ),
            (
                "mean( income )by region",
                "mean(income) by region",
                '{"ask":"mean","column":"income","by":["region"]}',
            ),
            (
                "sum(age) rows 2 BY job, smoker WHERE job = 'no'",
                "sum(age) where job = 'no' by job, smoker rows 2",
                (
                    '{"ask":"sum","column":"age","where":"job = \'no\'",'
                    '"by":["job","smoker"],"rows":2}'
                ),
            ),
            ("variance(age)", "variance(age)", '{"ask":"variance","column":"age"}'),
            (
                "median(age)",
                "quantile(age, 0.5)",
                '{"ask":"quantile","column":"age","fraction":"0.5"}',
            ),
            (
                "quantile(age, 00.90)",
                "quantile(age, 0.9)",
                '{"ask":"quantile","column":"age","fraction":"0.9"}',
            ),
            ("histogram(region)", "histogram(region)", '{"ask":"histogram","column":"region"}'),
            (
                "top(region, 2) by job",
                "top(region, 2) by job",
                '{"ask":"top","column":"region","most":2,"by":["job"]}',
            ),
        ],
    )


def test_what_a_schema_does_not_allow_is_refused() -> None:
    def check_case(text: str, error: str) -> None:
        with pytest.raises(RequestInvalid) as raised:
            parse_question(text, CENSUS)
        assert error in str(raised.value)

    check_rows(
        check_case,
        [
            (
                "",
                f"one of {', '.join(WORDS)} at character 1",
            ),
            ("counts", "counts: did you mean count?"),
            ("select 1", "one of count, sum"),
            (
                "count(age)",
                "the end at character 6, got (: count has no column: write count, as",
            ),
            (
                "count were age > 5",
                "a comma, where, by, rows, rows_per_group or the end at character 7, got were",
            ),
            (
                "count where age > 5 smoker",
                "must have and, or, where, by, rows, rows_per_group or the end at",
            ),
            (
                "count by job region",
                "must have a comma, where, by, rows, rows_per_group or the end at character 14",
            ),
            ("count where", "must have a column, not or ( at character 12, got the end"),
            ("count where age > 5 where age > 6", "must have where only once at character 21"),
            ("mean income", "must have ( at character 6, got income"),
            ("mean(income", "must have ) at character 12, got the end"),
            ("mean()", "must have a column at character 6, got )"),
            ("mean(incom)", "column incom: did you mean income? column must name a column"),
            (
                "mean(region)",
                "got region, a category column: ask histogram(region)",
            ),
            ("histogram(age)", "got age: write histogram(age, width 10)"),
            ("top(smoker, 1)", "got smoker, a boolean column: ask count by smoker"),
            ("count(*)", "at character 7, got *: count has no column: write count, as in"),
            ("quantile(age)", "must have , at character 13, got ): write quantile(age, 0.5)"),
            ("top(region)", "must have , at character 11, got ): write top(region, 3)"),
            (
                "quantile(age, x)",
                "must have a fraction between 0 and 1, such as 0.9 at character 15",
            ),
            ("quantile(age, 1.5)", "fraction must be between 0 and 1, got 1.5"),
            ("quantile(age, -1)", "fraction must be between 0 and 1, got -1"),
            (
                "quantile(age, 1e-1)",
                "must have a fraction between 0 and 1, such as 0.9 at character 15",
            ),
            ("median(income)", "this dataset has no quantiles of income, and its schema cannot"),
            ("top(region, 0)", "most must be between 1 and 3, got 0"),
            ("top(region, 4)", "most must be between 1 and 3, got 4"),
            ("top(region, 1.5)", "must have a whole number of at most 9 digits at character 13"),
            (
                "count by age",
                "got age, a number column: write band(age, width 10), or band(age, 0, 18, 65)",
            ),
            (
                "count by person",
                "got person: the schema's columns are age, income, region, job, smoker",
            ),
            ("count by job, job", "by[1] must be a column that is not named before, got job"),
            ("histogram(job) by job", "by[0] must be a column that is not named before, got job"),
            ("top(job, 1) by job", "by[0] must be a column that is not named before, got job"),
            ("count by job, region, smoker, age", "by must be at most 3 columns, got 4 columns"),
            ("count rows 4", "rows must be between 1 and 3, the schema's rows per unit, got 4"),
            ("count rows 0", "rows must be between 1 and 3"),
            ("count rows -1", "must have a whole number of at most 9 digits at character 12"),
        ],
    )


def test_a_filter_on_the_wire_is_checked_and_made_canonical() -> None:
    checked = check_question(CountQuestion(where="AGE".lower() + ">65 AND smoker=TRUE"), CENSUS)
    assert checked.question.where == "age > 65 and smoker = true"
    with pytest.raises(RequestInvalid, match="where must have a number for age") as raised:
        check_question(MeanQuestion(column="age", where="age > 'x'"), CENSUS)
    assert raised.value.field == "where"
    long = " or ".join(["age>123456789012345"] * 85)  # the canonical text has more spaces
    with pytest.raises(RequestInvalid, match="2000 characters in its canonical form"):
        check_question(CountQuestion(where=long), CENSUS)


@pytest.mark.parametrize("fraction", ["0.50", "5e-1", ".5", "1/2", "", "nan"])
def test_a_fraction_on_the_wire_has_one_spelling(fraction: str) -> None:
    with pytest.raises(RequestInvalid, match="fraction must be a decimal such as"):
        check_question(QuantileQuestion(column="age", fraction=fraction), CENSUS)


def test_a_question_may_have_so_many_groups() -> None:
    many = tuple(map(str, range(500)))
    columns = (
        msgspec.structs.replace(CENSUS.columns[0], step="1"),
        *(msgspec.structs.replace(CENSUS.columns[2], name=name, categories=many) for name in "cd"),
    )
    schema = msgspec.structs.replace(CENSUS, columns=columns)
    with pytest.raises(RequestInvalid, match=r"by must make at most 10000 groups.*got 250000"):
        parse_question("count by c, d", schema)
    with pytest.raises(RequestInvalid, match=r"by must make at most 10000 groups.*got 60500"):
        check_question(QuantileQuestion(column="age", fraction="0.5", by=("c",)), schema)


CLAUSES = st.permutations(["where age > 5 or smoker = true", "by job, smoker", "rows 2"])
HEADS = st.sampled_from(
    ["count", "mean(age)", "top(region, 2)", "histogram(region)", "median(age)"]
)


@given(HEADS, CLAUSES, st.integers(0, 3))
def test_clauses_come_in_any_order(head: str, clauses: list[str], number: int) -> None:
    chosen = clauses[:number]
    checked = parse_question(" ".join([head, *chosen]), CENSUS)
    assert checked == parse_question(" ".join([head, *sorted(chosen)]), CENSUS)
    assert parse_question(question_text(checked.question), CENSUS) == checked
