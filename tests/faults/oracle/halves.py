"""Basic composition in addition to a filter: docs/theory.md P13, docs/reference/records/policy.md.

A policy without `beside` has the filter alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle import filters
from tests.faults.oracle.amounts import INFINITE, UNIT, Range, budget_range, whole_up

Policy = dict[str, Any]
Totals = Mapping[str, Any]
"""In units, by name: the spent amount of each sum, then the two marks."""
Charged = dict[str, Range]

WITHOUT: Final = "without_epsilon"
ENDED: Final = "filter_ended"
WITHOUT_AN_EPSILON: Final = {"basic", "ex_post", "zcdp"}
"""Filters without basic composition: two that are it themselves, and one of a rho."""
_DELTAS: Final = {"delta", "apart_delta", "ex_post_delta"}


def is_beside(policy: Policy) -> bool:
    """Return whether the policy has basic composition in addition to its filter."""
    return "beside" in policy


def sums(policy: Policy) -> tuple[str, ...]:
    """Return the names of the sums that have a limit: the filter's, then basic composition's."""
    own = filters.sums(policy)
    if not is_beside(policy):
        return own
    return (*own, "epsilon") if _DELTAS & set(own) else (*own, "epsilon", "delta")


def state(policy: Policy) -> tuple[str, ...]:
    """Return the names of the sums, then of those without a limit."""
    return (*sums(policy), WITHOUT, ENDED) if is_beside(policy) else sums(policy)


def needs(policy: Policy) -> tuple[str, ...]:
    """Return the names of the sums that a claim must have a price in."""
    return (*filters.needs(policy), *sums(policy)[len(filters.sums(policy)) :])


def capacities(policy: Policy) -> tuple[Range, ...]:
    """Return the limit of each of the sums, in its permitted written forms."""
    own = filters.capacities(policy)
    if not is_beside(policy):
        return own
    promised = Fraction(policy["epsilon"]) + Fraction(policy.get("epsilon_ex_post", 0))
    basic = budget_range(promised), budget_range(filters.deltas(policy)[1])
    return (*own, *basic[: len(sums(policy)) - len(own)])


def accepts(policy: Policy, claim: dict[str, Any], price: dict[str, Range]) -> bool:
    """Return whether the filter admits the claim, and its deltas are permitted."""
    if not has_room_for_deltas(policy, claim):
        return False
    basic = is_beside(policy) and price["epsilon"][0] != INFINITE
    return basic or filters.accepts(policy, claim, price)


def has_room_for_deltas(policy: Policy, claim: dict[str, Any]) -> bool:
    """Return whether each mechanism of a claim has a permitted delta."""
    inside = [*claim.get("claims", []), *filter(None, [claim.get("claim")])]
    apart = policy["filter"] == "split" and claim["type"] == "ex_post"
    most = policy.get("delta_ex_post") if apart else policy.get("delta_for_claims")
    own = Fraction(claim.get("delta", "0")) <= Fraction(most or "0")
    return own and all(has_room_for_deltas(policy, each) for each in inside)


def charged(
    policy: Policy,
    capacity: Totals,
    totals: Totals,
    by_filter: Charged | None,
    price: dict[str, Range],
) -> Charged | None:
    """Return the amounts that a grant adds to the totals; None if neither half admits the claim.

    Args:
        by_filter: what the filter charges for it, None where it refuses.
    """
    if not is_beside(policy):
        return by_filter
    bounded, nothing = price["epsilon"][0] != INFINITE, (0, 0)
    limited = [name for name in sums(policy) if name == "epsilon" or name in _DELTAS]
    found = {name: price[name] if name in limited else nothing for name in state(policy)}
    if by_filter is not None and not totals[ENDED]:
        found |= by_filter
        if not bounded:
            found |= {"epsilon": nothing, WITHOUT: (UNIT, UNIT)}
        return found
    if not bounded or totals[WITHOUT]:
        return None
    if any(totals[name] + price[name][0] > capacity[name] for name in limited):
        return None
    return found if totals[ENDED] else {**found, ENDED: (UNIT, UNIT)}


def above(policy: Policy, totals: Totals, by_filter: Charged, price: dict[str, Range]) -> Charged:
    """Return what a claim adds to the totals that nothing refuses."""
    if not is_beside(policy):
        return by_filter
    nothing = (0, 0)
    bounded = price["epsilon"][0] != INFINITE
    found = dict.fromkeys(state(policy), nothing)
    if not totals[ENDED]:
        priced = all(low != INFINITE for low, _ in by_filter.values())
        found |= by_filter if priced else {ENDED: (UNIT, UNIT)}
    found |= {name: price[name] for name in sums(policy) if name in _DELTAS}
    return found | ({"epsilon": price["epsilon"]} if bounded else {WITHOUT: (UNIT, UNIT)})


def basic_holds(policy: Policy, limits: Totals, totals: Totals) -> bool:
    """Return whether basic composition beside a filter admits, and is within its limits."""
    if not is_beside(policy) or totals[WITHOUT]:
        return False
    names = [name for name in sums(policy) if name == "epsilon" or name in _DELTAS]
    return all(totals[name] <= limits[name] for name in names)


def left(policy: Policy, capacity: Totals, totals: Totals) -> dict[str, Any]:
    """Return the remaining amount of each sum; 0 if it limits only a half that has ended."""
    own = filters.sums(policy)
    room = filters.left(policy, tuple(map(capacity.__getitem__, own)), _of(totals, own))
    found = dict(zip(own, room, strict=True))
    if not is_beside(policy):
        return found
    for name in sums(policy):
        more = max(0, capacity[name] - totals[name]) if totals[name] != INFINITE else 0
        if name in _DELTAS:
            found[name] = more
        elif name == "epsilon":
            found[name] = 0 if totals[WITHOUT] else more
        elif totals[ENDED]:
            found[name] = 0
    return found


def spent_part(policy: Policy, capacity: Totals, totals: Totals) -> Fraction:
    """Return the spent part of the budget, the least over the halves that continue."""
    own = filters.sums(policy)
    part = filters.spent_part(policy, _of(capacity, own), _of(totals, own))
    if not is_beside(policy):
        return part
    basic = min(Fraction(1), Fraction(whole_up(totals["epsilon"]), int(capacity["epsilon"])))
    if totals[ENDED]:
        return basic
    return part if totals[WITHOUT] else min(part, basic)


def _of(amounts: Totals, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(amounts[name] for name in names)
