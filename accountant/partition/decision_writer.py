"""Decisions as they are appended to a draft, with what each of them puts there."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.amounts import Units
from accountant.claims import Claim
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import Verdict
from accountant.ledger.snapshots import (
    held_row,
    odometers_wire,
    remaining_wire,
    rounded_up_wire,
    totals_wire,
)
from accountant.partition.draft import Draft
from accountant.partition.fast_records import encode_grant
from accountant.partition.ids import pack_decision
from accountant.partition.reservation_records import place, reserve
from accountant.records import (
    FORMAT,
    RULES,
    Decision,
    First,
    Origin,
)
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import CheckedInput, Input
from accountant.records.outcomes import Outcome, Reason
from accountant.records.records import Derived
from accountant.records.requests import MechanismRequest
from accountant.times import iso

Identity = tuple[int, bytes, bytes]
"""Of an input: its time of issue, the key of its id, and SHA-256 of its body."""
NOTHING_MORE: Final[dict[str, object]] = {}
_GRANTED: Final = Outcome.GRANTED  # every grant looks it up: an enum's member takes longer


def charged_of(before: DatasetLedger, after: DatasetLedger) -> Units:
    """Return what a decision adds to the first of the totals, below 0 for what comes back.

    It is the difference of the totals as written, so that it equals the `cost` of a grant.
    """
    spent = after.totals[0]
    return 0 if isinstance(spent, float) else int(spent) - int(before.totals[0])


def ledger_decision(
    draft: Draft,
    record: Input,
    raw: msgspec.Raw,
    ledger: DatasetLedger,
    verdict: Verdict,
    extra: dict[str, object],
) -> Decision:
    """Return the decision on a numbered record, as the ledger stands after it.

    Args:
        raw: the record that it answers.
        ledger: after the decision.
        extra: further fields, by name.
    """
    price = verdict.price
    decision = Decision(
        version=FORMAT,
        partition_sequence=draft.sequence + 1,
        previous=draft.head,
        decided_at=iso(draft.decided_at),
        floor=iso(draft.floor),
        rules=RULES,
        outcome=verdict.outcome,
        reason=verdict.reason,
        dataset=ledger.dataset,
        generation=ledger.generation,
        sequence=ledger.sequence,
        asked=None if price is None else price.wire,
        fits=verdict.fits,
        ends=verdict.ends,
        totals=totals_wire(ledger),
        rounded_up=rounded_up_wire(ledger),
        left=remaining_wire(ledger),
        odometers=odometers_wire(ledger),
        crossed=verdict.crossed,
        spent_ratio=ledger.spent_ratio if verdict.crossed else None,
        request=raw,
        source=Origin(record.source, draft.partition.genesis.partition, record.offset),
        level=verdict.level,
        left_at=verdict.left_at,
        held=None if ledger.held is None else held_row(ledger),
        guarantee=ledger.stated_guarantee or None,
        holder=verdict.holder,
        pause=verdict.pause,
        in_force=(ledger.plan.in_force or None) if verdict.crossed else None,
    )
    # Only admin requests have extra fields; setting them above would slow every request.
    return msgspec.structs.replace(decision, **extra) if extra else decision


def append_uncharged(
    draft: Draft,
    record: Input,
    checked: CheckedInput,
    body: bytes,
    outcome: Outcome,
    reason: Reason | None = None,
    first: First | None = None,
    refused_by: str | None = None,
) -> EncodedDecision:
    """Append a decision on a valid request that changes no ledger."""
    fields = {"dataset": checked.body.dataset, "request": msgspec.Raw(body), "first": first}
    return append_decision(draft, record, outcome, reason, **fields, refused_by=refused_by)


def append_decision(
    draft: Draft, record: Input, outcome: Outcome, reason: Reason | None, **fields: object
) -> EncodedDecision:
    """Append a decision that leaves every ledger as it is."""
    decision = Decision(
        version=FORMAT,
        partition_sequence=draft.sequence + 1,
        previous=draft.head,
        decided_at=iso(draft.decided_at),
        floor=iso(draft.floor),
        rules=RULES,
        outcome=outcome,
        reason=reason,
        source=Origin(record.source, draft.partition.genesis.partition, record.offset),
        **fields,  # type: ignore[arg-type]
    )
    return draft.append(decision, record.key)


def remember(
    draft: Draft,
    identity: Identity,
    encoded: EncodedDecision,
    cost: dict[str, str] | None,
) -> None:
    """Remember the id of an input with its decision."""
    issued, key, body_hash = identity
    remembered = pack_decision(
        body_hash,
        encoded.digest,
        encoded.partition_sequence,
        encoded.decided_at,
        encoded.outcome,
        encoded.reason,
        cost,
    )
    draft.remember(issued, key, remembered)


def append_grant(
    draft: Draft,
    record: Input,
    body: bytes,
    analyst: str,
    ledgers: tuple[DatasetLedger, DatasetLedger],
    verdict: Verdict,
    identity: Identity,
    derived: Derived | None = None,
) -> EncodedDecision:
    """Append a plain grant, and put what it changes in the draft.

    Args:
        ledgers: of the dataset, before and after it.
    """
    before, after = ledgers
    value, amounts = encode_grant(
        draft.sequence + 1,
        draft.head_bytes,
        draft.decided_at,
        draft.floor,
        after,
        verdict,
        body,
        draft.partition.genesis.partition,
        record.offset,
        derived,
    )
    encoded = draft.append_value(
        value,
        record.key,
        verdict.outcome,
        None,
        after.dataset,
        after.sequence,
        analyst,
        charged_of(before, after),
        bool(verdict.crossed or (verdict.charged and _crosses_limit(verdict))),
        None,
    )
    draft.put(after, amounts)
    for each in verdict.charged:
        draft.levels.put(each.after)
    remember(draft, identity, encoded, verdict.cost)
    return encoded


def append_reserved(
    draft: Draft,
    record: Input,
    request: MechanismRequest,
    claim: Claim,
    body: bytes,
    ledgers: tuple[DatasetLedger, DatasetLedger],
    verdict: Verdict,
    identity: Identity,
    derived: Derived | None = None,
) -> EncodedDecision:
    """Append a grant that is a reservation, and put what it changes in the draft.

    Args:
        ledgers: of the dataset, before and after it.
    """
    before, granted = ledgers
    clock = before.clock(draft.decided_at)
    after, extra, new = reserve(before, granted, request, claim, verdict, clock)
    extra["derived"] = derived
    decision = ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    charged = charged_of(before, after)
    encoded = draft.append(decision, record.key, request.analyst, charged=charged)
    place(draft, (new,), encoded)
    draft.put(after)
    for each in verdict.charged:
        draft.levels.put(each.after)
    remember(draft, identity, encoded, verdict.cost)
    return encoded


def _crosses_limit(verdict: Verdict) -> bool:
    return any(each.update.crossed for each in verdict.charged)
