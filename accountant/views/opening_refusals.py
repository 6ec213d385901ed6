"""Why the lifetime of a population would refuse an opening, as far as a reader sees it."""

from __future__ import annotations

from collections.abc import Iterable

from accountant.policy import Policy, resolve
from accountant.policy.lifetime import (
    StoredLifetime,
    join_obstacle,
    latest_shared,
    lifetime_after_opening,
    next_generation,
    remaining_text,
)
from accountant.records.requests import Open
from accountant.views.datasets import DatasetView
from accountant.views.population import condition_words


def why_outside(record: Open, seen: Iterable[DatasetView]) -> str:
    """Return why a population would refuse an opening for its lifetime, "" if it would not.

    The ledger knows more: who owns which dataset, and what the reader does not see.
    """
    population, others = record.policy.population, _of_population(record, seen)
    pairs = [(view.policy, view.lifetime) for view in others]
    match join_obstacle(record.lifetime, resolve(record.policy), pairs):
        case "population_in_use":
            its = "its first one fixes its lifetime"
            return f"population {population} has datasets already, and {its}"
        case "own_lifetime":
            return f"population {population} has a lifetime, so its datasets have none of their own"
        case "other_people":
            what = "another unit, neighbours or kind of guarantee"
            return f"datasets of population {population} have {what}"
        case "too_much":
            joined = latest_shared(view.lifetime for view in others)
            assert joined is not None
            return f"{remaining_text(joined)} remain of the lifetime of population {population}"
        case None:
            return ""


def lifetime_of_opening(record: Open, seen: Iterable[DatasetView]) -> StoredLifetime | None:
    """Return the lifetime of a dataset that an opening fixes or takes from, None for none."""
    policy, others = resolve(record.policy), _of_population(record, seen)
    lifetimes = (view.lifetime for view in others)
    return lifetime_after_opening(record.lifetime, record.dataset, policy, lifetimes)


def lifetime_note(
    lifetime: StoredLifetime, policy: Policy, seen: Iterable[DatasetView] = ()
) -> str:
    """Return what a dataset will promise as part of a lifetime, after it was charged for it.

    Args:
        seen: the datasets that the reader sees.
    """
    whose = f"datasets of population {policy.population}" if lifetime.shared else "generations"
    return (
        f"the dataset will guarantee {lifetime.field} {lifetime.amount}, delta {lifetime.delta} "
        f"for all {whose} together{condition_words(policy, seen)}; {remaining_text(lifetime)} "
        f"remain after it{_not_renewable(lifetime, policy, seen)}"
    )


def _not_renewable(lifetime: StoredLifetime, policy: Policy, seen: Iterable[DatasetView]) -> str:
    """Return which open datasets of a lifetime no renewal with their guarantees fits any more."""
    names = [
        view.dataset
        for view in seen
        if lifetime.shared
        and view.policy.population == policy.population
        and not view.closed
        and next_generation(lifetime, view.policy) is None
    ]
    what = "cannot be renewed with what it guarantees"
    if len(names) > 1:
        what = "cannot be renewed with what they guarantee"
    return f", too little for a renewal: {', '.join(names)} {what}" if names else ""


def _of_population(record: Open, seen: Iterable[DatasetView]) -> list[DatasetView]:
    name = record.policy.population
    return [view for view in seen if name and view.policy.population == name]
