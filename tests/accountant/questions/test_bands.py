"""Bands, and bounds that a question narrows."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from accountant.errors import RequestInvalid
from accountant.questions import (
    Schema,
    check_question,
    derive,
    encode_question,
    evaluate,
    parse_noise,
    parse_question,
    question_text,
    statistics_of,
)
from accountant.questions.group_functions import BandFunction
from accountant.questions.schema import BooleanColumn, CategoryColumn, NumberColumn
from accountant.questions.statistics import Question
from tests.accountant.questions.schemas import CENSUS, small_schema, visits

AGES = [-5, 0, 17, 18, 64, 65, 119, 120, 500]
ROWS = [{"person": i, "age": age, "income": age, "smoker": age > 60} for i, age in enumerate(AGES)]


def counts(text: str, schema: Schema = CENSUS) -> dict[str, int]:
    checked = parse_question(text, schema)
    (found,) = evaluate(checked, ROWS, key=b"k")
    (groups,) = checked.groups
    return {str(name): int(count) for name, count in zip(groups.values, found, strict=True)}


def test_a_band_has_its_first_number_and_the_last_band_both_ends() -> None:
    expected = {"[0, 18)": 3, "[18, 65)": 2, "[65, 120]": 4}
    for text in ("18, 65", "0, 18, 65", "18, 65, 120"):
        assert counts(f"count by band(age, {text})") == expected
    assert counts("count by band(age, 120)") == {"[0, 120]": 9}
    by_width = counts("count by band(age, width 50)")
    assert by_width == {"[0, 50)": 4, "[50, 100)": 2, "[100, 120]": 3}
    assert counts("histogram(age, width 50)") == by_width
    # Multiples of the width, as the quotient of integers is in SQL.
    incomes = parse_question("count by band(income, width 100000)", CENSUS).groups[0].values
    assert incomes == ("[-1000, 0)", "[0, 100000)", "[100000, 200000)", "[200000, 250000.5]")


def test_clamped_numbers_enter_by_the_narrow_bounds() -> None:
    for text, expected in {
        "sum(clamp(age, 18, 65))": 18 * 4 + 64 + 65 * 4,
        "sum(clamp(income, -1000, 0))": -5,
    }.items():
        assert evaluate(parse_question(text, CENSUS), ROWS, key=b"k") == ((expected,),)
    # The filter and the groups of a question read the schema's own values.
    kept = parse_question("sum(clamp(age, 18, 65)) where age > 100", CENSUS)
    assert evaluate(kept, ROWS, key=b"k") == ((65 * 3,),)
    ends = counts("histogram(clamp(age, 20, 70), width 25)")
    assert ends == {"[20, 25)": 4, "[25, 50)": 0, "[50, 70]": 5}
    quantile = parse_question("median(clamp(age, 20, 40))", CENSUS)
    assert len(evaluate(quantile, ROWS, key=b"k")[0]) == 5  # 20, 25, ..., 40


def test_narrow_bounds_have_the_claim_of_a_schema_that_declares_them() -> None:
    narrow = msgspec.structs.replace(
        CENSUS, columns=(NumberColumn(name="income", lower="0", upper="5000", places=2),)
    )
    for text in ("sum({})", "mean({})", "variance({})"):
        for noise in ("epsilon: 1", "rho: 0.1"):
            clamped = derive(
                parse_question(text.format("clamp(income, 0, 5000)"), CENSUS), parse_noise(noise)
            )
            declared = derive(parse_question(text.format("income"), narrow), parse_noise(noise))
            assert clamped == declared
    wide, clamped = (
        statistics_of(parse_question(text, CENSUS))
        for text in ("sum(income)", "sum(clamp(income, 0, 5000))")
    )
    assert isinstance(wide, tuple)
    assert isinstance(clamped, tuple)
    assert (wide[0].l1, clamped[0].l1) == (3 * Fraction("250000.5"), 3 * 5000)


def test_a_histogram_is_also_of_booleans() -> None:
    assert counts("histogram(smoker)") == {"False": 4, "True": 5}
    assert encode_question(parse_question("histogram(smoker)", CENSUS)) == (
        b'{"ask":"histogram","column":"smoker"}'
    )


def test_texts_and_the_wire_have_one_form() -> None:
    for text in (
        "count by band(age, 0, 18, 65), region",
        "mean(clamp(income, -0.5, 5000)) where age > 3 by band(age, width 10)",
        "histogram(clamp(age, 10, 70), width 20) by smoker",
        "quantile(clamp(age, 10, 70), 0.9) rows 1",
    ):
        checked = parse_question(text, CENSUS)
        assert question_text(checked.question) == text
        decoded = msgspec.json.decode(encode_question(checked), type=Question)
        assert check_question(decoded, CENSUS) == checked
    band = parse_question("count by band(age, width 10)", CENSUS).question.by
    assert band == (BandFunction(column="age", width="10"),)


def test_refusals_say_what_to_write() -> None:
    for text, words in {
        "count by age": "write band(age, width 10), or band(age, 0, 18, 65)",
        "count by band(age)": "write band(age, width 10)",
        "count by band(region, 3)": "by[0].column must be a number column",
        "count by band(age, 18, 18)": "by[0].cuts[1] must be increasing numbers from 0 to 120",
        "count by band(age, -1)": "by[0].cuts[0] must be increasing numbers from 0 to 120",
        "count by band(age, 0.5)": "by[0].cuts[0] must have at most 0 digits",
        "count by band(age, width 0)": "by[0].width must be greater than 0",
        "count by band(income, width 0.01)": "by[0].width must make at most 10000 bands",
        "count by band(age, 1), band(age, 1)": "by[1] must be a column that is not named before",
        "histogram(age)": "write histogram(age, width 10)",
        "histogram(region, width 1)": "width must be left out but for numbers",
        "histogram(age, 10)": "must have width and a number, such as width 10",
        "sum(clamp(age, 18))": "write clamp(age, 0, 100)",
        "sum(clamp(age, 65, 18))": "clamp must be increasing numbers from 0 to 120",
        "sum(clamp(age, 0, 121))": "clamp must be increasing numbers from 0 to 120",
        "sum(clamp(age, 0.5, 3))": "clamp must have at most 0 digits",
        "top(clamp(region, 0, 1), 1)": "clamp must be left out but for numbers",
        "histogram(clamp(smoker, 0, 1))": "clamp must be left out but for numbers",
    }.items():
        with pytest.raises(RequestInvalid) as refused:
            parse_question(text, CENSUS)
        assert words in str(refused.value), (text, str(refused.value))
    with pytest.raises(RequestInvalid, match="must be a category column, got d, a date column"):
        parse_question("histogram(d)", visits())
    wire = {"ask": "sum", "column": "x", "clamp": ["0", "1", "2"]}
    with pytest.raises(RequestInvalid, match="clamp must be two numbers, got 0, 1, 2"):
        check_question(msgspec.convert(wire, Question), small_schema())
    for fields in ({}, {"cuts": ["1"], "width": "2"}):
        wire = {"ask": "count", "by": [{"group": "band", "column": "x", **fields}]}
        with pytest.raises(RequestInvalid, match="must have either cuts or a width"):
            check_question(msgspec.convert(wire, Question), small_schema())


def test_columns_may_be_named_as_functions() -> None:
    names = ("clamp", "band", "width", "month")
    schema = msgspec.structs.replace(
        CENSUS,
        columns=(
            NumberColumn(name="clamp", lower="0", upper="9"),
            CategoryColumn(name="band", categories=("a",)),
            BooleanColumn(name="width"),
            BooleanColumn(name="month"),
        ),
    )
    text = f"sum(clamp) by {', '.join(names[1:])}"
    assert question_text(parse_question(text, schema).question) == text
    assert parse_question("sum(clamp(clamp, 1, 2)) by band(clamp, width 3)", schema).cells == 3
