"""The number of requests of a mix that each filter admits under one policy.

A filter that needs an order of Renyi divergence gets the best one for the mix where the policy
has none, and optimal_homogeneous the largest epsilon in it. Every value fixed in advance is valid,
so an owner can open the printed policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from accountant.advice.fit import Fit, fit, unspent
from accountant.amounts import cost_up, format_units
from accountant.claims import AllOf, Claim, atoms
from accountant.claims.promises import promise
from accountant.conversions.renyi_order import best_order
from accountant.errors import OVER_ZERO, RequestInvalid
from accountant.filters import FILTERS
from accountant.filters.renyi import MAX_ORDER, MIN_ORDER
from accountant.policy import PARAMETERS, Policy, parse_budget, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan

Curve = Callable[[Decimal], Fraction]

_ANY_ORDER: Final = "2"
_ANY_EPSILON: Final = "1"  # of a policy without a budget, of which `resolve` tells


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChoice:
    """The result for one filter.

    Attributes:
        name: the filter's name.
        plan: the compiled policy, None if the filter cannot use the policy.
        fit: how often the requests fit, None if there is no plan.
        chosen: whether this module chose the orders, or the epsilon of each claim.
        why_not: why there is no plan; empty if there is one.
    """

    name: str
    plan: CompiledPolicy | None = None
    fit: Fit | None = None
    chosen: bool = False
    why_not: str = ""

    @property
    def policy(self) -> Policy:
        """The policy behind `plan`."""
        assert self.plan is not None
        return self.plan.policy


def mix(claims: list[Claim]) -> Claim:
    """Return one claim for a round of all claims; a single claim is returned unchanged."""
    return claims[0] if len(claims) == 1 else AllOf(tuple(claims))


def choose(policy: Policy, claim: Claim) -> FilterChoice:
    """Return how often a claim fits a new budget under a policy's filter.

    Raises: RequestInvalid: a field breaks a rule, or is not for this filter.
    """
    chosen = _parameters(policy, claim)
    plan = open_plan(resolve(replace(policy, odometers=(), **chosen)))
    found = fit(claim, unspent(plan))
    return FilterChoice(name=policy.filter, plan=plan, fit=found, chosen=bool(chosen))


def _parameters(policy: Policy, claim: Claim) -> dict[str, Any]:
    """Return what the filter needs and the policy lacks, by its field, the best for a claim."""
    if policy.filter == "renyi" and policy.order is UNSET:
        return {"order": _order(policy, claim, 1)}
    takes_orders = policy.filter in FILTERS and "orders" in FILTERS[policy.filter].parameters
    if takes_orders and policy.orders is UNSET:
        if policy.weights is not UNSET:
            rule = "must be left out where there are no orders"
            raise RequestInvalid("policy.weights", rule, ",".join(policy.weights))
        return {"orders": _orders(policy, claim)}
    if policy.filter == "optimal_homogeneous" and policy.epsilon_each is UNSET:
        return {"epsilon_each": _epsilon_each(policy, claim)}
    return {}


def choose_all(policy: Policy, claim: Claim) -> list[FilterChoice]:
    """Return the result of every filter; a filter gets only the policy's fields that it takes."""
    return [choose_named(policy, claim, name) for name in FILTERS]


def choose_named(policy: Policy, claim: Claim, name: str) -> FilterChoice:
    """Return the result of one filter, which gets only the policy's fields that it takes."""
    kind = FILTERS[name]
    budgets = [field for field in kind.budget_fields if getattr(policy, field) is not None]
    if not budgets:
        return FilterChoice(name=name, why_not=f"needs --{kind.budget_fields[0]}")
    left_out: dict[str, Any] = dict.fromkeys({"epsilon", "rho"} - {budgets[0]})
    left_out |= {field: UNSET for field in PARAMETERS if field not in kind.parameters}
    try:
        return choose(replace(policy, filter=name, **left_out), claim)
    except RequestInvalid as error:
        option = "--" + error.field.removeprefix("policy.").replace("_", "-")
        return FilterChoice(name=name, why_not=f"{option} {error.rule}")


def _epsilon_each(policy: Policy, claim: Claim) -> str:
    """Return the largest epsilon in a mix; the budget's where none is above 0, or one has none."""
    found = [promise(atom).epsilon for atom, _ in atoms(claim)]
    largest = Fraction(0) if None in found else max(Fraction(each or 0) for each in found)
    return format_units(cost_up(largest)) if largest else policy.epsilon or _ANY_EPSILON


def _orders(policy: Policy, claim: Claim) -> tuple[str, ...]:
    """Return the best order of each kind of request in a mix, and of the whole mix."""
    wanted = [claim, *dict.fromkeys(part for part, _ in atoms(claim))]
    orders = {_order(policy, part, len(wanted)) for part in wanted}
    if len(orders) == 1:  # a single order gets all of delta
        orders = {_order(policy, claim, 1)}
    return tuple(sorted(orders, key=Decimal))


def _order(policy: Policy, claim: Claim, share: int) -> str:
    """Return the order at which the most such requests fit, with 1/`share` of delta."""
    # `parse_budget` checks the fields; any order serves for that.
    budget = parse_budget(replace(policy, filter="renyi", order=_ANY_ORDER, orders=UNSET))
    if not budget.delta_for_filter:
        raise RequestInvalid("policy.delta", OVER_ZERO, "0")
    assert budget.epsilon is not None
    best = best_order(
        epsilon=budget.epsilon,
        delta=budget.delta_for_filter / share,
        curve=_curve(claim) or _small_gaussian,
        minimum=MIN_ORDER,
        maximum=MAX_ORDER,
    )
    if best is None:
        rule = "must be larger: it leaves no Renyi order anything to spend"
        raise RequestInvalid("policy.delta", rule, policy.delta)
    return f"{best.normalize():f}"


def _curve(claim: Claim) -> Curve | None:
    """Return the cost of one request by order, None if it has no curve or costs nothing."""
    parts = [(promise(atom).renyi, times) for atom, times in atoms(claim)]

    def total(order: Decimal) -> Fraction:
        costs = ((None if curve is None else curve(order), times) for curve, times in parts)
        return sum((Fraction(cost) * times for cost, times in costs if cost), Fraction(0))

    if any(curve is None for curve, _ in parts) or not total(Decimal(2)):
        return None
    return total


def _small_gaussian(order: Decimal) -> Fraction:
    return Fraction(order) / 10**6
