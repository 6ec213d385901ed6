"""What the figures show, at points, against independent reference values."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from research.figures import experiment, filters, lecture
from research.figures import odometers as o
from research.figures.picture import Curve
from tests.accountant.reference.common import ROWS
from tests.every_case import check_each
from tests.nightly import rounds

CLOSE = Fraction(1, 10**9)


def at_time(odometer: Any) -> Callable[[dict[str, Any]], float]:
    return lambda inputs: o.over_time(odometer, (float(inputs["V"]),)).y[0]


def count_of(inputs: dict[str, Any], epsilon: str) -> int:
    ((given, count),) = inputs["rle"]
    assert given == epsilon
    return int(count)


def after(curve: Callable[[range], Curve]) -> Callable[[dict[str, Any]], float]:
    def value(inputs: dict[str, Any]) -> float:
        count = count_of(inputs, str(o.EPSILON))
        return curve(range(count, count + 1)).y[0]

    return value


SHOWN: dict[str, Callable[[dict[str, Any]], float]] = {
    "fig3_filter_odometer(eps tuned so y*=0.5)": at_time(o.LINEAR),
    "fig3_mixture_two_sided": at_time(o.MIXTURE),
    "fig3_mixture_one_sided_closed": at_time(o.ONE_SIDED),
    "fig3_mixture_one_sided_exact": at_time(o.ONE_SIDED_EXACT),
    "fig3_stitched": at_time(o.STITCHED),
    "fig3_RRUV_thm6.5(n=1000)": after(lambda counts: o.over_counts(o.ADVANCED_2016_N, counts)),
    "fig3_RRUV_L6.4(beta=0.5)": after(lambda counts: o.over_counts(o.ADVANCED_2016, counts)),
    "fig3_advanced_composition": after(o.strong),
    "lecture_fig1_basic": lambda i: lecture.basic(count_of(i, "0.01")),
    "lecture_fig1_strong": lambda i: lecture.strong(count_of(i, "0.01")),
}


def test_the_curves_go_through_the_reference_points() -> None:
    def check_case(name) -> None:
        rows = [row for row in ROWS if row["bound"] == name]
        assert len(rows) >= 4
        for row in rows:
            shown, exact = Fraction(SHOWN[name](row["inputs"])), Fraction(row["value"])
            assert exact * (1 - CLOSE / 10**6) <= shown <= exact * (1 + CLOSE), row

    check_each(check_case, SHOWN)


def test_figures_use_the_parameters_of_the_papers():
    inputs = {row["bound"]: row["inputs"] for row in ROWS}
    assert inputs["fig3_filter_odometer(eps tuned so y*=0.5)"]["y"] == o.LINEAR.y
    assert inputs["fig3_mixture_two_sided"]["r"] == o.MIXTURE.r == o.ONE_SIDED.r
    assert inputs["fig3_stitched"]["v0"] == o.STITCHED.v0
    assert Decimal(inputs["fig3_mixture_two_sided"]["d"]) == Decimal(o.DELTA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "mean"),
    # The expected numbers, computed from the laws of the steps: docs/theory.md section 5.
    [
        ("gdp_residue", 125.97),
        ("zcdp_tight", 118.00),
        ("fully_adaptive", 102.86),
        ("doubling", 90.57),
        ("ex_post", 59.81),
    ],
)
def test_the_experiment_answers_the_expected_number_of_counts(key, mean):
    runs = rounds(6, 20)
    answered = experiment.answered(key, "1", "0.1", runs)
    assert answered == pytest.approx(mean, abs=4 / runs**0.5)


def test_the_lecture_s_crossover_and_its_last_point():
    assert lecture.crossover() == 28
    assert lecture.strong(10_000) == pytest.approx(5.7565, abs=5e-5)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("fully_adaptive", "fully_adaptive_filter_epsilon"),
        ("zcdp_tight", "zcdp_tanh_epsilon_tight"),
        ("strong", "strong_composition"),
    ],
)
def test_the_budgets_that_filters_need_go_through_the_reference_points(name, bound, monkeypatch):
    rows = [row for row in ROWS if row["bound"] == bound and len(row["inputs"]["rle"]) == 1]
    assert len(rows) > 10
    for row in rows:
        ((epsilon, count),) = row["inputs"]["rle"]
        monkeypatch.setattr(filters, "EPSILON", Decimal(epsilon))
        monkeypatch.setattr(filters, "DELTA", Decimal(row["inputs"]["d"]))
        shown, exact = Fraction(filters.needed(name, count)), Fraction(row["value"])
        assert abs(shown - exact) <= exact * CLOSE, row


def test_the_budget_needed_by_advanced_2016_is_above_fully_adaptive():
    """Whitehouse 2023: far above its own filter, and basic composition is better for few."""
    needed = [filters.needed("advanced_2016", count) for count in (1, 50, 100)]
    assert needed == sorted(needed)
    assert needed[0] > filters.needed("basic", 1)
    assert needed[2] < filters.needed("basic", 100)
    for count, epsilon in zip((1, 50, 100), needed, strict=True):
        assert epsilon > 1.4 * filters.needed("fully_adaptive", count)


def test_strong_composition_is_below_every_odometer():
    shown = o.strong(o.COUNTS)
    for odometer in (o.LINEAR, o.MIXTURE, o.ONE_SIDED_EXACT, o.STITCHED):
        curve = o.over_time(odometer, shown.x)
        assert all(u > s for u, s in zip(curve.y, shown.y, strict=True) if u < float("inf"))
