"""Why the lifetime of a population would refuse an opening, as far as a reader sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accountant.policy import Policy, resolve
from accountant.policy.lifetime import (
    StoredLifetime,
    join_obstacle,
    latest_shared,
    lifetime_after_opening,
    next_generation,
    remaining_text,
    taking_text,
)
from accountant.records.requests import Open
from accountant.views.datasets import DatasetView
from accountant.views.population import condition_words


def why_outside(record: Open, seen: Iterable[DatasetView]) -> str:
    """Return why a population would refuse an opening for its lifetime, "" if it would not.

    The ledger knows more: who owns which dataset, and what the reader does not see.
    """
    population, others = record.policy.population, _of_population(record, seen)
    policy, joined = resolve(record.policy), latest_shared(view.lifetime for view in others)
    pairs = [(view.policy, view.lifetime) for view in others]
    match join_obstacle(record.lifetime, policy, pairs):
        case "population_in_use" if joined is None:
            return (
                f"population {population} was opened without a lifetime, and can get none any "
                "more: only its first dataset could fix one. Name another population if its "
                "people are others"
            )
        case "population_in_use" | "own_lifetime":
            return (
                f"population {population} has a lifetime already, from which this dataset would "
                "take: leave the lifetime out of the opening"
            )
        case "other_people":
            what = "another unit, neighbours or kind of guarantee"
            return f"datasets of population {population} have {what}"
        case "too_much":
            assert joined is not None
            return (
                f"it would take {taking_text(joined, policy)}, and {remaining_text(joined)} remain "
                f"of the lifetime of population {population}. Open it with less"
            )
        case None:
            return ""


def who_may_open(record: Open, seen: Iterable[DatasetView]) -> str:
    """Return who may open a dataset in a population with a lifetime, "" where none is seen.

    For a refusal that nothing else explains: the sender owns none of its datasets.
    """
    names = [view.dataset for view in _of_population(record, seen) if not view.renewed_as]
    if not names:
        return ""
    population, by = record.policy.population, record.by
    return (
        f"{by} owns no dataset of population {population}. An owner of {' or '.join(names)} can "
        f"open it for {by}, who then owns it (`--owner {by}`)"
    )


def lifetime_of_opening(record: Open, seen: Iterable[DatasetView]) -> StoredLifetime | None:
    """Return the lifetime of a dataset that an opening fixes or takes from, None for none."""
    policy, others = resolve(record.policy), _of_population(record, seen)
    lifetimes = (view.lifetime for view in others)
    return lifetime_after_opening(record.lifetime, record.dataset, policy, lifetimes)


def lifetime_note(
    lifetime: StoredLifetime, policy: Policy, seen: Sequence[DatasetView] = ()
) -> str:
    """Return what a dataset will promise as part of a lifetime, after it was charged for it.

    Args:
        seen: the datasets that the reader sees.
    """
    whose = f"datasets of population {policy.population}" if lifetime.shared else "generations"
    return (
        f"the dataset will guarantee {lifetime.field} {lifetime.amount}, delta {lifetime.delta} "
        f"for all {whose} together{condition_words(policy, seen)}. It "
        f"{taking_words(lifetime, policy, seen)}"
    )


def taking_words(lifetime: StoredLifetime, policy: Policy, seen: Iterable[DatasetView]) -> str:
    """Return what an opening takes of a lifetime, what remains, and which renewals it prevents.

    Args:
        lifetime: after the dataset was charged.
        seen: the datasets that the reader sees.
    """
    whose = f"the lifetime of population {policy.population}" if lifetime.shared else "it"
    taken, rest = taking_text(lifetime, policy), remaining_text(lifetime)
    prevented = _prevented_renewals(lifetime, policy, [*seen] if lifetime.shared else [])
    little = f": too little to renew {prevented}" if prevented else ""
    return f"takes {taken} of {whose}, for ever, and {rest} remain{little}"


def _prevented_renewals(
    lifetime: StoredLifetime, policy: Policy, seen: Sequence[DatasetView]
) -> str:
    """Return which datasets no renewal with their guarantees fits any more, "" for none."""
    before = latest_shared(view.lifetime for view in seen)
    others = [
        f"{view.dataset}, which takes {taking_text(lifetime, view.policy)}"
        for view in seen
        if view.policy.population == lifetime.first
        and not view.closed
        and before is not None
        and next_generation(before, view.policy) is not None
        and next_generation(lifetime, view.policy) is None
    ]
    itself = [] if next_generation(lifetime, policy) else ["this dataset itself as it is"]
    return "; or ".join([*others, *itself])


def _of_population(record: Open, seen: Iterable[DatasetView]) -> list[DatasetView]:
    name = record.policy.population
    return [view for view in seen if name and view.policy.population == name]
