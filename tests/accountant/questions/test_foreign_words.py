"""What a question of another language, or a slip of the pen, is answered with: what to write."""

from __future__ import annotations

import pytest

from accountant.errors import RequestInvalid
from accountant.questions import Schema, check_question, parse_question, question_text
from accountant.questions.statistics import QuantileQuestion
from tests.accountant.questions.schemas import CENSUS, visits


def refusal(text: str, schema: Schema = CENSUS) -> str:
    with pytest.raises(RequestInvalid) as refused:
        parse_question(text, schema)
    return str(refused.value)


def test_words_of_sql_are_answered_with_those_of_questions() -> None:
    for text, words in {
        "avg(age)": "got avg: write mean",
        "AVG(age)": "got AVG: write mean",
        "stddev(age)": "write std",
        "select mean(age)": "write the statistic alone",
        "count(distinct person)": "write count rows 1, which counts each unit once",
        "count(*)": "count has no column",
        "mean(*)": "name a column in the place of *",
        "count from census": "the dataset is named beside the question",
        "count group by region": "as in count by region",
        "count by region order by region": "sort the answer",
        "count by region limit 3": "top(region, 3)",
        "quantile(age, 1/3)": "write a decimal, such as 0.333333 for 1/3",
        "quantile(age, '1/3')": "got '1/3': write 0.333333",
    }.items():
        assert words in refusal(text), text


def test_min_and_max_are_quantiles_and_are_headed_so() -> None:
    for word, quantile in {"min": "quantile(age, 0.05)", "max": "quantile(age, 0.95)"}.items():
        checked = parse_question(f"{word}(age) by region", CENSUS)
        assert question_text(checked.question) == f"{quantile} by region"


def test_a_fraction_that_is_no_decimal_is_written_as_one() -> None:
    for fraction, written in {"1/3": "0.333333", ".5": "0.5", "0.50": "0.5", "2/4": "0.5"}.items():
        with pytest.raises(RequestInvalid, match=f": write {written}$"):
            check_question(QuantileQuestion(column="age", fraction=fraction), CENSUS)
    for fraction in ("1/0", "one third", "-1/3"):
        with pytest.raises(RequestInvalid) as refused:
            check_question(QuantileQuestion(column="age", fraction=fraction), CENSUS)
        assert "write" not in str(refused.value)


def test_a_day_that_does_not_exist_is_named() -> None:
    assert refusal("count where d = '2026-02-30'", visits()).endswith("there is no day 2026-02-30")
    assert "no day" not in refusal("count where d = 'yesterday'", visits())


def test_too_many_groups_name_the_ways_out() -> None:
    assert "by bands of a larger width" in refusal("count by day(d), day(t)", visits())
    groups = "by day(d), month(t), c"
    many = refusal(f"quantile(x, 0.5) {groups}, hour(t)".replace(", c", ""), visits())
    assert "11520 of 6 candidates" in many
    assert "median(clamp(age, 18, 65))" in many
