"""The Renyi filter: its order, its budget, and the claims that have a curve."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import UNIT
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.claims.promises import Promise, promise
from accountant.claims.text import parse_claim
from accountant.conversions.renyi_order import best_order
from accountant.errors import RequestInvalid
from accountant.filters.renyi import MAX_ORDER, MIN_ORDER
from accountant.ledger.adjudicate import adjudicate
from accountant.policy import Policy
from accountant.records.outcomes import Outcome, Reason
from tests.accountant import exact
from tests.accountant.filters import rules
from tests.accountant.filters.policies import opened, plan_of
from tests.accountant.strategies import atoms, decimals
from tests.every_case import check_rows
from tests.nightly import examples

SAMPLED = c.SubsampledGaussian("2", "1", "0.01")


def policy(order: str = "22", **changes: str) -> Policy:
    fields = {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": order, **changes}
    return Policy(**fields)  # type: ignore[arg-type]


def fits(order: str, claim: str) -> int | None:
    plan = plan_of(policy(order))
    one = price(check_claim(parse_claim(claim)), plan.priced)
    return plan.kind.count(plan.capacity, (0,), one)


def best(claim: str, epsilon: str = "1", delta: str = "1e-6") -> Decimal | None:
    worth = promise(parse_claim(claim))
    assert worth.renyi is not None
    return best_order(
        epsilon=Decimal(epsilon),
        delta=Decimal(delta),
        curve=partial(curve_of, worth),
        minimum=MIN_ORDER,
        maximum=MAX_ORDER,
    )


def curve_of(worth: Promise, order: Decimal) -> Fraction:
    assert worth.renyi is not None
    value = worth.renyi(order)
    assert value is not None
    return Fraction(value)


def test_490_hundredths_fit_at_order_22_and_23_and_fewer_beside_them() -> None:
    assert [fits(str(order), "pure:0.01") for order in (20, 21, 22, 23, 24)] == [
        484,
        489,
        490,
        490,
        487,
    ]


@pytest.mark.parametrize(
    ("claim", "maximum"), [("pure:0.01", 490), ("pure:0.1", 10), ("pure:1", 1), ("zcdp:0.0005", 48)]
)
def test_the_best_order_fits_as_many_as_any_order_does(claim: str, maximum: int) -> None:
    order = best(claim)
    assert order is not None
    assert fits(str(order), claim) == maximum
    others = [str(14 + k) for k in range(200)] + [str(10**k) for k in range(3, 9)]
    assert max(fits(other, claim) or 0 for other in others) <= maximum


def test_no_order_is_best_where_none_leaves_a_budget() -> None:
    assert best("pure:0.01", epsilon="1e-12", delta="1e-10") is None


@settings(max_examples=examples(60), deadline=None)
@given(decimals(-3, 2), st.integers(-38, -1), st.integers(2, 10**6))
def test_the_renyi_capacity_is_rounded_down(epsilon: str, log_delta: int, order: int) -> None:
    tested = policy(str(order), epsilon=epsilon, delta=f"1e{log_delta}")
    [(_, limit)] = rules.renyi(tested, []) or []
    if limit < mpmath.mpf(10) ** -30:
        with pytest.raises(RequestInvalid, match=r"policy\.order must be larger"):
            plan_of(tested)
        return
    ours = exact.units(plan_of(tested).capacity[0])
    assert limit * (1 - mpmath.mpf(10) ** -12) - mpmath.mpf(10) ** -40 <= ours <= limit


def test_a_policy_that_leaves_the_renyi_filter_no_budget_is_refused() -> None:
    def check_case(changes: dict[str, str], field: str) -> None:
        with pytest.raises(RequestInvalid) as caught:
            plan_of(policy(**changes))
        assert caught.value.field == f"policy.{field}"

    check_rows(
        check_case,
        [
            ({"order": "1"}, "order"),
            ({"order": "2"}, "order"),
            ({"order": "0.5"}, "order"),
            ({"order": "2e9"}, "order"),
            ({"order": "twenty"}, "order"),
            ({"delta": "0"}, "delta"),
            ({"delta_for_claims": "1e-7"}, "delta_for_claims"),
            ({"rho": "1"}, "rho"),
        ],
    )


def test_order_is_required_by_renyi_and_refused_by_other_filters() -> None:
    with pytest.raises(RequestInvalid, match=r"policy\.order is missing: it must be given"):
        plan_of(Policy(filter="renyi", epsilon="1", delta="1e-6"))
    with pytest.raises(RequestInvalid, match=r"policy\.order must be left out"):
        plan_of(Policy(epsilon="1", delta="1e-6", order="22"))


def test_equal_orders_are_one_sum() -> None:
    assert plan_of(policy("22.50")).kind.sums == ("renyi_22.5",)
    assert plan_of(policy("2.2e1")).kind.sums == ("renyi_22",)


def test_an_order_of_many_digits_is_not_rounded() -> None:
    order = "20.00000000000000000000000000009"
    plan = plan_of(Policy(filter="renyi", epsilon="1", delta="1e-6", order=order))
    assert plan.kind.sums == (f"renyi_{order}",)
    (cost,) = price(check_claim(parse_claim("zcdp:0.01")), plan.kind.sums).amounts
    assert Fraction(cost, UNIT) >= Fraction(order) / 100


@settings(max_examples=examples(150), deadline=None)
@given(atoms(small=-12, large=2), st.sampled_from(["1.5", "2", "22", "77.7", "12345"]))
def test_each_claim_costs_its_curve(claim: c.Claim, order: str) -> None:
    due = exact.renyi(claim, order)
    curve = promise(claim).renyi
    assert (curve is None) == (due is None) == (exact.delta(claim) > 0)
    if curve is None or due is None:
        return
    value = curve(Decimal(order))
    assert value is not None
    ours = exact.real(Fraction(value))
    # Conversions of both to 80 digits may round either way.
    assert due * (1 - mpmath.mpf(10) ** -60) <= ours <= due * (1 + mpmath.mpf(10) ** -12)


def decide(tested: Policy, claim: c.Claim) -> tuple[Outcome, Reason | None]:
    _, verdict = adjudicate(opened(tested), check_claim(claim), tested.unit, tested.neighbours, 1)
    return verdict.outcome, verdict.reason


NOT_ACCEPTED = (Outcome.REFUSED, Reason.CLAIM_NOT_ACCEPTED)


@pytest.mark.parametrize("claim", ["approximate:0.01,1e-9", "ex_post:0.01,1e-9"])
def test_a_claim_with_a_delta_is_not_accepted(claim: str) -> None:
    assert decide(policy(), parse_claim(claim)) == NOT_ACCEPTED
    assert decide(policy(), parse_claim(f"pure:0.01+{claim}")) == NOT_ACCEPTED
    without = claim.replace(",1e-9", ",0")
    assert decide(policy(), parse_claim(without)) == (Outcome.GRANTED, None)


class TestASubsampledGaussian:
    def test_its_sample_counts_under_renyi(self) -> None:
        plain = fits("21", "gaussian:sigma=2,sensitivity=1")
        sampled = fits("21", "subsampled_gaussian:sigma=2,sensitivity=1,rate=0.01")
        assert plain == 0
        assert sampled == 1608

    @pytest.mark.parametrize("claim", [SAMPLED, c.Repeat(SAMPLED, 2), c.AllOf((SAMPLED,))])
    def test_a_subsampled_gaussian_is_not_accepted_under_replace_neighbours(
        self, claim: c.Claim
    ) -> None:
        granted = Outcome.GRANTED, None
        assert decide(policy("21"), claim) == granted
        assert decide(policy("21", neighbours="replace"), claim) == NOT_ACCEPTED
        plain = c.Gaussian("100", "1")
        assert decide(policy("21", neighbours="replace"), plain) == granted

    def test_other_filters_charge_a_subsampled_gaussian_as_the_whole_gaussian(self) -> None:
        for name in ("rho", "intrinsic_time", "mu_squared"):
            sampled = price(check_claim(SAMPLED), (name,)).amounts
            assert sampled == price(check_claim(c.Gaussian("2", "1")), (name,)).amounts

    @pytest.mark.parametrize("rate", ["0", "1.1", "-0.1", "nan", "1e-13"])
    def test_its_rate_is_a_probability(self, rate: str) -> None:
        with pytest.raises(RequestInvalid, match="rate"):
            check_claim(c.SubsampledGaussian("1", "1", rate))

    def test_a_subsampled_gaussian_of_sensitivity_0_costs_nothing(self) -> None:
        free = c.SubsampledGaussian("1", "0", "0.5")
        assert price(check_claim(free), ("renyi_22", "rho")).amounts == (0, 0)

    def test_a_subsampled_gaussian_is_parsed_from_text(self) -> None:
        assert parse_claim("subsampled_gaussian:sigma=2,sensitivity=1,rate=0.01") == SAMPLED
