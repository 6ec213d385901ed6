"""Decide the renewal of a dataset: one decision closes it and opens its next generation."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import Verdict, advance
from accountant.ledger.administer import close_ledger, open_ledger
from accountant.ledger.shared_lifetimes import latest_sum
from accountant.partition.draft import Draft
from accountant.partition.several_datasets import PartResult
from accountant.policy import Policy, resolve
from accountant.policy.lifetime import StoredLifetime, continues, next_generation
from accountant.records.members import owner_rows
from accountant.records.outcomes import Outcome, Reason
from accountant.records.requests import Renew

_BEGINS_AS: Final = "members"
"""Who may ask of a new generation: nobody, until limits and then members have followed."""


def decide_renewal(draft: Draft, ledger: DatasetLedger, record: Renew) -> tuple[PartResult, ...]:
    """Return the results of a renewal: that of the dataset, and where it is renewed its successor.

    The sum of the lifetime is in the row of the latest dataset that took from it, and of each
    dataset only the latest generation can be renewed. So of two renewals of one dataset the second
    is refused, and no charge is lost.
    """
    at, policy = draft.decided_at, resolve(record.policy)
    reason = _refusal(draft, ledger, record, policy)
    if reason is not None:
        return (PartResult(ledger, advance(ledger, at), Verdict(Outcome.REFUSED, reason), {}),)
    after = close_ledger(ledger, at, renewed_as=record.renewed_as)
    old = PartResult(ledger, after, Verdict(Outcome.RENEWED), {})
    return old, _successor(draft, ledger, record, policy)


def _refusal(draft: Draft, ledger: DatasetLedger, record: Renew, policy: Policy) -> Reason | None:
    if ledger.has_changed_since(record.follows):
        return Reason.OUT_OF_DATE
    lifetime = ledger.facts.lifetime
    if lifetime is UNSET:
        return Reason.NO_LIFETIME
    if ledger.facts.renewed_as:
        return Reason.ALREADY_RENEWED
    if not draft.partition.genesis.decides_together(record.dataset, record.renewed_as):
        return Reason.NOT_IN_GROUP
    if draft.ledger(record.renewed_as) is not None:
        return Reason.ALREADY_OPENED
    if not continues(ledger.plan.policy, lifetime, policy):
        return Reason.LIFETIME_MISMATCH
    charged = next_generation(latest_sum(draft.every_ledger(), lifetime), policy)
    return None if charged else Reason.BEYOND_LIFETIME


def _successor(draft: Draft, ledger: DatasetLedger, record: Renew, policy: Policy) -> PartResult:
    """Open the next generation of a dataset that may be renewed."""
    lifetime = ledger.facts.lifetime
    assert isinstance(lifetime, StoredLifetime)
    owners = record.owners
    if owners is UNSET:
        rows = draft.members.of(record.dataset)
        owners = tuple(sorted(row.member for row in rows if "owner" in row.roles))
    policy = msgspec.structs.replace(policy, access=_BEGINS_AS)
    charged = next_generation(latest_sum(draft.every_ledger(), lifetime), policy)
    opened, verdict, fields = open_ledger(
        record.renewed_as, policy, record, owners, charged, draft.decided_at
    )
    opened = msgspec.structs.replace(opened, generation=ledger.generation + 1)
    for row in owner_rows(record.renewed_as, opened.sequence, owners):
        draft.members.put(row)
    return PartResult(opened, opened, verdict, fields)
