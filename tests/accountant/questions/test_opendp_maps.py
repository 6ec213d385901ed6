"""Derived sensitivities and claims beside OpenDP's own stability and privacy maps."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import opendp.prelude as dp
import pytest

from accountant.claims import BoundedRange, Pure, Zcdp
from accountant.claims.promises import promise
from accountant.questions import (
    SelectionStatistic,
    VectorStatistic,
    derive,
    parse_noise,
    parse_question,
    statistics_of,
)
from accountant.questions.parts import middle_of
from accountant.questions.schema import NumberColumn
from tests.accountant.questions.schemas import small_schema
from tests.every_case import check_each

dp.enable_features("contrib")

BOUNDS = [(-2, 3), (1, 4), (-5, -1), (0, 7)]
ROWS = [1, 2, 5]
NUMBERS = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
SIZED = dp.vector_domain(dp.atom_domain(T=int), size=20), dp.symmetric_distance()
TEXTS = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()


def vector(text: str, **schema: Any) -> VectorStatistic:
    statistics = statistics_of(parse_question(text, small_schema(**schema)))
    assert isinstance(statistics, tuple)
    return statistics[-1]


def selection(text: str, **schema: Any) -> SelectionStatistic:
    statistic = statistics_of(parse_question(text, small_schema(**schema)))
    assert isinstance(statistic, SelectionStatistic)
    return statistic


@pytest.mark.parametrize("rows", ROWS)
def test_counts_agree(rows: int) -> None:
    count = dp.t.make_count(*NUMBERS)
    assert vector("count", rows=rows).l1 == count.map(rows)
    by = [
        dp.t.make_count_by_categories(*TEXTS, ["a", "b"], null_category=False, MO=mo)
        for mo in (
            "L1Distance<i32>",
            "L2Distance<i32>",
        )
    ]
    added = vector("histogram(c)", rows=rows)
    assert (added.l1, added.l2_squared) == (by[0].map(rows), by[1].map(rows) ** 2)
    # A replaced unit is so many rows removed, and as many added.
    replaced = vector("histogram(c)", rows=rows, neighbours="replace")
    assert replaced.l1 == by[0].map(2 * rows)
    assert replaced.l2_squared * 2 == by[1].map(2 * rows) ** 2


def test_sums_agree() -> None:
    def check_case(bounds: tuple[int, int], rows: int) -> None:
        fields: dict[str, Any] = {"lower": str(bounds[0]), "upper": str(bounds[1]), "rows": rows}
        clamp = dp.t.make_clamp(*NUMBERS, bounds)
        total = clamp >> dp.t.make_sum(clamp.output_domain, clamp.output_metric)
        assert vector("sum(x)", **fields).l1 == total.map(rows)
        replaced = vector("sum(x)", neighbours="replace", **fields).l1
        assert replaced <= total.map(2 * rows)
        # Of a known number of rows none is without a counterpart, so OpenDP's is smaller there.
        sized = dp.t.make_clamp(*SIZED, bounds)
        same_size = sized >> dp.t.make_sum(sized.output_domain, sized.output_metric)
        assert replaced >= same_size.map(2 * rows)
        if bounds[0] <= 0 <= bounds[1]:
            assert replaced == same_size.map(2 * rows)

    check_each(check_case, BOUNDS, ROWS)


def test_sums_about_the_middle_agree() -> None:
    def check_case(bounds: tuple[int, int], rows: int) -> None:
        fields: dict[str, Any] = {"lower": str(bounds[0]), "upper": str(bounds[1]), "rows": rows}
        middle = int(middle_of(NumberColumn(name="x", lower=str(bounds[0]), upper=str(bounds[1]))))
        low, high = (each - middle for each in bounds)
        square = max(low**2, high**2)
        for text, ends in (
            ("mean(x)", (low, high)),
            ("variance(x)", (-(square // 2), square - square // 2)),
        ):
            clamp = dp.t.make_clamp(*NUMBERS, ends)
            total = clamp >> dp.t.make_sum(clamp.output_domain, clamp.output_metric)
            assert vector(text, **fields).l1 == total.map(rows)
            sized = dp.t.make_clamp(*SIZED, ends)
            same_size = sized >> dp.t.make_sum(sized.output_domain, sized.output_metric)
            replaced = vector(text, neighbours="replace", **fields).l1
            assert replaced == same_size.map(2 * rows)

    check_each(check_case, BOUNDS, ROWS)


def test_scores_of_quantiles_agree() -> None:
    def check_case(fraction: str, rows: int) -> None:
        candidates = list(range(-2, 4))
        scores = dp.t.make_quantile_score_candidates(*NUMBERS, candidates, float(fraction))
        # Its scores are whole numbers: ours times the denominator by which it wrote the fraction.
        one = scores.map(1) / max(Fraction(fraction), 1 - Fraction(fraction))
        added = selection(f"quantile(x, {fraction})", rows=rows)
        assert added.range_distance == 2 * scores.map(rows) / one
        replaced = selection(f"quantile(x, {fraction})", rows=rows, neighbours="replace")
        assert replaced.range_distance <= 2 * scores.map(2 * rows) / one

    check_each(check_case, ["0", "0.1", "0.5", "0.75", "1"], ROWS)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("neighbours", "monotonic"), [("add_remove", True), ("replace", False)])
def test_the_claim_of_a_choice_agrees(neighbours: str, monotonic: bool, rows: int) -> None:
    schema = small_schema(rows=rows, neighbours=neighbours)  # type: ignore[arg-type]
    (draw,) = derive(parse_question("top(c, 1)", schema), parse_noise("epsilon: 0.5")).draws
    assert isinstance(draw.claim, BoundedRange)
    assert draw.scale is not None
    space = (
        dp.vector_domain(dp.atom_domain(T=int)),
        dp.linf_distance(monotonic=monotonic, T=int),
    )
    gumbel = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), float(draw.scale))
    assert math.isclose(gumbel.map(rows), float(promise(draw.claim).rho or 0), rel_tol=1e-12)
    # With its other noise OpenDP chooses by permute-and-flip, which has no such range.
    pure = dp.m.make_noisy_max(*space, dp.max_divergence(), float(draw.scale))
    assert math.isclose(pure.map(rows), float(draw.claim.eta), rel_tol=1e-12)


def test_the_claims_of_noise_agree() -> None:
    def check_case(neighbours: str, text: str, epsilon: str) -> None:
        checked = parse_question(text, small_schema(rows=3, neighbours=neighbours))  # type: ignore[arg-type]
        ints = dp.vector_domain(dp.atom_domain(T=int))
        (draw,) = derive(checked, parse_noise(f"epsilon: {epsilon}")).draws
        assert isinstance(draw.claim, Pure)
        statistic = draw.statistic
        assert isinstance(statistic, VectorStatistic)
        assert draw.scale is not None
        laplace = dp.m.make_laplace(ints, dp.l1_distance(T=int), float(draw.scale))
        assert math.isclose(
            laplace.map(int(statistic.l1)), float(draw.claim.epsilon), rel_tol=1e-12
        )
        (draw,) = derive(checked, parse_noise(f"rho: {epsilon}")).draws
        assert isinstance(draw.claim, Zcdp)
        assert draw.variance is not None
        gaussian = dp.m.make_gaussian(ints, dp.l2_distance(T=float), math.sqrt(draw.variance))
        rho = gaussian.map(math.sqrt(statistic.l2_squared))
        assert math.isclose(rho, float(draw.claim.rho), rel_tol=1e-12)

    check_each(
        check_case,
        ["add_remove", "replace"],
        ["count", "sum(x)", "histogram(c)", "sum(x) by c"],
        ["0.5", "0.7", "0.003", "12"],
    )
