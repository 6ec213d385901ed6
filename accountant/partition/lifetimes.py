"""Which lifetime an opening fixes or takes from."""

from __future__ import annotations

from functools import partial

from msgspec import UNSET

from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.shared_lifetimes import datasets_of, opening_refusal
from accountant.members.permits import has_role
from accountant.partition.draft import Draft
from accountant.policy import Policy, resolve
from accountant.policy.lifetime import StoredLifetime, lifetime_after_opening
from accountant.records.outcomes import Reason
from accountant.records.requests import Open


def why_not_opened(draft: Draft, record: Open) -> Reason | None:
    """Return why no dataset opens under a name that none has, None where one does."""
    genesis, policy = draft.partition.genesis, record.policy
    # The next dataset of the lifetime would have no place: its sum is in this partition.
    if record.lifetime is not UNSET and not genesis.has_groups:
        return Reason.NOT_RENEWABLE
    if policy.population is UNSET:
        return None
    shared = record.lifetime is not UNSET and record.lifetime.shared
    if shared and not genesis.keeps_together(policy.population):
        return Reason.NOT_RENEWABLE

    def is_owner(dataset: str) -> bool:
        return has_role(partial(draft.members.get, dataset), record.by, "owner", draft.decided_at)

    datasets = datasets_of(draft.every_ledger(), policy.population)
    return opening_refusal(record, resolve(policy), datasets, is_owner)


def lifetime_of_opening(draft: Draft, record: Open, policy: Policy) -> StoredLifetime | None:
    """Return the lifetime of a dataset that may open, after it was charged the dataset.

    Args:
        policy: of the record, resolved.
    """
    datasets = list[DatasetLedger]()
    if policy.population is not UNSET:
        datasets = datasets_of(draft.every_ledger(), policy.population)
    others = (each.facts.lifetime for each in datasets)
    return lifetime_after_opening(record.lifetime, record.dataset, policy, others)
