"""The cost of a pure mechanism in doubles, against the exact root by mpmath."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import partial

import mpmath
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accountant.amounts import UNIT, precise, units_down, units_up
from accountant.conversions.gdp import mu_of_pure
from accountant.conversions.residue_step import (
    admits,
    excess,
    pure_cost,
    pure_step,
    run_repeatedly,
)
from tests.accountant.conversions import gaussian
from tests.every_case import check_each, check_rows
from tests.nightly import examples

EPSILONS = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(100, 999),
    st.integers(-14, -3),
).map(lambda epsilon: min(epsilon * 2, Decimal(2)))
# By how much, relatively, the state is above the one that refuses the mechanism: from the
# last 1e-6 over a few times (where most of a budget's end is) to 1e7 times.
ROOMS = st.one_of(st.floats(-6, 0), st.floats(-3, 1), st.floats(0, 7))


def refusing(epsilon: Decimal) -> int:
    mu = mu_of_pure(epsilon)
    with precise():
        return units_up(mu * mu)


def exact_cost(state: int, epsilon: Decimal) -> mpmath.mpf:
    with mpmath.workdps(100):
        cost = gaussian.pure_cost(mpmath.mpf(state) / UNIT, gaussian.real(epsilon))
        assert cost is not None
        return cost * UNIT


@settings(max_examples=examples(150), deadline=None)
@given(EPSILONS, ROOMS)
@example(Decimal("1e-12"), 22.4)
@example(Decimal("1e-12"), -0.5)
@example(Decimal(2), 1.2)
@example(Decimal(2), -0.01)
def test_the_cost_is_within_1e_12_above_the_root(epsilon: Decimal, log_room: float) -> None:
    state = min(int(refusing(epsilon) * (1 + 10**log_room)), 100 * UNIT)
    ours = pure_cost(state, pure_step(units_up(epsilon)))
    assert ours is not None
    exact = exact_cost(state, epsilon)
    assert exact <= ours <= exact * (1 + mpmath.mpf(10) ** -12) + 1


def test_an_epsilon_beyond_the_doubles_takes_the_exact_root() -> None:
    def check_case(room: float, epsilon: str) -> None:
        state = min(int(refusing(Decimal(epsilon)) * room), 300 * UNIT)
        step = pure_step(units_up(Decimal(epsilon)))
        assert not step.square
        ours = pure_cost(state, step)
        exact = exact_cost(state, Decimal(epsilon))
        assert ours is not None
        assert exact <= ours <= exact * (1 + mpmath.mpf(10) ** -12) + 1

    check_each(check_case, [1.0001, 1.3, 4, 50], ["2.5", "4", "10", "30"])


@settings(max_examples=examples(60), deadline=None)
@given(EPSILONS, ROOMS)
def test_the_two_sides_err_by_less_than_their_bound(epsilon: Decimal, log_room: float) -> None:
    """The error that a proof by doubles allows for, 4e-14, at points off the root."""
    state = int(refusing(epsilon) * (1 + 10**log_room))
    step = pure_step(units_up(epsilon))
    cost, s = pure_cost(state, step), state / UNIT
    assert cost is not None
    at = cost / UNIT * 1.001
    left = s - at
    if left <= 0 or step.square / (2 * left) > 3 or s > 100:
        return
    with mpmath.workdps(70):
        e = mpmath.sqrt(mpmath.mpf(step.square))
        v = mpmath.mpf(s) - mpmath.mpf(at)
        root, x, p, right = mpmath.sqrt(v), mpmath.mpf(step.square) / (2 * v), 0, 0
        for k in range(1, 120):
            p = (1 - v / 4 * p) / (2 * k - 1)
            right -= (-x) ** k / mpmath.factorial(k) * p
        area = mpmath.quad(lambda u: mpmath.exp((v - u * u) / 8), [root, mpmath.sqrt(s)])
        exact = mpmath.cosh(e / 2) * area / (root * right) - 1
        assert abs(excess(at, s, step)[0] - exact) < 1.7e-14


@settings(max_examples=examples(100), deadline=None)
@given(EPSILONS, st.integers(1, 36), st.booleans())
def test_a_pure_step_is_admitted_exactly_from_its_smallest_state_on(
    epsilon: Decimal, zeros: int, below: bool
) -> None:
    minimum = refusing(epsilon)
    away = minimum // 10**zeros
    state = minimum - away - 10**6 if below else minimum + away
    step = pure_step(units_up(epsilon))
    if below and away < minimum // 10**18:
        return  # the last of what is admitted may be refused: the safe side
    assert admits(state, step) is not below
    assert (pure_cost(state, step) is None) is below


def test_an_empty_state_admits_no_pure_step() -> None:
    step = pure_step(units_up(Decimal("1e-12")))
    assert not admits(0, step)
    assert pure_cost(0, step) is None
    assert pure_cost(1, step) is None
    assert pure_cost(0, pure_step(units_up(Decimal(3)))) is None


def test_the_quick_refusal_never_refuses_a_step_that_has_a_root() -> None:
    """The largest h/mu(epsilon)^2 of all epsilon up to 2 is below the one that refuses."""
    ratios = [
        float(epsilon * epsilon / mu_of_pure(epsilon) ** 2)
        for epsilon in (Decimal(k) / 50 for k in range(1, 101))
    ]
    assert ratios == sorted(ratios)
    assert 2 / math.pi < ratios[0] < ratios[-1] < 0.72


def test_a_cost_is_short_in_a_record() -> None:
    cost = pure_cost(units_down(Decimal("0.056")), pure_step(units_up(Decimal("0.01"))))
    assert cost is not None
    assert len(str(cost).rstrip("0")) <= 16


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(1, 99),
    st.integers(-5, -2),
    st.sampled_from(["0.056", "0.4", "6"]),
    st.integers(1, 4000),
    st.sampled_from([0, 7, 100]),
)
def test_many_at_a_time_leave_no_more_than_one_by_one(
    digits: int, exponent: int, square: str, times: int, singly: int
) -> None:
    step = pure_step(units_up(Decimal(digits).scaleb(exponent - 1)))
    start = state = units_down(Decimal(square))
    done = 0
    while done < times and (cost := pure_cost(state, step)) is not None:
        state, done = state - cost, done + 1
    left, ran = run_repeatedly(start, partial(pure_cost, step=step), times, singly=singly)
    assert ran <= done
    if ran == done:
        assert state - (start - state) * 2 // 10**6 <= left <= state
    # As many as the looseness is worth may be missing at the very end.
    assert done - ran <= 1 + done // 10**6


def test_far_more_than_could_be_run_one_by_one() -> None:
    """1e-12 out of 0.056: 5.6e22 of them, between the bounds that P10 gives."""
    step, state = pure_step(units_up(Decimal("1e-12"))), units_down(Decimal("0.056"))
    _, ran = run_repeatedly(state, partial(pure_cost, step=step), 10**60, singly=100)
    assert 0.056e24 * (1 - 1e-6) < ran < 0.056e24


def test_ten_million_steps_cost_between_the_first_and_the_last_step() -> None:
    step, state = pure_step(units_up(Decimal("1e-6"))), units_down(Decimal("0.056"))
    left, ran = run_repeatedly(state, partial(pure_cost, step=step), 10**7, singly=1000)
    assert ran == 10**7
    first, last = pure_cost(state, step), pure_cost(left, step)
    assert first is not None
    assert last is not None
    assert ran * first * (1 - 1e-12) <= state - left <= ran * last * (1 + 3e-12)


def test_every_machine_computes_the_same_cost() -> None:
    """Replaying a log must decide alike, so no last digit may depend on a C library."""

    def check_case(square: str, epsilon: str, digits: int, exponent: int) -> None:
        cost = pure_cost(units_down(Decimal(square)), pure_step(units_up(Decimal(epsilon))))
        assert cost == digits * 10**exponent

    check_rows(
        check_case,
        [
            ("0.0560289638", "1e-12", 1000000000000061, 1),
            ("0.0560289638", "0.01", 1000293722057073, 21),
            ("0.0560289638", "0.1", 1034499299963841, 23),
            ("0.02", "0.1", 1157886715052447, 23),
            ("0.0165", "0.1", 1282365249672541, 23),
            ("0.7", "0.5", 2687074764659194, 24),
            ("40", "2", 3527347104828393, 25),
            ("1900", "1.5", 2066516218217754, 25),
        ],
    )
