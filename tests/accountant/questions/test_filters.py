"""Filter expressions: what they match, their canonical text, and errors that name a position."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.errors import RequestInvalid
from accountant.questions.filter_expression import (
    SIGNS,
    Conjunction,
    Disjunction,
    FilterExpression,
    ListTest,
    MissingTest,
    Negation,
    ValueTest,
    filter_text,
    matches,
)
from accountant.questions.filter_parser import parse_filter
from accountant.questions.schema_values import SchemaValue
from tests.accountant.questions.schemas import CENSUS
from tests.every_case import check_rows

ROWS: dict[str, dict[str, SchemaValue | None]] = {
    "full": {
        "age": Fraction(70),
        "income": Fraction(5),
        "region": "it's",
        "job": "no",
        "smoker": True,
    },
    "none": {"age": None, "income": Fraction(0), "region": None, "job": "no", "smoker": None},
}


def test_a_filter_matches() -> None:
    def check_case(text: str, full: bool, none: bool) -> None:
        expression = parse_filter(text, CENSUS, field="where")
        assert matches(expression, ROWS["full"]) is full
        assert matches(expression, ROWS["none"]) is none

    check_rows(
        check_case,
        [
            ("age > 65", True, False),
            ("age >= 70 and age <= 70", True, False),
            ("age < 70", False, False),
            ("age = 70.0", True, False),
            ("age != 70", False, False),
            ("age != 71", True, False),  # a missing value is not another value
            ("not age != 70", True, True),
            ("not age = 71", True, True),
            ("age between 70 and 70", True, False),
            ("age between 71 and 99", False, False),
            ("not age between 71 and 99", True, True),
            ("age not between 71 and 99 and smoker = true", True, False),
            ("age NOT BETWEEN 60 AND 80", False, False),
            ("age in (1, 70)", True, False),
            ("age not in (1, 2)", True, False),
            ("not age in (1, 2)", True, True),
            ("age is missing", False, True),
            ("age is not missing", True, False),
            ("not age is missing", True, False),
            ("region = 'it''s'", True, False),
            ('region = "it\'s"', True, False),
            ("region in ('north', 'south')", False, False),
            ("smoker = true", True, False),
            ("smoker != true", False, False),
            ("smoker in (true, false)", True, False),
            ("AGE".lower() + " > 65 AND NOT smoker = FALSE", True, False),
            ("age > 65 or age is missing", True, True),
            ("age > 99 and age > 0 or income = 5", True, False),
            ("age > 99 and (age > 0 or income = 5)", False, False),
            ("not (age > 99 or income = 5)", False, True),
            ("income > -0.5 and job = 'no'", True, True),
        ],
    )


def test_a_filter_has_one_canonical_text() -> None:
    def check_case(text: str, canonical: str) -> None:
        expression = parse_filter(text, CENSUS, field="where")
        assert filter_text(expression) == canonical
        assert parse_filter(canonical, CENSUS, field="where") == expression

    check_rows(
        check_case,
        [
            ("age>65", "age > 65"),
            ("  age   >  065.50 ", "age > 65.5"),
            ("age > -0", "age > 0"),
            ("((age > 1)) AND smoker=TRUE", "age > 1 and smoker = true"),
            ("age > 1 or (age > 2 or age > 3)", "age > 1 or age > 2 or age > 3"),
            ("age > 1 and (age > 2 and age > 3)", "age > 1 and age > 2 and age > 3"),
            ("(age > 1 and age > 2) or age > 3", "age > 1 and age > 2 or age > 3"),
            ("age > 1 and (age > 2 or age > 3)", "age > 1 and (age > 2 or age > 3)"),
            ("not(not(age>1))", "not not age > 1"),
            ('region = "it\'s"', "region = 'it''s'"),
            ("not (age is missing and age>1)", "not (age is missing and age > 1)"),
        ],
    )


def test_an_error_names_the_position_and_what_is_expected() -> None:
    def check_case(text: str, error: str) -> None:
        with pytest.raises(RequestInvalid) as raised:
            parse_filter(text, CENSUS, field="where")
        assert raised.value.field == "where"
        assert error in str(raised.value)

    check_rows(
        check_case,
        [
            ("", "must have a column, not or ( at character 1, got the end"),
            (
                "age",
                "must have one of = != < <= > >=, in, not in, between or is at character 4",
            ),
            ("age >", "must have a number for age, such as 65 or -0.5 at character 6, got the end"),
            ("age >> 65", "a number for age, such as 65 or -0.5 at character 6, got >"),
            ("age > '65'", "a number for age, such as 65 or -0.5 at character 7, got '65'"),
            ("age > income", "a number for age, such as 65 or -0.5 at character 7, got income"),
            ("age > 1e3", "a number for age, such as 65 or -0.5 at character 7, got 1e3"),
            ("age > 1.", "a number for age, such as 65 or -0.5 at character 7, got 1."),
            ("age > 1.0000000000001", "a number for age"),
            ("age > 1000000000000000", "a number for age"),
            ("65 < age", "at character 1, got 65: write the column first, as in age > 65"),
            ("age between 1, 5", "and at character 14, got ,: write age between 18 and 65"),
            ("region between 'north' and 'south'", "(a category column has no order)"),
            ("region like 'n%'", "got like: list the categories, as in region in ('north')"),
            ("region is null", "got null: write region is missing"),
            ("smoker and age > 5", "got and: write smoker = true"),
            ("not (smoker)", "got ): write smoker = true"),
            ("agee > 65", "agee: did you mean age? where must have a column of the schema at"),
            (
                "person = 'ana'",
                "column of the schema at character 1, got person: the schema's columns are age",
            ),
            ("age > 65 agee", "must have and, or, or the end at character 10, got agee"),
            ("age > 65)", "must have and, or, or the end at character 9, got )"),
            ("(age > 65", "must have and, or, or ) at character 10, got the end"),
            ("age == 65", "at character 5, got ==: write ="),
            ("age <> 65", "at character 5, got <>: write !="),
            ("age > 65 & smoker = true", "at character 10, got &: write and"),
            (
                "age > 65; drop",
                "must have a word, a number, a quoted text or a sign at character 9, got ;",
            ),
            ("age > 6 -- x", "at character 9, got -"),
            ("age +1 > 65", "at character 5, got +"),
            (
                "region > 'north'",
                "must have = or != (a category column has no order) at character 8",
            ),
            ("smoker < true", "must have = or != (a boolean column has no order) at character 8"),
            (
                "region = 'nort'",
                "'nort': did you mean north? where must have a declared category of region",
            ),
            (
                "region = north",
                "a quoted category of region, such as 'north' at character 10, got north",
            ),
            (
                "region = 'north",
                "must close with ' the text that begins at character 10, got 'north",
            ),
            ("smoker = 'true'", "must have true or false for smoker at character 10, got 'true'"),
            ("smoker", "between or is at character 7, got the end: write smoker = true"),
            ("age in 1", "must have ( at character 8, got 1"),
            ("age in ()", "a number for age, such as 65 or -0.5 at character 9, got )"),
            ("age in (1 2)", "must have a comma or ) at character 11, got 2"),
            ("age not 5", "must have in at character 9, got 5"),
            ("age is 5", "must have missing at character 8, got 5"),
            ("income is missing", "a column with missing values (the schema reads them as another"),
            ("and age > 5", "must have a column, not or ( at character 1, got and"),
            ("age > 5\tand age > 6", "at character 8, got \\u0009"),
            ("count(age) > 5", "must have a column of the schema at character 1, got count"),
            ("not " * 18 + "age > 5", "must have at most 16 levels of not and ("),
            ("(" * 18 + "age > 5" + ")" * 18, "must have at most 16 levels of not and ("),
            (" or ".join(["age > 5"] * 101), "must have at most 100 tests"),
            (f"age in ({', '.join(['5'] * 101)})", "must have at most 100 values in a list"),
            ("age > 5" + " " * 2000, "must be at most 2000 characters"),
        ],
    )


def numbers() -> st.SearchStrategy[Fraction]:
    return st.integers(-(10**15), 10**15).map(lambda n: Fraction(n, 1000))


REGIONS = st.sampled_from(["north", "south", "it's"])
TESTS: st.SearchStrategy[FilterExpression] = st.one_of(
    st.builds(ValueTest, st.sampled_from(["age", "income"]), st.sampled_from(SIGNS), numbers()),
    st.builds(ValueTest, st.just("region"), st.sampled_from(["=", "!="]), REGIONS),
    st.builds(ValueTest, st.just("smoker"), st.sampled_from(["=", "!="]), st.booleans()),
    st.builds(
        ListTest,
        st.just("region"),
        st.lists(REGIONS, min_size=1, max_size=3).map(tuple),
        st.booleans(),
    ),
    st.builds(MissingTest, st.sampled_from(["age", "region", "smoker"]), st.booleans()),
)


def flat(kind: type, parts: list[FilterExpression]) -> FilterExpression:
    inner = [p for part in parts for p in (part.parts if isinstance(part, kind) else (part,))]
    made: FilterExpression = kind(tuple(inner))
    return made


EXPRESSIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        inner.map(Negation),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: flat(Conjunction, parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: flat(Disjunction, parts)),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
def test_every_expression_is_read_back_from_its_text(expression: FilterExpression) -> None:
    assert parse_filter(filter_text(expression), CENSUS, field="where") == expression


@given(st.text("age>=<!()'\" ,.-5nortdisig&", max_size=30))
def test_every_text_is_a_filter_or_refused(text: str) -> None:
    error = None
    try:
        expression = parse_filter(text, CENSUS, field="where")
    except RequestInvalid as raised:
        error = raised
    if error is None:
        assert parse_filter(filter_text(expression), CENSUS, field="where") == expression
    else:
        assert " at character " in error.rule
