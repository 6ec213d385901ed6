"""Random sequences of mixed claims: nothing over the rule, and nothing refused that fits."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from functools import cache

import mpmath
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import format_units, parse_units
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.ledger.adjudicate import adjudicate
from accountant.policy import Policy
from accountant.records.outcomes import Outcome, Reason
from tests.accountant.filters.policies import POLICIES, opened
from tests.accountant.filters.rules import RULES, Limits, delta, single
from tests.accountant.strategies import batches, claims, ex_posts
from tests.every_case import check_each
from tests.nightly import examples, rounds

# The reference works to 80 digits and adds up to a few thousand of its own numbers.
ROUNDING = mpmath.mpf(10) ** -70
LOOSE = 1 - mpmath.mpf(10) ** -12

ADDED_UP = sorted(set(RULES) - {"optimal_homogeneous"})
"""What costs less the smaller a claim is: as many as one likes fit."""

tiny_to_large = st.one_of(
    claims(small=-12, large=-5),
    claims(small=-5, large=-2),
    claims(small=-2, large=0),
    claims(small=-12, large=2),
)
sequences = st.lists(tiny_to_large, max_size=25)
of_ex_posts = st.lists(st.one_of(ex_posts(), batches(ex_posts())), max_size=25)


def exceeds(limits: Limits) -> bool:
    return any(value > limit * (1 + ROUNDING) for value, limit in limits)


def fits_clearly(limits: Limits) -> bool:
    return all(value <= limit * LOOSE for value, limit in limits)


def has_too_much_delta(policy: Policy, claim: c.Claim) -> bool:
    """Tell whether a mechanism has more delta than all claims: no other epsilon makes it fit."""
    for each, _ in single(claim):
        own = delta([(each, 1)])
        limits = RULES[policy.filter](policy, [(each, 1)]) or []
        if any(value == own > limit for value, limit in limits):
            return True
    return False


def play(policy: Policy, sequence: list[c.Claim]) -> DatasetLedger:
    """Ask one claim after another, and hold each answer against the rule."""
    rule = RULES[policy.filter]
    ledger = opened(policy)
    ran: list[tuple[c.Claim, int]] = []
    for claim in sequence:
        asked = [*ran, *single(claim)]
        due = rule(policy, asked)
        before = ledger
        ledger, verdict = adjudicate(
            ledger, check_claim(claim), policy.unit, policy.neighbours, ledger.changed_at + 1
        )
        if verdict.outcome is Outcome.GRANTED:
            assert due is not None, "a kind of claim that this filter must not take"
            assert not exceeds(due)
            ran = asked
            check_cost(before, ledger, verdict.cost)
        elif verdict.reason is Reason.CLAIM_NOT_ACCEPTED:
            assert due is None or has_too_much_delta(policy, claim)
        else:
            assert verdict.reason is Reason.EXHAUSTED
            assert not has_too_much_delta(policy, claim)
            assert due is None or not fits_clearly(due)
        if verdict.outcome is not Outcome.GRANTED:
            assert (ledger.totals, ledger.mechanisms) == (before.totals, before.mechanisms)
        check_position(ledger)
    return ledger


def check_cost(before: DatasetLedger, after: DatasetLedger, cost: dict[str, str] | None) -> None:
    assert cost is not None
    assert list(cost) == list(after.plan.sums)
    for old, new, grown in zip(before.totals, after.totals, cost.values(), strict=True):
        assert format_units(old + parse_units(grown)) == format_units(new)


def check_position(ledger: DatasetLedger) -> None:
    plan = ledger.plan
    assert plan.kind.holds(plan.capacity, ledger.spent)
    assert all(amount >= 0 for amount in ledger.remaining)
    assert 0 <= plan.progress(ledger.totals) <= plan.capacity[0]
    assert 0 <= ledger.spent_ratio <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
@settings(max_examples=rounds(12, 60), deadline=None)
@given(st.data())
def test_no_sequence_exceeds_the_rule_and_every_claim_that_fits_is_granted(
    name: str, data: st.DataObject
) -> None:
    kinds = of_ex_posts if name == "ex_post" else sequences
    play(POLICIES[name], data.draw(kinds))


@cache
def budgets(name: str) -> list[Policy]:
    """Return a filter's policy at budgets of all sizes, as far as they leave it anything."""
    policy = POLICIES[name]
    found = []
    for size, log_delta in itertools.product(("1e-9", "0.004", "7", "300", "1000"), (-30, -9, -2)):
        field = "rho" if policy.epsilon is None else "epsilon"
        changes: dict[str, object] = {field: size, "delta": f"3e{log_delta}"}
        if policy.delta_for_claims is not None:
            changes["delta_for_claims"] = f"1e{log_delta}"
        if name == "split":
            changes["epsilon_ex_post"] = size
        if name == "optimal_homogeneous":
            changes["epsilon_each"] = f"{max(Decimal(size) / 32, Decimal('0.02')):f}"
        scaled = msgspec.structs.replace(policy, **changes)
        try:
            opened(scaled)
        except RequestInvalid:  # an order of Renyi divergence that such a budget has no use for
            continue
        found.append(scaled)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RULES))
