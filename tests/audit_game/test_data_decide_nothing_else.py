"""Whatever the tables hold, only the noisy numbers of an answer depend on it.

No cell, unit or filter makes an error, another number of values, or another field: nothing is left
that an analyst could read an exact value from.
"""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.answers import Granted, NoisyAnswer, answer_of, encode_answer, run_question
from accountant.policy import Neighbours
from accountant.questions import (
    CheckedQuestion,
    SelectionStatistic,
    derive,
    evaluate,
    parse_noise,
    parse_question,
    statistics_of,
)
from accountant.questions.schema_values import identifier
from tests.accountant.noise.laws import bits_of
from tests.audit_game.neighbours import game_schema

KEY = b"key of the data"
NASTY: list[object] = [
    *(None, True, False, 0, -0.0, 1.5, 10**400, -(10**400), float("nan"), float("inf"), 5e-324),
    *(Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999"), Decimal("-1e-999999")),
    *(Decimal("1e999999999999999999"), Decimal("1e-999999999999999999"), Fraction(10**400, 3)),
    *("", " 3", "3\n", "1e9999", "-1E-9999", "1_0", "0x1", "½", "٣", "a", "A", "a\0", "\ud800"),
    *("a" * 10_000, "9" * 10_000, "'; drop table games; --", "' or '1'='1"),
    *(b"a", bytearray(b"1"), [1], {"a": 1}, (1, 2), frozenset("a"), 1j, object(), ...),
    *(dt.date(2026, 1, 1), dt.timedelta(1), uuid.UUID(int=1)),
    *(np.float64(2), np.float32("nan"), np.int64(3), np.bool_(True), np.datetime64("NaT")),
]
CELLS = st.sampled_from(NASTY) | st.integers(-9, 9) | st.sampled_from(["a", "b", "d"])
ROWS = st.dictionaries(
    st.sampled_from(["unit", "x", "fine", "y", "c", "t", "another column"]), CELLS
)
TABLES = st.lists(ROWS, max_size=6)
SIGNS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
TESTS = st.one_of(
    st.builds("x {} {}".format, SIGNS, st.integers(-9, 9)),
    st.builds("fine {} {}".format, SIGNS, st.sampled_from(["0", "0.000000000001", "999999"])),
    st.builds("c {} '{}'".format, st.sampled_from(["=", "!="]), st.sampled_from("abd")),
    st.builds("t {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(["true", "false"])),
    st.builds("{} is {}missing".format, st.sampled_from(["x", "c"]), st.sampled_from(["", "not "])),
    st.builds("x {}in (0, -9, 3)".format, st.sampled_from(["", "not "])),
)
FILTERS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
    ),
    max_leaves=5,
)
ASKED = [
    *[("count", "epsilon: 1"), ("count by c, t", "sigma: 2"), ("histogram(c)", "rho: 0.5")],
    *[("sum(x)", "epsilon: 1"), ("sum(fine) by t", "epsilon: 0.001"), ("mean(x)", "epsilon: 1")],
    *[("mean(fine) by c", "rho: 0.1"), ("variance(x) by c", "epsilon: 9")],
    *[("median(y)", "epsilon: 1"), ("quantile(x, 0.1) by c", "rho: 0.1")],
    *[("top(c, 2)", "epsilon: 1"), ("top(c, 3) by t", "epsilon: 1")],
    ("count, mean(fine), median(y) by c", "epsilon: 3, weights 1 2 1"),
]


def without_numbers(answer: NoisyAnswer) -> bytes:
    """Return an answer with each noisy number, and what is computed from it, replaced by "0"."""
    return encode_answer(
        msgspec.structs.replace(
            answer,
            values=tuple("0" for _ in answer.values),
            low=tuple("0" for _ in answer.low),
            high=tuple("0" for _ in answer.high),
            columns=tuple(
                msgspec.structs.replace(
                    each,
                    values=tuple("0" for _ in each.values),
                    low=tuple("0" for _ in each.low),
                    high=tuple("0" for _ in each.high),
                )
                for each in answer.columns
            ),
            statistics=tuple(
                msgspec.structs.replace(each, values=tuple("0" for _ in each.values))
                for each in answer.statistics
            ),
        )
    )


@given(TABLES, TABLES, st.sampled_from(ASKED), FILTERS | st.just(""), st.integers(0, 2**64))
def test_an_answer_is_the_same_but_for_its_noisy_numbers(
    one: list[Any], other: list[Any], asked: tuple[str, str], where: str, seed: int
) -> None:
    question, noise = asked
    text = f"{question} where {where}" if where else question
    checked = parse_question(text, game_schema("add_remove"))
    derivation = derive(checked, parse_noise(noise))
    granted = Granted(
        dataset="games",
        request_id="r",
        analyst="ana",
        grant="0" * 64,
        question=checked.question,
        noise=parse_noise(noise),
        claim=derivation.claim,
    )
    bits = bits_of(seed)
    shown = {
        without_numbers(
            answer_of(
                granted,
                run_question(checked, derivation, evaluate(checked, table, key=KEY), bits),
            )
        )
        for table in ([], one, other, [*one, *other])
    }
    assert len(shown) == 1


def change(checked: CheckedQuestion, before: list[Any], after: list[Any]) -> list[Fraction]:
    pairs = zip(evaluate(checked, before, key=KEY), evaluate(checked, after, key=KEY), strict=True)
    return [
        sum((abs(b - a) for a, b in zip(one, other, strict=True)), Fraction(0))
        for one, other in pairs
    ]


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@given(TABLES, TABLES, st.sampled_from(ASKED), FILTERS, st.randoms(use_true_random=False))
def test_no_filter_finds_more_of_a_unit_than_is_charged(
    relation: Neighbours,
    others: list[Any],
    own: list[Any],
    asked: tuple[str, str],
    where: str,
    order: Any,
) -> None:
    checked = parse_question(f"{asked[0]} where {where}", game_schema(relation))
    others = [row for row in others if identifier(row.get("unit")) != "u"]
    owned = [{**row, "unit": "u"} for row in own]
    before = [*others, *owned[: len(owned) // 2]] if relation == "replace" else others
    after = [*others, *owned[len(owned) // 2 :]]
    order.shuffle(after)
    for alone in checked.alone:
        statistics = statistics_of(alone)
        if isinstance(statistics, SelectionStatistic):
            continue  # tests/accountant/questions has these
        for statistic, moved in zip(statistics, change(alone, before, after), strict=True):
            assert moved <= statistic.l1
