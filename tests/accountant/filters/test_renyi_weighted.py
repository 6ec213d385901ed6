"""Several Renyi orders: each with its part of delta, and what happens with the whole of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import add

import mpmath
import pytest

from accountant import claims as c
from accountant.amounts import INFINITE, UNIT, Units, units_up
from accountant.claims import check_claim
from accountant.claims.price import Price, price
from accountant.errors import RequestInvalid
from accountant.filters.renyi import RenyiFilter
from accountant.filters.renyi_mixture import RenyiMixtureFilter
from accountant.filters.renyi_weighted import RenyiWeightedFilter
from accountant.ledger.adjudicate import adjudicate
from accountant.policy import ParsedBudget, Policy
from accountant.records.outcomes import Outcome
from tests.accountant import exact
from tests.accountant.filters.policies import opened, plan_of
from tests.every_case import check_rows

ORDERS = ("2.5", "400")
EPSILON, DELTA = mpmath.mpf(8), mpmath.mpf(10) ** -3
BUDGET = ParsedBudget(
    epsilon=Decimal(8),
    rho=None,
    delta_for_claims=Decimal(0),
    delta_for_filter=Decimal("1e-3"),
)


def policy(orders: tuple[str, ...], weights: tuple[str, ...] | None = None) -> Policy:
    given = Policy(filter="renyi_weighted", epsilon="1", delta="1e-6", orders=orders)
    if weights is None:
        return given
    return Policy(
        filter="renyi_weighted", epsilon="1", delta="1e-6", orders=orders, weights=weights
    )


@dataclass(frozen=True)
class Atom:
    """A symmetric pair: loss +-`loss`, P of the first `mass`, else no loss at all."""

    loss: mpmath.mpf
    mass: mpmath.mpf

    def divergence(self, order: str) -> mpmath.mpf:
        power = mpmath.mpf(order) - 1
        grown = mpmath.exp(power * self.loss) - 1
        shrunk = mpmath.exp(-self.loss) * (mpmath.exp(-power * self.loss) - 1)
        return mpmath.log1p(self.mass * (grown + shrunk)) / power

    def hockey_stick(self, at: mpmath.mpf) -> mpmath.mpf:
        """Return E_P (1 - e^{at - L})_+ for `at` above 0."""
        return self.mass * max(0, 1 - mpmath.exp(at - self.loss))


REPORTED = mpmath.mpf("0.02")  # what the adversary's first round may tell
COIN = Atom(REPORTED, 1 / (1 + mpmath.exp(-REPORTED)))


def atom_that_uses_up(order: str, limit: Units, step: mpmath.mpf) -> Atom:
    """Return what fills an order's budget after the coin, worst where the coin revealed `step`."""
    alpha = mpmath.mpf(order)
    loss = EPSILON + mpmath.log(alpha / (alpha - 1)) - step
    # A hair below the budget, which the filter rounds costs up to.
    room = exact.units(limit) - COIN.divergence(order) - mpmath.mpf(10) ** -35
    unit = Atom(loss, mpmath.mpf(1))
    rise = mpmath.expm1((alpha - 1) * unit.divergence(order))
    return Atom(loss, mpmath.expm1((alpha - 1) * room) / rise)


def cost(atom: Atom) -> Price:
    """Return what the filter is given: each order's divergence, rounded up."""
    with mpmath.workdps(60):
        texts = [mpmath.nstr(atom.divergence(order), 50) for order in ORDERS]
    up = [units_up(Fraction(text) * (1 + Fraction(1, 10**45))) for text in texts]
    return Price(1, tuple(up), {})


def admitted(
    capacity: tuple[Units, ...],
    sequence: list[Atom],
    of: type[RenyiWeightedFilter] = RenyiWeightedFilter,
) -> bool:
    kind = of(ORDERS, ("0.5", "0.5"))
    spent: tuple[Units, ...] | None = (0, 0)
    for atom in sequence:
        spent = kind.charge(capacity, spent, cost(atom))
        if spent is None:
            return False
    return True


def attack(capacity: tuple[Units, ...]) -> tuple[Atom, Atom]:
    """After a coin that came up high order 400's atom, after one that came up low order 2.5's."""
    high = atom_that_uses_up(ORDERS[1], capacity[1], REPORTED)
    low = atom_that_uses_up(ORDERS[0], capacity[0], -REPORTED)
    return high, low


def reached(high: Atom, low: Atom) -> mpmath.mpf:
    """Return the exact H_epsilon of the adversary, in units of delta."""
    up, down = COIN.mass, 1 - COIN.mass
    after_high = up * high.hockey_stick(EPSILON - REPORTED)
    after_low = down * low.hockey_stick(EPSILON + REPORTED)
    return (after_high + after_low) / DELTA