@settings(max_examples=rounds(8, 100), deadline=None)
@given(st.data())
def test_nor_does_any_under_budgets_of_all_sizes(name: str, data: st.DataObject) -> None:
    policy = data.draw(st.sampled_from(budgets(name)))
    # About the size of the budget, so that some fit and some do not.
    size = math.log10(float(policy.epsilon or policy.rho or 0))
    near = (max(-12, round(size) - 4), min(2, round(size)))
    of_ex_post = ex_posts(*near)
    kinds = (
        st.one_of(of_ex_post, batches(of_ex_post))
        if name == "ex_post"
        else st.one_of(claims(small=near[0], large=near[1]), claims(small=-12, large=2))
    )
    play(policy, data.draw(st.lists(kinds, max_size=20)))


@settings(max_examples=examples(40), deadline=None)
@given(sequences)
def test_unified_brownian_takes_a_budget_of_rho_too(sequence: list[c.Claim]) -> None:
    play(Policy(filter="unified_brownian", rho="0.05", delta="1e-6"), sequence)


def test_the_last_that_fits_is_granted_and_the_next_refused() -> None:
    """At the very end of the budget, where a float would not know."""

    def check_case(name: str) -> None:
        policy = POLICIES[name]
        kind = c.ExPost if name == "ex_post" else c.Pure
        sequence: list[c.Claim] = []
        ledger = opened(policy)
        for epsilon in ("0.003", "1e-4", "1e-6", "1e-8", "1e-10", "1e-12"):
            claim = kind(epsilon)
            plan = ledger.plan
            asked = price(check_claim(claim), plan.priced)
            times = plan.kind.count(plan.capacity, ledger.spent, asked)
            assert times is not None
            assert times < 10**6
            if times:
                sequence.append(c.Repeat(claim, times))
            ledger = play(policy, [*sequence, claim])
            assert ledger.mechanisms == sum(n for step in sequence for _, n in single(step))
        assert ledger.spent_ratio > 0.9999

    check_each(check_case, sorted(RULES))


def test_ten_million_tiny_requests_do_not_drift() -> None:
    """As batches of a million each, to the last one that fits."""

    def check_case(name: str) -> None:
        policy = POLICIES[name]
        kind = c.ExPost if name == "ex_post" else c.Pure
        plan = opened(policy).plan
        counts = {
            epsilon: plan.kind.count(
                plan.capacity, (0,) * plan.width, price(check_claim(kind(epsilon)), plan.priced)
            )
            for epsilon in ("6e-5", "5e-5", "3e-5", "2e-5", "9e-8")
        }
        epsilon, maximum = next((e, n) for e, n in counts.items() if n is not None and n >= 10**7)
        millions = [c.Repeat(kind(epsilon), 10**6)] * 10
        rest = maximum - 10**7
        while rest:
            millions.append(c.Repeat(kind(epsilon), min(rest, 10**6)))
            rest -= millions[-1].times
        ledger = play(policy, [*millions, kind(epsilon)])
        assert ledger.mechanisms == maximum

    check_each(check_case, ADDED_UP)


def test_a_thousand_single_charges_are_one_batch_of_a_thousand() -> None:
    def check_case(name: str) -> None:
        policy = POLICIES[name]
        claim = check_claim(c.ExPost("1e-5") if name == "ex_post" else c.Pure("1e-5"))
        single = opened(policy)
        for at in range(1000):
            single, _ = adjudicate(single, claim, policy.unit, policy.neighbours, at)
        whole = check_claim(c.Repeat(claim.claim, 1000))
        batch, _ = adjudicate(opened(policy), whole, policy.unit, policy.neighbours, 0)
        assert batch.totals == single.totals
        assert batch.mechanisms == single.mechanisms == 1000

    check_each(check_case, ADDED_UP)
