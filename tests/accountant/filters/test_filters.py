"""Every filter keeps the same promises to the ledger."""

from __future__ import annotations

from decimal import Decimal

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.amounts import INFINITE, UNIT, Units
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS, Filter
from accountant.policy import ParsedBudget
from accountant.totals import SUMS, Price
from tests.accountant import exact

KINDS = [FILTERS[name]() for name in sorted(FILTERS)]
ROOM = (7 * UNIT, UNIT)


def asked(*amounts: Units) -> Price:
    return Price(mechanisms=1, amounts=amounts, wire={})


def budget(
    epsilon: str | None = "1", rho: str | None = None, own: str = "1e-6", claims: str = "0"
) -> ParsedBudget:
    return ParsedBudget(
        epsilon=None if epsilon is None else Decimal(epsilon),
        rho=None if rho is None else Decimal(rho),
        delta_for_claims=Decimal(claims),
        delta_for_filter=Decimal(own),
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
class TestEveryFilter:
    def test_its_sums_are_known_and_delta_is_the_second(self, kind: Filter) -> None:
        assert FILTERS[kind.name] is type(kind)
        assert set(kind.sums) <= set(SUMS)
        assert kind.sums[1] == "delta"

    def test_what_is_left_fits_and_one_unit_more_does_not(self, kind: Filter) -> None:
        spent = (3 * UNIT, UNIT // 3)
        left = kind.left(ROOM, spent)
        assert kind.charge(ROOM, spent, asked(*left)) == ROOM
        assert kind.charge(ROOM, spent, asked(left[0] + 1, 0)) is None
        assert kind.charge(ROOM, spent, asked(0, left[1] + 1)) is None

    def test_infinity_never_fits(self, kind: Filter) -> None:
        assert kind.charge(ROOM, (0, 0), asked(INFINITE, 0)) is None
        assert kind.charge(ROOM, (0, 0), asked(0, INFINITE)) is None

    def test_sums_that_only_odometers_use_are_no_business_of_its(self, kind: Filter) -> None:
        assert kind.charge(ROOM, (0, 0), asked(1, 0, INFINITE, INFINITE)) == (1, 0)

    @settings(max_examples=50)
    @given(cost=st.integers(1, UNIT), delta=st.integers(0, UNIT // 10))
    def test_its_count_is_how_often_it_admits(self, kind: Filter, cost: int, delta: int) -> None:
        capacity = (40 * cost + cost // 2, 30 * delta + delta // 2)
        price = asked(cost, delta)
        spent: tuple[Units, ...] = (0, 0)
        count = 0
        while (after := kind.charge(capacity, spent, price)) is not None:
            spent, count = after, count + 1
        assert kind.count(capacity, (0, 0), price) == count == (30 if delta else 40)

    def test_what_costs_nothing_fits_without_end(self, kind: Filter) -> None:
        assert kind.count(ROOM, ROOM, asked(0, 0)) is None
        assert kind.charge(ROOM, ROOM, asked(0, 0)) == ROOM

    def test_a_budget_of_the_wrong_kind_is_refused(self, kind: Filter) -> None:
        wrong = budget(rho="1", epsilon=None) if kind.budget_fields == ("epsilon",) else budget()
        with pytest.raises(RequestInvalid):
            kind.capacity(wrong)


@pytest.mark.parametrize("name", ["zcdp_tight", "fully_adaptive"])
def test_a_filter_that_needs_a_delta_of_its_own_is_refused_without(name: str) -> None:
    with pytest.raises(RequestInvalid, match="delta"):
        FILTERS[name]().capacity(budget(own="0", claims="1e-6"))


def test_basic_and_zcdp_store_their_budgets_exactly() -> None:
    assert FILTERS["basic"]().capacity(budget(claims="1e-6")) == (UNIT, UNIT // 10**6)
    assert FILTERS["zcdp"]().capacity(budget(None, "0.125", claims="0")) == (UNIT // 8, 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(-3, 2), st.integers(1, 9), st.integers(-30, -1))
def test_fully_adaptive_stores_the_root_of_its_rule_rounded_down(
    exponent: int, digit: int, log_delta: int
) -> None:
    epsilon, delta = f"{digit}e{exponent}", f"1e{log_delta}"
    v = exact.units(FILTERS["fully_adaptive"]().capacity(budget(epsilon, own=delta))[0])

    def rule(total: mpmath.mpf) -> mpmath.mpf:
        return mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(delta)) * total) + total / 2

    assert rule(v) <= mpmath.mpf(epsilon)
    assert rule(v * (1 + mpmath.mpf(10) ** -18) + mpmath.mpf(10) ** -40) > mpmath.mpf(epsilon)


@settings(max_examples=25, deadline=None)
@given(st.integers(-2, 1), st.integers(1, 9), st.integers(-20, -2))
def test_zcdp_tight_stores_a_rho_whose_tight_delta_is_within_the_budget(
    exponent: int, digit: int, log_delta: int
) -> None:
    epsilon, delta = mpmath.mpf(f"{digit}e{exponent}"), mpmath.mpf(f"1e{log_delta}")
    stored = FILTERS["zcdp_tight"]().capacity(budget(f"{digit}e{exponent}", own=f"1e{log_delta}"))
    rho = exact.units(stored[0])

    def log_delta_at(order: mpmath.mpf, r: mpmath.mpf) -> mpmath.mpf:
        less = order - 1
        return less * (order * r - epsilon) + order * mpmath.log(less / order) - mpmath.log(less)

    def stationary(order: mpmath.mpf) -> mpmath.mpf:
        return (2 * order - 1) * rho - epsilon + mpmath.log1p(-1 / order)

    low, high = 1 + mpmath.mpf(10) ** -30, 10 + 2 * epsilon / rho
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if stationary(middle) < 0 else (low, middle)
    assert log_delta_at(low, rho) <= mpmath.log(delta)
    more = rho * (1 + mpmath.mpf(10) ** -10)
    orders = [1 + (low - 1) * (1 + mpmath.mpf(k) / 10**9) for k in range(-20, 21)]
    assert min(log_delta_at(order, more) for order in orders) > mpmath.log(delta)
