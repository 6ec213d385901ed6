"""The filter to open a dataset with, by the requests that are expected of it.

A filter is fixed at the opening, and the default one cannot grant everything: sampling does not
count in rho, and basic composition has no cost for Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from accountant.advice.choose_filter import FilterChoice, choose_all, choose_named
from accountant.advice.fit import unspent
from accountant.amounts import Units, format_units, units_down
from accountant.claims import Claim, atoms, check_claim
from accountant.claims.price import price
from accountant.claims.promises import promise
from accountant.filters import FILTERS
from accountant.ledger.budgets import never_fits
from accountant.policy import PARAMETERS, Policy, guarantee_of, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan

_PREFERRED: Final = ("zcdp_tight", "basic", "renyi", "gdp_residue")
"""Filters to propose before others that admit hardly more; the first takes the most claims."""
_NEARLY: Final = 0.9


@dataclass(frozen=True, slots=True)
class Proposal:
    """A filter for certain requests.

    Attributes:
        choice: the filter with its parameters.
        part: the part of a new budget that one such request uses, in [0, 1].
        delta_for_claims: proposed for claims with a delta of their own; else None.
    """

    choice: FilterChoice
    part: Fraction
    delta_for_claims: str | None = None


def propose_filter(policy: Policy, claim: Claim, name: str | None = None) -> Proposal | None:
    """Return the filter that admits the most such claims, or nearly so; None if none takes one.

    Half of delta is for claims that have a delta of their own, unless the policy says otherwise.

    Args:
        policy: only its budget, parameters, deltas and units count. The proposal guarantees the
            same budget.
        name: the only filter to consider.
    """
    for_claims = None
    if policy.delta_for_claims is None and any(promise(atom).delta for atom, _ in atoms(claim)):
        for_claims = format_units(units_down(Decimal(policy.delta) / 2))
        policy = replace(policy, delta_for_claims=for_claims)
    plain = replace(policy, beside=UNSET, most_per_request=UNSET, odometers=None)
    choices = choose_all(plain, claim) if name is None else [choose_named(plain, claim, name)]
    found = [each for each in choices if admits_under_the_budget(each)]
    most = max(map(_count, found), default=0.0)
    near = [each for each in found if _count(each) >= most * _NEARLY]
    if not near:
        return None
    names = (*_PREFERRED, *FILTERS)
    best = min(near, key=lambda each: names.index(each.name))
    return Proposal(best, part_of_budget(best, claim), for_claims)


def other_filter(policy: Policy, claim: Claim) -> Proposal | None:
    """Return a filter that takes a claim which the policy's own filter never grants.

    None where the whole budget of the policy admits the claim, or no usual filter does.

    Args:
        policy: of an open dataset.
    """
    if _charge_alone(open_plan(resolve(policy)), claim) is not None:
        return None
    plain = replace(
        policy,
        delta_for_claims=None,
        beside=UNSET,
        most_per_request=UNSET,
        odometers=None,
        **dict.fromkeys(PARAMETERS, UNSET),
    )
    for name in _PREFERRED:
        choice = choose_named(plain, claim, name)
        if admits_under_the_budget(choice):
            return Proposal(choice, part_of_budget(choice, claim))
    return None


def part_of_budget(choice: FilterChoice, claim: Claim) -> Fraction:
    """Return the part of a new budget that a claim which fits uses, in [0, 1]."""
    plan = choice.plan
    assert plan is not None
    after = _charge_alone(plan, claim)
    assert after is not None
    return Fraction(int(plan.kind.progress(plan.capacity, after)), int(plan.capacity[0]))


def admits_under_the_budget(choice: FilterChoice) -> bool:
    """Tell whether a filter admits a claim, and guarantees exactly the wanted budget."""
    if choice.fit is None or not choice.fit.accepted or choice.fit.count == 0:
        return False
    wanted = choice.policy.epsilon or choice.policy.rho
    return wanted is not None and guarantee_of(choice.policy).amount == Decimal(wanted)


def _charge_alone(plan: CompiledPolicy, claim: Claim) -> tuple[Units, ...] | None:
    """Return what a new budget has spent after one claim, None if it does not admit the claim."""
    asked = check_claim(claim)
    cost = price(asked, plan.kind.needs)
    of_others = asked.only_for and asked.only_for != plan.policy.neighbours
    if of_others or never_fits(plan.kind, plan.capacity, asked, cost):
        return None
    return plan.kind.charge(plan.capacity, unspent(plan).spent, cost)


def _count(choice: FilterChoice) -> float:
    assert choice.fit is not None
    return inf if choice.fit.count is None else choice.fit.count
