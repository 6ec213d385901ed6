"""What filters store at opening is the root of their rule, rounded down."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import UNIT
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.filters.advanced_2016 import Advanced2016Filter, advanced_2016_bound
from accountant.filters.split import SplitFilter
from accountant.policy import ParsedBudget, Policy, guarantee_of
from tests.accountant import exact
from tests.accountant.filters import rules
from tests.accountant.filters.policies import plan_of
from tests.nightly import examples

TINY = mpmath.mpf(10) ** -40


def budget(
    epsilon: str | None = "1", rho: str | None = None, own: str = "1e-6", claims: str = "0"
) -> ParsedBudget:
    return ParsedBudget(
        epsilon=None if epsilon is None else Decimal(epsilon),
        rho=None if rho is None else Decimal(rho),
        delta_for_claims=Decimal(claims),
        delta_for_filter=Decimal(own),
    )


@pytest.mark.parametrize("name", ["zcdp_tight", "fully_adaptive", "unified_brownian"])
def test_a_filter_that_needs_delta_is_refused_without_it(name: str) -> None:
    with pytest.raises(RequestInvalid, match="delta"):
        FILTERS[name]().capacity(budget(own="0", claims="1e-6"))


def test_basic_zcdp_and_ex_post_store_their_budgets_exactly() -> None:
    assert FILTERS["basic"]().capacity(budget(claims="1e-6")) == (UNIT, UNIT // 10**6)
    assert FILTERS["ex_post"]().capacity(budget(claims="1e-6")) == (UNIT, UNIT // 10**6)
    for name in ("zcdp", "unified_brownian"):
        assert FILTERS[name]().capacity(budget(None, "0.125", claims="0")) == (UNIT // 8, 0)


def test_unified_brownian_has_the_capacity_of_zcdp_tight() -> None:
    tight, unified = (FILTERS[name]() for name in ("zcdp_tight", "unified_brownian"))
    given_budget = budget(own="1e-6", claims="1e-7")
    assert unified.capacity(given_budget) == tight.capacity(given_budget)


def test_split_keeps_two_budgets_and_promises_their_sum() -> None:
    policy = Policy(
        filter="split",
        epsilon="1",
        delta="3e-6",
        delta_for_claims="1e-6",
        epsilon_ex_post="0.25",
        delta_ex_post="1e-7",
    )
    plan = plan_of(policy)
    tight = FILTERS["zcdp_tight"]().capacity(budget(own="2e-6", claims="1e-6"))
    assert plan.capacity == (*tight, UNIT // 4, UNIT // 10**7)
    assert guarantee_of(policy) == ("epsilon", Decimal("1.25"), Decimal("0.0000031"))


def test_split_refuses_deltas_that_add_up_to_1() -> None:
    with pytest.raises(RequestInvalid, match="delta_ex_post and delta must add up"):
        SplitFilter(epsilon_ex_post="1", delta_ex_post="0.6").capacity(budget(own="0.4"))


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(-3, 2), st.integers(1, 9), st.integers(-30, -1))
def test_fully_adaptive_stores_the_root_of_its_rule_rounded_down(
    exponent: int, digit: int, log_delta: int
) -> None:
    epsilon, delta = f"{digit}e{exponent}", f"1e{log_delta}"
    v = exact.units(FILTERS["fully_adaptive"]().capacity(budget(epsilon, own=delta))[0])

    def rule(total: mpmath.mpf) -> mpmath.mpf:
        return mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(delta)) * total) + total / 2

    assert rule(v) <= mpmath.mpf(epsilon)
    assert rule(v * (1 + mpmath.mpf(10) ** -18) + TINY) > mpmath.mpf(epsilon)


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(st.integers(-10, 2), st.integers(1, 9), st.integers(-38, -1))
def test_zcdp_tight_stores_the_largest_rho_rounded_down(
    exponent: int, digit: int, log_delta: int
) -> None:
    epsilon, delta = f"{digit}e{exponent}", f"1e{log_delta}"
    due = rules.tight_rho(epsilon, delta)
    ours = exact.units(FILTERS["zcdp_tight"]().capacity(budget(epsilon, own=delta))[0])
    assert due * (1 - mpmath.mpf(10) ** -12) - TINY <= ours <= due


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(-12, 2), st.integers(1, 9), st.integers(-38, -1))
def test_advanced_2016_stores_the_longest_time_and_the_largest_mean(
    exponent: int, digit: int, log_delta: int
) -> None:
    epsilon, delta = f"{digit}e{exponent}", f"1e{log_delta}"
    kind = Advanced2016Filter(epsilon=epsilon, delta=delta)
    half = str(Decimal(delta) / 2)
    stored = kind.capacity(budget(epsilon, own=half, claims=half))
    goal, whole = exact.real(epsilon), exact.real(delta)

    def rule(v: mpmath.mpf, mean: mpmath.mpf) -> mpmath.mpf:
        scale = goal**2 / (mpmath.mpf("28.04") * -mpmath.log(whole))
        log = 1 + mpmath.log1p(v / scale) / 2
        return mean + mpmath.sqrt(2 * (v + scale) * log * mpmath.log(2 / whole))

    v, mean = exact.units(stored[0]), exact.units(stored[1])
    more = 1 + mpmath.mpf(10) ** -17
    assert rule(v, v / 2) <= goal < rule(v * more + TINY, (v * more + TINY) / 2)
    assert rule(mpmath.mpf(0), mean) <= goal < rule(mpmath.mpf(0), mean * more + TINY)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"delta": "0"}, "delta"),
        ({"delta": "0.36787944117144232159552377016146086744"}, None),
        ({"delta": "0.36787944117144232159552377016146086745"}, "delta"),
        ({"delta_for_claims": "6e-7"}, "delta_for_claims"),
        ({"delta_for_claims": "5e-7"}, None),
        ({"epsilon": "1001"}, "epsilon"),
        ({"epsilon": "one"}, "epsilon"),
    ],
)
def test_advanced_2016_needs_half_of_delta_below_1_over_e(
    changes: dict[str, str], field: str | None
) -> None:
    policy = Policy(**{"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6", **changes})  # type: ignore[arg-type]
    if field is None:
        assert plan_of(policy).capacity[0] > 0
        return
    with pytest.raises(RequestInvalid) as caught:
        plan_of(policy)
    assert caught.value.field == f"policy.{field}"


def test_advanced_2016_decides_by_decimals_where_floats_cannot_tell() -> None:
    """One unit of the grid below the end of the budget fits, one above does not."""
    kind = Advanced2016Filter(epsilon="1", delta="1e-6")
    capacity = kind.capacity(budget(own="5e-7", claims="5e-7"))
    v = int(capacity[0]) // 3

    def bound(mean: int) -> Decimal:
        return advanced_2016_bound(
            time=Fraction(v, UNIT),
            mean=Fraction(mean, UNIT),
            epsilon=Decimal(1),
            delta=Decimal("1e-6"),
        )

    low, high = v // 2, UNIT
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle) <= 1 else (low, middle)
    assert float(bound(low)) == float(bound(high)) == 1
    assert kind.holds(capacity, (v, low, 0))
    assert not kind.holds(capacity, (v, high, 0))


def test_advanced_2016_refuses_means_beyond_the_largest_float() -> None:
    plan = plan_of(Policy(filter="advanced_2016", epsilon="1000", delta="1e-6"))
    for epsilon in ("1000", "700", "20"):
        asked = price(check_claim(c.Pure(epsilon)), plan.priced)
        assert plan.kind.charge(plan.capacity, (0, 0, 0), asked) is None
