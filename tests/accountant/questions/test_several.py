"""Several statistics in one question: what they share, how they divide the amount, refusals."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import msgspec
import pytest

from accountant.claims import AllOf, BoundedRange, Pure
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from accountant.questions import (
    Question,
    check_question,
    derive,
    encode_question,
    evaluate,
    noise_text,
    parse_noise,
    parse_question,
    question_text,
)
from accountant.questions.plan import plan_of
from accountant.questions.sensitivity import VectorStatistic
from accountant.questions.statistics import CountQuestion, MeanQuestion, SeveralQuestion
from tests.accountant.questions.schemas import CENSUS, Cells, multisets, of_unit, small_schema
from tests.every_case import check_each, check_rows

TEXTS = [
    "count, mean(x), median(x) by c",
    "mean(x), variance(x), sum(x) where t = true rows 1",
    "top(c, 1), count",
]
POOL: list[Cells] = [
    {"x": -9, "c": "a", "t": True},
    {"x": 9, "c": "b", "t": True},
    {"x": "?", "c": "a", "t": True},
    {"x": 1, "c": "a", "t": False},
]
OTHERS = of_unit("v", tuple(POOL))


def test_a_question_of_several_has_one_text_and_one_form_in_bytes() -> None:
    text = "count, mean(income), quantile(age, 0.5) where region = 'north' by smoker rows 1"
    checked = parse_question(text.replace("quantile(age, 0.5)", "median(age)"), CENSUS)
    assert question_text(checked.question) == text
    assert parse_question(text, CENSUS) == checked
    wire = encode_question(checked)
    assert wire.startswith(b'{"ask":"several","statistics":[{"ask":"count"},{"ask":"mean"')
    decoded = msgspec.json.decode(wire, type=Question)
    assert check_question(decoded, CENSUS) == checked
    assert checked.column_names == {"income", "age", "region", "smoker"}


def test_noise_with_weights_has_one_text() -> None:
    for text in ("epsilon: 1, weights 1 2 1", "rho: 0.1, rounded_gaussian, weights 3 1"):
        assert noise_text(parse_noise(text)) == text
    with pytest.raises(RequestInvalid, match="whole numbers"):
        parse_noise("epsilon: 1, weights 1.5 2")
    with pytest.raises(RequestInvalid, match="between 1 and 1000"):
        parse_noise("epsilon: 1, weights 0 2")


def test_several_are_refused_where_they_make_no_columns() -> None:
    def check_case(text: str, noise: str, field: str, rule: str) -> None:
        with pytest.raises(RequestInvalid) as raised:
            derive(parse_question(text, CENSUS), parse_noise(noise))
        assert raised.value.field == field
        assert rule in raised.value.rule

    one = "epsilon: 1"
    check_rows(
        check_case,
        [
            ("count, count", one, "statistics[1]", "another statistic"),
            ("count, histogram(region)", one, "statistics[1]", "one value in each group"),
            ("count, top(region, 2)", one, "statistics[1]", "one value in each group"),
            ("count, mean(region)", one, "statistics[1].column", "must be a number column"),
            ("count, mean(age)", "error: 5 at 0.9", "noise.error", "several statistics"),
            ("count, sum(age)", "sigma: 5", "noise.sigma", "several statistics"),
            ("count, sum(age)", "rho: 1, gaussian_refinement", "noise.law", "of one answer"),
            ("count, sum(age)", "epsilon: 1, weights 1 2 3", "noise.weights", "must be 2"),
            ("count", "epsilon: 1, weights 1 2", "noise.weights", "left out for one"),
            (", ".join(["count"] * 11), one, "statistics", "must be 2 to 10"),
        ],
    )
    for own in ({"where": "age > 5"}, {"by": ("region",)}, {"rows": 1}):
        several = SeveralQuestion(
            statistics=(CountQuestion(), MeanQuestion(column="age", **own))  # type: ignore[arg-type]
        )
        with pytest.raises(RequestInvalid, match="no clauses of its own"):
            check_question(several, CENSUS)
    with pytest.raises(RequestInvalid, match="2 to 10 statistics"):
        check_question(SeveralQuestion(statistics=(CountQuestion(),)), CENSUS)


def test_the_amount_is_divided_by_the_weights_exactly() -> None:
    def check_case(text: str, noise: str, shares: list[str]) -> None:
        checked, wanted = parse_question(text, CENSUS), parse_noise(noise)
        expected = [Fraction(each) for each in shares]
        assert sum(expected) == 1
        assert list(plan_of(checked).shares(wanted)) == expected
        for draw, share in zip(derive(checked, wanted).draws, expected, strict=True):
            amount = draw.claim.epsilon if isinstance(draw.claim, Pure) else draw.claim.eta  # type: ignore[union-attr]
            assert 0 <= Fraction(wanted.amount) * share - Fraction(amount) < Fraction(1, 10**39)

    check_rows(
        check_case,
        [
            # Missing incomes count as 0, so the mean is of the rows that are counted.
            ("count, mean(income)", "epsilon: 1", ["3/4", "1/4"]),
            ("mean(income), count", "epsilon: 1, weights 3 1", ["5/8", "3/8"]),
            ("mean(income), variance(income)", "epsilon: 1", ["5/12", "5/12", "1/6"]),
            # A missing age is left out, so the two counts are of other rows.
            ("count, mean(age)", "epsilon: 1, weights 1 2", ["1/3", "1/3", "1/3"]),
            ("count, median(age), sum(income)", "epsilon: 1, weights 1 2 1", ["1/4", "1/2", "1/4"]),
        ],
    )


def test_a_part_is_shared_only_of_the_same_rows() -> None:
    def check_case(text: str, of_each: list[tuple[int, ...]]) -> None:
        assert list(plan_of(parse_question(text, CENSUS)).of_each) == of_each

    check_rows(
        check_case,
        [
            ("count, mean(income) by region", [(0,), (0, 1)]),
            ("count, mean(age)", [(0,), (1, 2)]),
            ("mean(income), mean(age)", [(0, 1), (2, 3)]),
            ("mean(age), std(age), variance(age)", [(0, 1), (0, 1, 2), (0, 1, 2)]),
            ("sum(age), mean(age)", [(0,), (1, 2)]),
            ("quantile(age, 0.1), quantile(age, 0.9)", [(0,), (1,)]),
        ],
    )


def test_each_column_is_computed_from_what_its_statistic_alone_is_computed_from() -> None:
    for text in TEXTS:
        checked = parse_question(text, small_schema(rows=2))
        for own in multisets(POOL, 2):
            rows = OTHERS + of_unit("u", own)
            found = evaluate(checked, rows, key=b"key")
            for alone, places in zip(checked.alone, plan_of(checked).of_each, strict=True):
                assert tuple(found[i] for i in places) == evaluate(alone, rows, key=b"key")


RELATIONS: list[Neighbours] = ["add_remove", "replace"]


def test_no_unit_changes_any_draw_by_more_than_it_is_charged_for() -> None:
    def check_case(text: str, relation: Neighbours, rows: int) -> None:
        checked = parse_question(text, small_schema(rows=rows, neighbours=relation))
        weights = " ".join(["2", "1", "1"][: len(checked.each)])
        derivation = derive(checked, parse_noise(f"epsilon: 1, weights {weights}"))
        assert isinstance(derivation.claim, AllOf)
        own = [of_unit("u", table) for table in multisets(POOL, rows + 1)]
        found = [evaluate(checked, OTHERS + table, key=b"key") for table in own]
        absent = evaluate(checked, OTHERS, key=b"key")
        pairs = [(absent, each) for each in found]
        if relation == "replace":
            pairs = list(combinations(found, 2))
        for one, other in pairs:
            total = Fraction(0)
            for draw, before, after in zip(derivation.draws, one, other, strict=True):
                moved = [b - a for a, b in zip(before, after, strict=True)]
                if isinstance(draw.statistic, VectorStatistic):
                    loss = sum(map(abs, moved), Fraction(0)) / (draw.scale or 1)
                    assert isinstance(draw.claim, Pure)
                    assert loss <= Fraction(draw.claim.epsilon)
                else:
                    n = draw.statistic.candidates
                    groups = [moved[i : i + n] for i in range(0, len(moved), n)]
                    distance = sum((max(group) - min(group) for group in groups), Fraction(0))
                    loss = distance / (draw.scale or 1)
                    assert isinstance(draw.claim, BoundedRange)
                    assert loss <= Fraction(draw.claim.eta)
                total += loss
            assert total <= 1

    check_each(check_case, TEXTS, RELATIONS, [1, 2])
