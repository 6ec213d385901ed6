"""A filter for the requests that are expected, and for one that a dataset never grants."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from accountant.advice.fit import fit, unspent
from accountant.advice.propose_filter import Proposal, other_filter, propose_filter
from accountant.claims.text import parse_claim
from accountant.filters import FILTERS
from accountant.policy import Policy, guarantee_of, resolve
from accountant.policy.compiled_policy import open_plan
from tests.every_case import check_each

TRAINING = "96*subsampled_gaussian:sigma=1.1,sensitivity=1,rate=0.03125"
LARGE = Policy(epsilon="8", delta="1e-6")
USUAL = Policy(epsilon="1", delta="1e-6")


@pytest.mark.parametrize(
    ("policy", "claim", "name"),
    [
        (LARGE, TRAINING, "renyi"),
        (USUAL, "gaussian:sigma=20,sensitivity=1", "gdp_residue"),
        (USUAL, "pure:0.5", "basic"),
        (USUAL, "pure:0.001", "gdp_residue"),
        (USUAL, "zcdp:0.0001", "zcdp_tight"),
        (Policy(rho="1"), "zcdp:0.1", "zcdp"),
    ],
)
def test_the_proposed_filter_opens_and_admits_its_stated_count(
    policy: Policy, claim: str, name: str
) -> None:
    found = propose_filter(policy, parse_claim(claim))
    assert found is not None
    assert found.choice.name == name
    assert found.choice.fit is not None
    assert found.choice.fit.count
    # The plan that an owner would open admits as many, and guarantees the same budget.
    plan = open_plan(resolve(found.choice.policy))
    assert fit(parse_claim(claim), unspent(plan)).count == found.choice.fit.count
    assert guarantee_of(plan.policy).amount == Decimal(policy.epsilon or policy.rho or "")


def test_the_proposed_part_is_the_share_of_one_request() -> None:
    found = propose_filter(USUAL, parse_claim("pure:0.5"), "basic")
    assert found is not None
    assert found.part == Fraction(1, 2)


def test_a_proposal_reserves_half_of_delta_for_claims_with_a_delta() -> None:
    claim = parse_claim("approximate:0.001,1e-12")
    found = propose_filter(USUAL, claim)
    assert found is not None
    assert found.delta_for_claims == "0.0000005"
    policy = Policy(epsilon="1", delta="1e-6", delta_for_claims="1e-8")
    typed = propose_filter(policy, claim)
    assert typed is not None
    assert typed.delta_for_claims is None
    assert Decimal(typed.choice.policy.delta_for_claims or "") == Decimal("1e-8")


@pytest.mark.parametrize("claim", ["pure:2", "gaussian:sigma=0.01,sensitivity=1"])
def test_no_filter_is_proposed_for_a_claim_that_none_grants(claim: str) -> None:
    assert propose_filter(USUAL, parse_claim(claim)) is None
    assert other_filter(USUAL, parse_claim(claim)) is None


def test_a_filter_that_needs_more_than_the_budget_is_not_proposed() -> None:
    assert propose_filter(USUAL, parse_claim("pure:0.1"), "split") is None


def others(policy: Policy, claim: str) -> Proposal | None:
    return other_filter(resolve(policy), parse_claim(claim))


def test_another_filter_is_proposed_for_a_claim_that_the_own_one_never_grants() -> None:
    found = others(LARGE, TRAINING)
    assert found is not None
    assert found.choice.name == "renyi"
    assert Fraction(6, 100) < found.part < Fraction(7, 100)
    gaussian = others(Policy(filter="basic", epsilon="1", delta="1e-6"), "gdp:0.05")
    assert gaussian is not None
    assert gaussian.choice.name == "zcdp_tight"


def test_no_other_filter_is_proposed_for_a_claim_within_the_whole_budget() -> None:
    def check_case(name: str) -> None:
        parameters = {"renyi": {"order": "22"}, "optimal_homogeneous": {"epsilon_each": "0.01"}}
        orders = {"orders": ("22",)} if name in ("renyi_weighted", "renyi_mixture") else {}
        policy = Policy(
            filter=name, epsilon="1", delta="1e-6", **parameters.get(name, {}), **orders
        )
        claim = "ex_post:0.01" if name == "ex_post" else "pure:0.01"
        assert others(policy, claim) is None

    check_each(check_case, [each for each in FILTERS if each not in ("zcdp", "split")])
