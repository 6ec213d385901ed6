"""What the short methods make of their arguments, and how an answer's columns are named."""

from __future__ import annotations

from typing import Any

import pytest

from accountant.errors import RequestInvalid
from accountant.questions import question_text
from streams.client.questions.answers import AnswerColumns
from streams.client.questions.asked_question import question_of


def test_each_clause_of_a_text_is_an_argument() -> None:
    def text(ask: str, **fields: Any) -> str:
        return question_text(question_of(ask, **fields))

    assert text("mean", column="age", clamp=[0, 50.5]) == "mean(clamp(age, 0, 50.5))"
    assert text("histogram", column="age", width=10) == "histogram(age, width 10)"
    assert text("count", by="region, month(visited)") == "count by region, month(visited)"
    assert text("count", by=["net, income"]) == 'count by "net, income"'
    assert text("count", by="net income") == 'count by "net income"'
    assert text("quantile", column="age", fraction=0.25) == "quantile(age, 0.25)"


@pytest.mark.parametrize(
    ("ask", "fields", "words"),
    [
        ("count", {"clamp": [0, 1]}, "clamp must be left out of a count"),
        ("sum", {"column": "age", "width": 1}, "width must be left out but for a histogram"),
        ("sum", {"column": "age", "clamp": "0 5"}, r"such as \[0, 5000\]"),
        ("sum", {"column": "age", "clamp": [0, 1 / 3]}, r'write clamp\[1\]="0.333333"'),
        ("quantile", {"column": "age", "fraction": 1 / 3}, 'write fraction="0.333333"'),
    ],
)
def test_wrong_arguments_say_what_to_write(ask: str, fields: Any, words: str) -> None:
    with pytest.raises(RequestInvalid, match=words):
        question_of(ask, **fields)


def test_a_column_is_found_by_the_text_as_asked() -> None:
    found: Any = AnswerColumns({"quantile(age, 0.5)": 41, 'sum(clamp("net income", 0, 5))': 7})
    asked = ("median(age)", "quantile( age,0.50 )", 'sum(clamp("net income",0,5.0))')
    assert [found[each] for each in asked] == [41, 41, 7]
    assert list(found) == ["quantile(age, 0.5)", 'sum(clamp("net income", 0, 5))']
    for wrong in ("mean(age)", "median(age) by region", "nonsense"):
        with pytest.raises(KeyError, match=r"this answer are quantile\(age, 0.5\), sum"):
            found[wrong]
