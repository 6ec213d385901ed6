"""What each filter would admit of a mix of requests, under one set of options.

A filter that needs an order of Renyi divergence and is given none gets the best one for the
mix. Any order is valid that is fixed in advance, so what is printed can be opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from msgspec import UNSET

from accountant.advice.fit import Fit, fit, unspent
from accountant.claims import AllOf, Claim, atoms
from accountant.claims.promises import promise
from accountant.conversions.renyi_order import best_order
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.filters.renyi import LEAST_ORDER, MOST_ORDER
from accountant.policy import Policy, parse_budget, resolve
from accountant.policy.compiled import CompiledPolicy, open_plan

Curve = Callable[[Decimal], Fraction]

_ANY_ORDER: Final = "2"
_PARAMETERS: Final = ("order", "orders", "weights", "epsilon_ex_post", "delta_ex_post")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A policy's fields as they were typed; None or UNSET where they were not."""

    epsilon: str | None = None
    rho: str | None = None
    delta: str = "0"
    delta_for_claims: str | None = None
    order: str | None = None
    orders: tuple[str, ...] | None = None
    weights: tuple[str, ...] | None = None
    epsilon_ex_post: str | None = None
    delta_ex_post: str | None = None
    neighbours: str = "add_remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChoice:
    """One filter's answer.

    Attributes:
        name: the filter's.
        plan: of the policy that was tried, None if it is none.
        fit: how many requests fit it, None if there is no plan.
        chosen: the orders were chosen here.
        why_not: why there is no plan; empty if there is one.
    """

    name: str
    plan: CompiledPolicy | None = None
    fit: Fit | None = None
    chosen: bool = False
    why_not: str = ""

    @property
    def policy(self) -> Policy:
        """The policy that was tried."""
        assert self.plan is not None
        return self.plan.policy


def mix(claims: list[Claim]) -> Claim:
    """Return one round of all claims; a single claim stays what it is."""
    return claims[0] if len(claims) == 1 else AllOf(tuple(claims))


def choose(name: str, options: Options, claim: Claim) -> FilterChoice:
    """Return how often a claim fits a new budget under one filter.

    Raises: RequestInvalid: an option breaks a rule, or is not for this filter.
    """
    if name not in FILTERS:
        rule = f"must be one of {', '.join(FILTERS)}"
        raise RequestInvalid("policy.filter", rule, name)
    needs_order = name == "renyi" and options.order is None
    needs_orders = name == "renyi_weighted" and options.orders is None
    if needs_order:
        options = replace(options, order=_order(options, claim, 1))
    elif needs_orders:
        if options.weights is not None:
            rule = "must be left out where there are no orders"
            raise RequestInvalid("policy.weights", rule, ",".join(options.weights))
        options = replace(options, orders=_orders(options, claim))
    plan = open_plan(resolve(_policy(name, options)))
    found = fit(claim, unspent(plan))
    return FilterChoice(name=name, plan=plan, fit=found, chosen=needs_order or needs_orders)


def choose_all(options: Options, claim: Claim) -> list[FilterChoice]:
    """Return every filter's answer; each is given those of the options that it takes."""
    found = []
    for name, kind in FILTERS.items():
        given = [field for field in kind.budget_fields if getattr(options, field) is not None]
        if not given:
            found.append(FilterChoice(name=name, why_not=f"needs --{kind.budget_fields[0]}"))
            continue
        others = {field for field in _PARAMETERS if field not in kind.parameters}
        left_out: dict[str, Any] = dict.fromkeys(others | ({"epsilon", "rho"} - {given[0]}))
        own = replace(options, **left_out)
        try:
            found.append(choose(name, own, claim))
        except RequestInvalid as error:
            option = "--" + error.field.removeprefix("policy.").replace("_", "-")
            found.append(FilterChoice(name=name, why_not=f"{option} {error.rule}"))
    return found


def _policy(name: str, options: Options) -> Policy:
    given = {field: getattr(options, field) for field in _PARAMETERS}
    fields: Any = {field: UNSET if value is None else value for field, value in given.items()}
    return Policy(
        filter=name,
        epsilon=options.epsilon,
        rho=options.rho,
        delta=options.delta,
        delta_for_claims=options.delta_for_claims,
        neighbours=options.neighbours,  # type: ignore[arg-type]  # checked by the command
        odometers=(),
        **fields,
    )


def _orders(options: Options, claim: Claim) -> tuple[str, ...]:
    """Return an order for each kind of request in a mix, and one for all together."""
    wanted = [claim, *dict.fromkeys(part for part, _ in atoms(claim))]
    orders = {_order(options, part, len(wanted)) for part in wanted}
    if len(orders) == 1:  # which then has all of delta
        orders = {_order(options, claim, 1)}
    return tuple(sorted(orders, key=Decimal))


def _order(options: Options, claim: Claim, share: int) -> str:
    """Return the order at which the most such requests fit, with a share of delta."""
    # Only to have the options checked: which order does not matter for that.
    budget = parse_budget(_policy("renyi", replace(options, order=_ANY_ORDER, orders=None)))
    if not budget.delta_for_filter:
        raise RequestInvalid("policy.delta", "must be greater than 0 for this filter", "0")
    assert budget.epsilon is not None
    best = best_order(
        epsilon=budget.epsilon,
        delta=budget.delta_for_filter / share,
        curve=_curve(claim) or _small_gaussian,
        least=LEAST_ORDER,
        most=MOST_ORDER,
    )
    if best is None:
        rule = "must be larger: it leaves no Renyi order anything to spend"
        raise RequestInvalid("policy.delta", rule, options.delta)
    return f"{best.normalize():f}"


def _curve(claim: Claim) -> Curve | None:
    """Return what one request costs at an order, None if it has no curve or costs nothing."""
    parts = [(promise(atom).renyi, times) for atom, times in atoms(claim)]

    def total(order: Decimal) -> Fraction:
        costs = ((None if curve is None else curve(order), times) for curve, times in parts)
        return sum((Fraction(cost) * times for cost, times in costs if cost), Fraction(0))

    if any(curve is None for curve, _ in parts) or not total(Decimal(2)):
        return None
    return total


def _small_gaussian(order: Decimal) -> Fraction:
    return Fraction(order) / 10**6
