"""Optimal composition of mixed (epsilon, delta): against all subsets, and against one epsilon."""

from __future__ import annotations

import itertools
from decimal import Decimal

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.advice.optimal_mixed import MAX_MECHANISMS, OptimalComposition
from research.comparators import optimal_count, optimal_delta
from tests.nightly import examples

Pair = tuple[str, str]


def exact(pairs: list[Pair], target: str) -> mpmath.mpf:
    """Return the least delta by the sum over all subsets, Murtagh and Vadhan 2016 Thm 1.5."""
    with mpmath.workdps(60):
        epsilons = [mpmath.mpf(epsilon) for epsilon, _ in pairs]
        total = mpmath.fsum(epsilons)
        sticks = mpmath.mpf(0)
        for chosen in itertools.product((0, 1), repeat=len(pairs)):
            inside = mpmath.fsum(e for e, is_in in zip(epsilons, chosen, strict=True) if is_in)
            more = mpmath.exp(inside) - mpmath.exp(mpmath.mpf(target) + total - inside)
            sticks += max(mpmath.mpf(0), more)
        stick = sticks / mpmath.fprod(1 + mpmath.exp(e) for e in epsilons)
        kept = mpmath.fprod(1 - mpmath.mpf(delta) for _, delta in pairs)
        return 1 - (1 - stick) * kept


def compose(pairs: list[Pair], target: str) -> OptimalComposition:
    composed = OptimalComposition(Decimal(target))
    assert composed.fits([(Decimal(e), Decimal(d), 1) for e, d in pairs], Decimal(1))
    return composed


amounts = st.decimals("0.001", "0.9", places=4).map(str)
deltas = st.sampled_from(["0", "0", "1e-9", "1e-6", "0.01"])


@given(
    pairs=st.lists(st.tuples(amounts, deltas), min_size=1, max_size=9),
    target=st.sampled_from(["0.3", "1", "2.5"]),
)
@settings(max_examples=examples(60), deadline=None)
def test_composed_delta_matches_the_sum_over_all_subsets_and_is_never_below_it(
    pairs: list[Pair], target: str
) -> None:
    composed, wanted = compose(pairs, target), exact(pairs, target)
    assert composed.mechanisms == len(pairs)
    assert composed.delta >= wanted
    if sum(float(epsilon) for epsilon, _ in pairs) > 5 * float(target):
        return  # the grid ends there: what is beyond counts as revealed
    # Each mechanism moves what is at the target itself up by no more than a cell.
    assert composed.delta <= wanted * (1 + mpmath.mpf("2e-3")) + len(pairs) * float(target) / 4_096


@pytest.mark.parametrize("epsilon", ["0.01", "0.0123", "0.05", "0.1", "0.2", "0.3"])
def test_with_one_epsilon_the_count_equals_that_of_optimal_count(epsilon: str) -> None:
    target, delta = Decimal(1), Decimal("1e-6")
    composed = OptimalComposition(target)
    while composed.fits([(Decimal(epsilon), Decimal(0), 1)], delta):
        pass
    assert composed.mechanisms == optimal_count(
        epsilon=Decimal(epsilon), target=target, delta=delta
    )
    assert composed.delta >= float(
        optimal_delta(mechanisms=composed.mechanisms, epsilon=Decimal(epsilon), target=target)
    )


def test_epsilons_that_add_up_to_the_target_take_no_delta() -> None:
    composed = compose([("0.3", "0"), ("0.7", "0")], "1")
    assert composed.delta == 0
    assert composed.fits([(Decimal(0), Decimal("1e-9"), 1)], Decimal("1.000001e-9"))


def test_a_batch_that_does_not_fit_leaves_the_composition_unchanged() -> None:
    composed = compose([("0.5", "1e-7")], "1")
    before = composed.delta
    assert not composed.fits(
        [(Decimal("0.1"), Decimal(0), 2), (Decimal(3), Decimal(0), 1)], Decimal("1e-6")
    )
    assert (composed.mechanisms, composed.delta) == (1, before)


@pytest.mark.parametrize("epsilon", ["60", "1000", "1e9"])
def test_a_loss_beyond_the_grid_counts_as_revealed(epsilon: str) -> None:
    assert compose([(epsilon, "0")], "1").delta == pytest.approx(1, abs=1e-9)
    assert compose([(epsilon, "0")], "1").delta <= 1


def test_arguments_out_of_range_are_refused() -> None:
    for target in ("0", "0.0009", "101"):
        with pytest.raises(ValueError, match="target must be"):
            OptimalComposition(Decimal(target))
    for epsilon, delta in (("-1", "0"), ("1", "-0.1"), ("1", "1.1")):
        with pytest.raises(ValueError, match="epsilon must be at least 0"):
            compose([(epsilon, delta)], "1")
    with pytest.raises(ValueError, match="more than 20,000"):
        compose([], "1").fits([(Decimal(1), Decimal(0), MAX_MECHANISMS + 1)], Decimal(1))
