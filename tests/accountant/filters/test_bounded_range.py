"""Bounded range under the residue filter: docs/theory.md P11 at many points, and what it costs."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from accountant import claims as c
from accountant.amounts import UNIT
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.conversions.gdp import mu_of_pure
from accountant.filters.settlement import voidable_price
from tests.accountant.conversions import gaussian
from tests.accountant.conversions.gaussian import real
from tests.accountant.filters.policies import POLICIES, plan_of
from tests.accountant.filters.residue import KIND, capacity, price_of
from tests.accountant.returned import by_voiding

STATES = [("0.01", "0.02"), ("0.1", "0.2"), ("1", "0.7"), ("1", "2"), ("5", "3"), ("15", "7")]
ETAS_AND_STATES = [*STATES, ("0.001", "1"), ("2", "10"), ("0.02", "0.0126")]


class Game:
    """R_t beside D_{m'}, against D_m: m' is the residue of RR_{eta/2}."""

    def __init__(self, eta: str, mu: str) -> None:
        self.m, self.b = real(mu), real(eta) / 2
        left = gaussian.residue(self.m, self.b)
        assert left is not None
        self.left = left

    def tails(self, y: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Return the chance of a loss of D_{m'} above y, under P and under Q."""
        up, low = y / self.left + self.left / 2, y / self.left - self.left / 2
        return gaussian.upper_tail(low), gaussian.upper_tail(up)

    def delta(self, y: mpmath.mpf) -> mpmath.mpf:
        under_p, under_q = self.tails(y)
        return under_p - mpmath.exp(y) * under_q

    def hockey_stick(self, a: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
        """Return H_x of R_t and D_{m'} at t = b + a."""
        p = (mpmath.exp(self.b) - mpmath.exp(a)) / (2 * mpmath.sinh(self.b))
        return p * self.delta(x - a - self.b) + (1 - p) * self.delta(x - a + self.b)

    def promised(self, x: mpmath.mpf) -> mpmath.mpf:
        up, low = x / self.m + self.m / 2, x / self.m - self.m / 2
        return gaussian.upper_tail(low) - mpmath.exp(x) * gaussian.upper_tail(up)

    def test_of(self, c: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Return P(L + xi > c) and Q(L + xi > c), by quadrature: xi of P11."""

        def mean(sign: int) -> mpmath.mpf:
            def each(v: mpmath.mpf) -> mpmath.mpf:
                return mpmath.exp(sign * v) * self.tails(c - v)[sign < 0]

            return mpmath.quad(each, [-self.b, 0, self.b]) / (2 * mpmath.sinh(self.b))

        return mean(1), mean(-1)

    def widths(self) -> list[mpmath.mpf]:
        maximum = 3 * (self.b + self.left) + self.left**2
        return [maximum * i / 6 for i in range(-6, 7)]


@pytest.mark.parametrize(("eta", "mu"), ETAS_AND_STATES)
def test_no_position_of_the_interval_exceeds_the_gaussian(eta: str, mu: str) -> None:
    with mpmath.workdps(120):
        game, close = Game(eta, mu), mpmath.mpf(10) ** -70
        for a in [game.b * i / 6 for i in range(-6, 7)]:
            for c in game.widths():
                assert game.hockey_stick(a, a + c) <= game.promised(a + c) + close
        assert abs(game.hockey_stick(mpmath.mpf(0), mpmath.mpf(0)) - game.promised(real(0))) < close


@pytest.mark.parametrize(("eta", "mu"), ETAS_AND_STATES)
def test_one_pair_of_tails_represents_every_position_of_the_interval(eta: str, mu: str) -> None:
    """Its tails, by quadrature, are the W and Z of H_x = W(x - a) - e^x Z(x - a)."""
    with mpmath.workdps(40):
        game, close = Game(eta, mu), mpmath.mpf(10) ** -25
        for c in game.widths()[::3]:
            w, z = game.test_of(c)
            for a in (-game.b, -game.b / 3, game.b * 0.9):
                exact = game.hockey_stick(a, a + c)
                assert abs(w - mpmath.exp(a + c) * z - exact) <= close * (1 + mpmath.exp(a + c))


@pytest.mark.parametrize(("eta", "mu"), ETAS_AND_STATES)
def test_slope_and_power_of_that_pair_are_concave(eta: str, mu: str) -> None:
    """Steps 3 and 4 of P11: ln(f(c)/f(-c)) and A(c) for c >= 0, by second differences."""
    with mpmath.workdps(120):
        game = Game(eta, mu)
        step = (game.b + game.left) / 5

        def slope(at: mpmath.mpf) -> mpmath.mpf:
            p, q = [
                game.tails(at - game.b)[i] - game.tails(at + game.b)[i] for i in range(2)
            ]  # the chance of a loss within b of it
            return 2 * at - mpmath.log(p / q)

        def power(at: mpmath.mpf) -> mpmath.mpf:
            # A = Phi^-1(W): W from its closed form, that is H_x at two places of the interval.
            low, high = [game.hockey_stick(a, a + at) for a in (mpmath.mpf(0), game.b)]
            z = (low - high) / (mpmath.exp(game.b + at) - mpmath.exp(at))
            w = low + mpmath.exp(at) * z
            return mpmath.sqrt(2) * mpmath.erfinv(2 * w - 1)

        for value, first in ((slope, 1), (power, 0)):
            found = [value(step * i) for i in range(first - 1, 16)]
            seconds = [a + c - 2 * b for a, b, c in zip(found, found[1:], found[2:], strict=False)]
            assert max(seconds) < 0


def test_a_slightly_larger_residue_breaks_the_bound() -> None:
    """P11's step is the least possible: R_t at t = eta/2 is randomized response."""
    with mpmath.workdps(120):
        game = Game("0.2", "0.4")
        game.left *= 1 + mpmath.mpf(10) ** -9
        nothing = mpmath.mpf(0)
        assert game.hockey_stick(nothing, nothing) > game.promised(nothing)


def test_bounded_range_costs_as_much_as_pure_dp_at_half_its_eta() -> None:
    limits, claim = capacity(), c.BoundedRange("0.03")
    half = KIND.charge(limits, (0, 0), price_of(c.Pure("0.015")))
    whole = KIND.charge(limits, (0, 0), price_of(c.Pure("0.03")))
    assert KIND.charge(limits, (0, 0), price_of(claim)) == half != whole
    five = check_claim(c.Repeat(c.BoundedRange("0.1"), 5))
    assert KIND.charge(limits, (0, 0), price(five, KIND.needs)) is not None


def test_voidable_bounded_range_is_charged_as_the_gaussian_of_half_its_eta() -> None:
    claim, plan = check_claim(c.BoundedRange("0.02")), plan_of(POLICIES["gdp_residue"])
    asked_for = voidable_price(plan.kind, plan.priced, claim)
    spent = plan.kind.charge(plan.capacity, (0,) * plan.width, asked_for)
    assert spent is not None
    mu = Fraction(mu_of_pure(Fraction(1, 100)))
    assert 0 <= Fraction(int(spent[0]), UNIT) - mu**2 <= Fraction(1, 10**20)
    charged = spent + asked_for.amounts[plan.needed :]
    assert by_voiding(plan, claim, charged) == charged
