"""The lifetime of a population: which of its datasets has the sum, and what joins it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accountant.dataset_ledger import DatasetLedger
from accountant.policy import Policy
from accountant.policy.lifetime import StoredLifetime, join_obstacle, latest_shared
from accountant.records.outcomes import Reason
from accountant.records.requests import Open


def datasets_of(ledgers: Iterable[DatasetLedger], population: str) -> list[DatasetLedger]:
    """Return the datasets of a population. It looks at each one: openings and renewals are rare."""
    return [each for each in ledgers if each.plan.policy.population == population]


def latest_sum(ledgers: Iterable[DatasetLedger], lifetime: StoredLifetime) -> StoredLifetime:
    """Return a lifetime as the latest dataset has it that took from it.

    Args:
        ledgers: those of one partition, which has all of them.
        lifetime: as any of them has it. One that is not shared is with the latest generation.
    """
    found = lifetime_to_join(datasets_of(ledgers, lifetime.first)) if lifetime.shared else None
    return found or lifetime


def lifetime_to_join(datasets: Iterable[DatasetLedger]) -> StoredLifetime | None:
    """Return the lifetime of a population as its latest dataset has it, None for none.

    Args:
        datasets: those of the population in this partition.
    """
    return latest_shared(each.facts.lifetime for each in datasets)


def opening_refusal(
    record: Open,
    policy: Policy,
    datasets: list[DatasetLedger],
    is_owner: Callable[[str], bool],
) -> Reason | None:
    """Return why a dataset cannot open in its population, None where it can.

    Who does not own one of the population's datasets would take from it what its owners planned
    for others.

    Args:
        policy: resolved, of the record.
        datasets: those of the population in this partition.
        is_owner: tells whether the sender owns a dataset of this name. Who owns a dataset that was
            renewed alone has no say any more.
    """
    others = [(each.plan.policy, each.facts.lifetime) for each in datasets]
    obstacle = join_obstacle(record.lifetime, policy, others)
    if obstacle == "population_in_use":
        return Reason.POPULATION_IN_USE
    if lifetime_to_join(datasets) is None:
        return None
    is_allowed = any(is_owner(each.dataset) for each in datasets if not each.facts.renewed_as)
    return None if obstacle is None and is_allowed else Reason.OUTSIDE_LIFETIME
