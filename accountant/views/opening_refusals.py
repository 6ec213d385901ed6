"""Why the lifetime of a population would refuse an opening, as far as a reader sees it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from accountant.policy import Policy, resolve
from accountant.policy.lifetime import (
    StoredLifetime,
    continues,
    first_generation,
    next_generation,
    remaining,
    taken_from,
)
from accountant.records.requests import Open
from accountant.views.datasets import DatasetView


def why_outside(record: Open, seen: Iterable[DatasetView]) -> str:
    """Return why a population would refuse an opening for its lifetime, "" if it would not.

    The ledger knows more: who owns which dataset, and what the reader does not see.
    """
    population = record.policy.population
    others = _of_population(record, seen)
    if record.lifetime is not UNSET and record.lifetime.shared and others:
        return f"population {population} has datasets already, and its first one fixes its lifetime"
    joined = _lifetime_of(others)
    if joined is None:
        return ""
    if record.lifetime is not UNSET:
        return f"population {population} has a lifetime, so its datasets have none of their own"
    policy = resolve(record.policy)
    if not continues(others[0].policy, joined, policy):
        return (
            f"datasets of population {population} have another unit, neighbours or kind of "
            "guarantee"
        )
    if next_generation(joined, policy) is None:
        return f"{_rest(joined)} remain of the lifetime of population {population}"
    return ""


def lifetime_of_opening(record: Open, seen: Iterable[DatasetView]) -> StoredLifetime | None:
    """Return the lifetime of a dataset that an opening fixes or takes from, None for none."""
    policy = resolve(record.policy)
    if record.lifetime is not UNSET:
        return first_generation(record.lifetime, record.dataset, policy)
    joined = _lifetime_of(_of_population(record, seen))
    return None if joined is None else next_generation(joined, policy)


def lifetime_note(lifetime: StoredLifetime, policy: Policy) -> str:
    """Return what a dataset will promise as part of a lifetime, after it was charged for it."""
    whose = f"datasets of population {policy.population}" if lifetime.shared else "generations"
    return (
        f"the dataset will guarantee {lifetime.field} {lifetime.amount}, delta {lifetime.delta} "
        f"for all {whose} together; {_rest(lifetime)} remain after it"
    )


def _rest(lifetime: StoredLifetime) -> str:
    return ", ".join(f"{name} {each}" for name, each in remaining(lifetime).items())


def _of_population(record: Open, seen: Iterable[DatasetView]) -> list[DatasetView]:
    name = record.policy.population
    return [view for view in seen if name and view.policy.population == name]


def _lifetime_of(views: Iterable[DatasetView]) -> StoredLifetime | None:
    found = [view.lifetime for view in views if view.lifetime is not UNSET]
    return max((each for each in found if each.shared), key=taken_from, default=None)
