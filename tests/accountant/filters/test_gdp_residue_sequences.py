"""Random sequences for the residue filter, against states of 80 digits from docs/theory.md P6."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import UNIT, Units
from tests.accountant import exact
from tests.accountant.conversions import gaussian
from tests.accountant.conversions.gaussian import real
from tests.accountant.filters.residue import KIND, capacity, price_of
from tests.accountant.filters.rules import single
from tests.accountant.strategies import decimals
from tests.nightly import examples, rounds

CLOSE = mpmath.mpf(10) ** -12
GRID = mpmath.mpf(10) ** -42  # of the reference's own 80 digits, far below ours


@dataclass
class Reference:
    """Exact states: of the budget, and of one that is 1e-12 smaller.

    The first must admit all that we admit. While the second admits all that ran and what is
    asked for, so must we: every step widens the distance of two states (P10), so a cost that
    is at most 1e-12 too large never makes up for a budget that is 1e-12 smaller.
    """

    maximum: mpmath.mpf
    minimum: mpmath.mpf | None
    delta: Fraction = Fraction(0)

    def after(self, claim: c.Claim) -> Reference:
        return Reference(
            maximum=step(self.maximum, claim) if self.maximum is not None else None,
            minimum=step(self.minimum, claim) if self.minimum is not None else None,
            delta=self.delta + sum(exact.delta(one) * n for one, n in single(claim)),
        )


def step(state: mpmath.mpf, claim: c.Claim) -> mpmath.mpf | None:
    """Return the exact state after a claim's mechanisms, None where one is refused."""
    with mpmath.workdps(80):
        for one, times in single(claim):
            epsilon = exact.response(one)
            for _ in range(times):
                if epsilon:
                    cost = gaussian.pure_cost(state, real(epsilon))
                else:
                    cost = 0 if epsilon == 0 else 2 * exact.rho(one)
                if cost is None or cost > state:
                    return None
                state -= cost
    return state


# Most of them of a size at which a few spend the budget; some from 1e-11 to 10.
amounts = st.one_of(decimals(-11, -1), decimals(-3, -2), decimals(-2, -2), decimals(-3, 0))
deltas = st.one_of(st.just("0"), decimals(-12, -6))
single_claims = st.one_of(
    st.builds(c.Pure, amounts),
    st.builds(c.Laplace, decimals(0, 0), amounts),
    st.builds(c.BoundedRange, amounts),
    st.builds(c.Approximate, amounts, deltas),
    st.builds(c.Probabilistic, amounts, deltas),
    st.builds(c.ExPost, amounts, deltas),
    st.builds(c.Gdp, amounts),
    st.builds(c.Gaussian, decimals(0, 0), amounts),
    st.builds(c.Brownian, decimals(0, 0), amounts),
)


def repeat(claim: c.Claim, times: int) -> c.Claim:
    return claim if times < 3 else c.Repeat(claim, times)


def together(parts: list[c.Claim]) -> c.Claim:
    return parts[0] if len(parts) < 3 else c.AllOf(tuple(parts))


# Not alternatives of one choice, in which the many kinds of single claims would be all.
few = st.builds(repeat, single_claims, st.integers(1, 5))
sequences = st.lists(
    st.builds(together, st.lists(few, min_size=1, max_size=4)), min_size=1, max_size=12
)


BUDGETS = st.sampled_from([("1", "1e-6"), ("0.3", "1e-9"), ("8", "1e-5")])


@settings(max_examples=examples(25), deadline=None)
@given(sequences, BUDGETS)
def test_no_sequence_over_admits_and_nothing_that_fits_is_refused(
    sequence: list[c.Claim], budget: tuple[str, str]
) -> None:
    play(sequence, budget)


@pytest.mark.slow
@settings(max_examples=rounds(20, 400), deadline=None)
@given(sequences, BUDGETS)
def test_nor_does_any_of_many_sequences(sequence: list[c.Claim], budget: tuple[str, str]) -> None:
    play(sequence, budget)


def play(sequence: list[c.Claim], budget: tuple[str, str]) -> None:
    """Ask one claim after another, and hold each answer against the reference."""
    limits = capacity(*budget, claims="1e-4")
    spent: tuple[Units, ...] = (0, 0)
    with mpmath.workdps(80):
        whole = mpmath.mpf(int(limits[0])) / UNIT
        reference = Reference(maximum=whole, minimum=whole * (1 - CLOSE))
        for claim in sequence:
            due, one = reference.after(claim), price_of(claim)
            within = due.delta <= Fraction(1, 10**4)
            after = KIND.charge(limits, spent, one)
            assert KIND.accepts(one)
            assert KIND.fits(limits, spent, one) is (after is not None)
            if after is None:
                assert due.minimum is None or not within, "refused, though it clearly fits"
                continue
            assert due.maximum is not None, "admitted, though it does not fit"
            assert within
            ours = mpmath.mpf(int(limits[0]) - int(after[0])) / UNIT
            assert 0 <= ours <= due.maximum + GRID
            if due.minimum is not None:
                assert ours >= due.minimum - 100 * mpmath.mpf(10) ** -40
            spent, reference = after, due
            assert KIND.holds(limits, spent)