class TestDeltaIsDivided:
    """docs/theory.md section 7: some order fits, at an undivided delta, spends 1.48 delta."""

    @pytest.mark.parametrize("kind", [RenyiWeightedFilter, RenyiMixtureFilter])
    def test_an_adversary_would_reach_1_48_delta_with_undivided_budgets(
        self, kind: type[RenyiWeightedFilter]
    ) -> None:
        undivided = tuple(RenyiFilter(order).capacity(BUDGET)[0] for order in ORDERS)
        high, low = attack(undivided)
        assert admitted(undivided, [COIN, high], kind)
        assert admitted(undivided, [COIN, low], kind)
        assert 1.475 < reached(high, low) < 1.49

    @pytest.mark.parametrize("kind", [RenyiWeightedFilter, RenyiMixtureFilter])
    def test_our_budgets_refuse_that_adversary(self, kind: type[RenyiWeightedFilter]) -> None:
        undivided = tuple(RenyiFilter(order).capacity(BUDGET)[0] for order in ORDERS)
        ours = kind(ORDERS, ("0.5", "0.5")).capacity(BUDGET)
        assert all(a < b for a, b in zip(ours, undivided, strict=True))
        for last in attack(undivided):
            assert not admitted(ours, [COIN, last], kind)

    @pytest.mark.parametrize("weights", [("0.5", "0.5"), ("0.9", "0.1"), ("0.01", "0.99")])
    def test_the_same_attack_on_our_budgets_stays_within_delta(
        self, weights: tuple[str, str]
    ) -> None:
        ours = RenyiWeightedFilter(ORDERS, weights).capacity(BUDGET)
        high, low = attack(ours)
        assert admitted(ours, [COIN, high])
        assert admitted(ours, [COIN, low])
        assert 0.5 < reached(high, low) <= 1


def test_one_order_with_all_of_delta_is_the_fixed_order() -> None:
    one, fixed = RenyiWeightedFilter(("22",), ("1",)), RenyiFilter("22")
    assert (one.sums, one.capacity(BUDGET)) == (fixed.sums, fixed.capacity(BUDGET))


def test_weights_are_equal_by_default() -> None:
    same = RenyiWeightedFilter(("22", "50", "80"))
    assert same.weights == (Fraction(1, 3),) * 3
    near = RenyiWeightedFilter(("22", "50", "80"), ("0.333333333333",) * 3)
    for a, b in zip(same.capacity(BUDGET), near.capacity(BUDGET), strict=True):
        assert 0 < int(a) - int(b) < UNIT // 10**12


def count(orders: tuple[str, ...], claim: str) -> int | None:
    plan = plan_of(policy(orders))
    one = price(check_claim(c.Pure(claim)), plan.priced)
    return plan.kind.count(plan.capacity, (0,) * plan.width, one)


def test_two_orders_admit_many_small_and_many_large_requests() -> None:
    assert count(("22",), "0.01") == 490
    assert count(("2000",), "0.1") == 10
    assert count(("2000",), "0.01") == 103
    assert count(("22",), "0.1") == 7
    assert count(("22", "2000"), "0.01") == 460
    assert count(("22", "2000"), "0.1") == 10


def test_an_exhausted_order_stays_exhausted_and_the_others_still_admit() -> None:
    ledger = opened(policy(("22", "2000")))
    limits = ledger.plan.capacity
    for _ in range(8):
        before = ledger.totals
        ledger, verdict = adjudicate(ledger, check_claim(c.Pure("0.1")), "person", "add_remove", 1)
        assert verdict.outcome is Outcome.GRANTED
        one = price(check_claim(c.Pure("0.1")), ledger.plan.priced).amounts
        assert ledger.totals[:2] == tuple(map(add, before[:2], one[:2]))
    assert ledger.spent[0] > limits[0]
    assert ledger.spent[1] < limits[1]
    assert ledger.remaining == (0, int(limits[1]) - int(ledger.spent[1]))
    # The remaining order alone says what is left.
    assert 0.7 < ledger.spent_ratio < 0.9
    assert not ledger.exhausted
    ledger, verdict = adjudicate(ledger, check_claim(c.Pure("0.55")), "person", "add_remove", 1)
    assert verdict.outcome is Outcome.REFUSED
    assert verdict.fits is not None


def test_an_order_at_which_a_claim_has_no_curve_is_spent_for_ever() -> None:
    kind = RenyiWeightedFilter(("22", "50"))
    capacity = kind.capacity(BUDGET)
    only_first = Price(1, (UNIT, INFINITE), {})
    assert kind.accepts(only_first)
    spent = kind.charge(capacity, (0, 0), only_first)
    assert spent == (UNIT, INFINITE)
    assert kind.progress(capacity, spent) == UNIT
    assert kind.remaining(capacity, spent) == (int(capacity[0]) - UNIT, 0)
    assert kind.charge(capacity, spent, Price(1, (INFINITE, 0), {})) is None
    assert not kind.accepts(Price(1, (INFINITE, INFINITE), {}))


def test_orders_and_weights_that_make_no_filter_are_refused() -> None:
    def check_case(orders: tuple[str, ...], weights: tuple[str, ...] | None, field: str) -> None:
        with pytest.raises(RequestInvalid) as caught:
            plan_of(policy(orders, weights))
        assert caught.value.field == f"policy.{field}"

    check_rows(
        check_case,
        [
            ((), None, "orders"),
            (("22", "22.0"), None, "orders[1]"),
            (("40", "22"), None, "orders[1]"),
            (("22", "1"), None, "orders[1]"),
            (("2", "22"), None, "orders[0]"),
            (tuple(map(str, range(20, 37))), None, "orders"),
            (("22", "40"), ("1",), "weights"),
            (("22", "40"), ("0.5", "0.6"), "weights"),
            (("22", "40"), ("1", "0"), "weights[1]"),
            (("22", "40"), ("1", "-1"), "weights[1]"),
            (("22", "40"), ("0.5", "half"), "weights[1]"),
            # So little of delta that the order has no budget at all.
            (("14", "40"), ("0.01", "0.99"), "orders[0]"),
        ],
    )


def test_claims_may_spend_no_part_of_delta() -> None:
    with pytest.raises(RequestInvalid, match="delta_for_claims"):
        plan_of(
            Policy(
                filter="renyi_weighted",
                epsilon="1",
                delta="1e-6",
                delta_for_claims="1e-7",
                orders=("22",),
            )
        )
