"""The lifetime of a dataset: what all its generations may promise together, fixed at the first.

That of a population is the same for all its datasets and their generations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import format_units, parse, parse_units, units_down, units_up
from accountant.claims.fields import check_delta
from accountant.errors import RequestInvalid
from accountant.field_rules import Amounts, Delta, Name
from accountant.policy.in_force import OneAmount, check_one_amount
from accountant.policy.policy import Policy, guarantee_of

JoinObstacle = Literal["population_in_use", "own_lifetime", "other_people", "too_much"]
_SAME: Final = ("unit", "neighbours", "population")


class Lifetime(OneAmount, frozen=True, kw_only=True):
    """What all generations of a dataset may promise together.

    Attributes:
        epsilon, rho: in nats; `rho` for filter zcdp with a budget in rho, else `epsilon`.
        delta: 0 <= delta < 1.
        shared: whether it is that of the policy's population: all its datasets take from it.
    """

    delta: Delta = "0"
    shared: bool = False


class StoredLifetime(Lifetime, frozen=True, forbid_unknown_fields=False, kw_only=True):
    """A lifetime as the opening of each generation and its row store it.

    Attributes:
        first: the name that all its datasets have in common: that of the first generation, or of
            the population where it is shared, since other datasets may be hidden from a reader.
        spent: the sum of the guarantees up to this one, rounded up: `epsilon` or `rho`, and
            `delta`.
    """

    first: Name
    spent: Amounts

    @property
    def identity(self) -> tuple[bool, str]:
        """What its datasets have in common, and no other lifetime has."""
        return self.shared, self.first

    def __hash__(self) -> int:
        return hash((self.epsilon, self.rho, self.delta, self.first, *self.spent.values()))


def check_lifetime(lifetime: Lifetime, policy: Policy) -> None:
    """Check a lifetime, and that it holds its first generation.

    Raises: RequestInvalid.
    """
    check_one_amount(lifetime, "lifetime")
    check_delta(lifetime.delta, "lifetime.delta")
    if lifetime.shared and policy.population is UNSET:
        rule = "must be left out where the policy has no population, whose lifetime it would be"
        hint = "name the population, as in city::people"
        raise RequestInvalid("lifetime.shared", rule, lifetime.shared, hint=lambda: hint)
    if lifetime.shared and lifetime.epsilon is None:
        rule = "must be left out of a lifetime in rho: a population promises epsilon and delta"
        raise RequestInvalid("lifetime.shared", rule, lifetime.shared)
    if not _adds_up(lifetime, policy):
        rule = (
            "must be left out: generations are added in rho only for filter zcdp with a budget in "
            "rho, and in epsilon only where the policy promises an epsilon"
        )
        raise RequestInvalid(f"lifetime.{lifetime.field}", rule, lifetime.amount)
    wholes = _wholes(lifetime)
    costs = _costs(lifetime, policy)
    over = [name for name, cost in costs.items() if cost > units_down(wholes[name])]
    if over:
        name, least = over[0], format_units(costs[over[0]])
        rule = f"must be at least the {name} that the policy guarantees"
        hint = (
            f"this dataset alone guarantees {name} {least}, at its ceiling if it has one; what is "
            "above it leaves room for renewals"
        )
        raise RequestInvalid(f"lifetime.{name}", rule, getattr(lifetime, name), hint=lambda: hint)


def first_generation(lifetime: Lifetime, dataset: str, policy: Policy) -> StoredLifetime:
    """Return a checked lifetime that its first generation is charged to, in full."""
    spent = {name: format_units(cost) for name, cost in _costs(lifetime, policy).items()}
    return StoredLifetime(
        epsilon=lifetime.epsilon,
        rho=lifetime.rho,
        delta=lifetime.delta,
        shared=lifetime.shared,
        first=str(policy.population) if lifetime.shared else dataset,
        spent=spent,
    )


def continues(before: Policy, lifetime: Lifetime, policy: Policy) -> bool:
    """Tell whether a policy is about the people of the one before it, and promises of its kind."""
    same = all(getattr(before, field) == getattr(policy, field) for field in _SAME)
    return same and _adds_up(lifetime, policy)


def next_generation(before: StoredLifetime, policy: Policy) -> StoredLifetime | None:
    """Return a lifetime that one more generation is charged to, None where it is beyond it.

    It is charged what its policy guarantees, its ceiling: never what a generation has used. Theory:
    docs/theory.md, section 9, a basic filter over generations.
    """
    spent = {
        name: format_units(parse_units(before.spent[name]) + cost)
        for name, cost in _costs(before, policy).items()
    }
    after = msgspec.structs.replace(before, spent=spent)
    return None if exceeds(after) else after


def latest_shared(
    lifetimes: Iterable[StoredLifetime | UnsetType],
) -> StoredLifetime | None:
    """Return the lifetime of a population as the dataset has it that took from it last.

    Args:
        lifetimes: those of its datasets, in any order.
    Returns: None where they share none.
    """
    shared = [each for each in lifetimes if each is not UNSET and each.shared]
    return max(shared, key=taken_from, default=None)


def join_obstacle(
    own: Lifetime | UnsetType,
    policy: Policy,
    others: Sequence[tuple[Policy, StoredLifetime | UnsetType]],
) -> JoinObstacle | None:
    """Return why the lifetime of a population does not take a dataset, None where nothing does.

    Args:
        own: the lifetime that the dataset's opening fixes. `policy`: of the dataset, resolved.
        others: policy and lifetime of each dataset of its population.
    """
    if own is not UNSET and own.shared and others:
        return "population_in_use"
    joined = latest_shared(lifetime for _, lifetime in others)
    if joined is None:
        return None
    if own is not UNSET:
        return "own_lifetime"
    if not continues(others[0][0], joined, policy):
        return "other_people"
    return None if next_generation(joined, policy) else "too_much"


def lifetime_after_opening(
    own: Lifetime | UnsetType,
    dataset: str,
    policy: Policy,
    others: Iterable[StoredLifetime | UnsetType],
) -> StoredLifetime | None:
    """Return the lifetime that a dataset fixes or takes from, after it was charged the dataset.

    Args:
        own, policy: as of `join_obstacle`, which has found none.
        others: the lifetime of each dataset of its population.
    """
    if own is not UNSET:
        return first_generation(own, dataset, policy)
    joined = latest_shared(others)
    return None if joined is None else next_generation(joined, policy)


def taken_from(lifetime: StoredLifetime) -> int:
    """Return how much of its epsilon or rho datasets have taken, in units: each takes some."""
    return int(parse_units(lifetime.spent[lifetime.field]))


def remaining(lifetime: StoredLifetime) -> dict[str, str]:
    """Return what later generations may guarantee of each sum of a lifetime."""
    return {
        name: format_units(units_down(whole) - int(parse_units(lifetime.spent[name])))
        for name, whole in _wholes(lifetime).items()
    }


def remaining_text(lifetime: StoredLifetime) -> str:
    """Return what remains of each sum: `epsilon 2, delta 0.000007`."""
    return ", ".join(f"{name} {each}" for name, each in remaining(lifetime).items())


def taking_text(lifetime: StoredLifetime, policy: Policy) -> str:
    """Return what a policy takes of each sum: `epsilon 1, delta 0.000001`."""
    costs = _costs(lifetime, policy)
    return ", ".join(f"{name} {format_units(cost)}" for name, cost in costs.items())


def exceeds(lifetime: StoredLifetime) -> bool:
    """Tell whether generations guarantee more together than their lifetime."""
    return any(
        parse_units(lifetime.spent[name]) > units_down(whole)
        for name, whole in _wholes(lifetime).items()
    )


def _adds_up(lifetime: Lifetime, policy: Policy) -> bool:
    """Tell whether what a policy guarantees is an amount of the lifetime's kind."""
    is_rho = guarantee_of(policy).name == "rho"
    if lifetime.rho is not None:
        return is_rho and policy.filter == "zcdp"
    return not is_rho


def _wholes(lifetime: Lifetime) -> dict[str, Decimal]:
    """Return the whole of each sum of a lifetime."""
    texts = {lifetime.field: lifetime.amount, "delta": lifetime.delta}
    return {name: parse(text, field=name) for name, text in texts.items()}


def _costs(lifetime: Lifetime, policy: Policy) -> dict[str, int]:
    """Return what a policy's guarantee takes of each sum of a lifetime, in units, rounded up."""
    promised = guarantee_of(policy)
    return {lifetime.field: units_up(promised.amount), "delta": units_up(promised.delta)}
