"""The lifetime of a population: which of its datasets has the sum, and what joins it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET

from accountant.dataset_ledger import DatasetLedger
from accountant.policy import Policy
from accountant.policy.lifetime import StoredLifetime, continues, next_generation, taken_from
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
    if not lifetime.shared:
        return lifetime
    found = [each.facts.lifetime for each in ledgers if each.facts.lifetime is not UNSET]
    return max((each for each in found if each.identity == lifetime.identity), key=taken_from)


def lifetime_to_join(datasets: Iterable[DatasetLedger]) -> StoredLifetime | None:
    """Return the lifetime of a population as its latest dataset has it, None for none.

    Args:
        datasets: those of the population in this partition.
    """
    found = [each.facts.lifetime for each in datasets if each.facts.lifetime is not UNSET]
    return max((each for each in found if each.shared), key=taken_from, default=None)


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
    if record.lifetime is not UNSET and record.lifetime.shared and datasets:
        return Reason.POPULATION_IN_USE
    joined = lifetime_to_join(datasets)
    if joined is None:
        return None
    fits = (
        record.lifetime is UNSET
        and continues(datasets[0].plan.policy, joined, policy)
        and any(is_owner(each.dataset) for each in datasets if not each.facts.renewed_as)
        and next_generation(joined, policy) is not None
    )
    return None if fits else Reason.OUTSIDE_LIFETIME
