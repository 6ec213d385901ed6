"""The decision on one input record: ids, floor, clock and chain around adjudication.

Used by the processor, by the offline `decide` command and by `audit`, so there is one path.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from accountant.adjudication import Verdict, adjudicate
from accountant.administer import administer
from accountant.clock import iso
from accountant.errors import RequestInvalid
from accountant.ids import Remembered, id_key
from accountant.inputs import Checked, Input, Undecodable, canonical, check
from accountant.ledger import Ledger
from accountant.outcomes import Outcome, Reason
from accountant.partition import Draft, Encoded
from accountant.partitioning import partition_of
from accountant.records import (
    Decision,
    FieldError,
    MechanismRequest,
    Open,
    Origin,
    decode_decision,
)
from accountant.snapshots import left_wire, odometers_wire, totals_wire

CLOCK_LEAD_MS: Final = 300_000
"""An append time may be ahead of the deciding clock by at most this."""

_NOTHING_MORE: Final[dict[str, object]] = {}


def decide(draft: Draft, record: Input, clock: int) -> Encoded:
    """Decide one input record and take the decision into the draft.

    Args:
        draft: the state so far; to be dropped if this raises.
        record: the input, the next of its source.
        clock: the deciding machine's time, milliseconds since 1970.
    Whatever the record holds, it gets exactly one decision. Precedence: undecodable or
    oversize, field rules, wrong_partition, expired, issued_in_future, repeated or conflict,
    overloaded, unknown_dataset or already_opened, then `adjudicate`'s.
    """
    _take_up(draft, record, clock)
    try:
        body = canonical(record.value)
        checked = check(record.source, body)
    except Undecodable as error:
        wrong = FieldError("body", str(error), "")
        return _append(draft, record, Outcome.INVALID, error.reason, error=wrong)
    except RequestInvalid as error:
        wrong = FieldError(error.field, error.rule, error.value)
        return _append_invalid(draft, record, body, wrong)
    return _decide_checked(draft, record, body, checked)


def decide_internal_error(draft: Draft, record: Input, clock: int) -> Encoded:
    """Decide an input on which adjudication itself raised; nothing of it is repeated."""
    _take_up(draft, record, clock)
    return _append(draft, record, Outcome.INVALID, Reason.INTERNAL_ERROR)


def _take_up(draft: Draft, record: Input, clock: int) -> None:
    """Move the partition's clock and the input's offset on to a record."""
    draft.decided_at = max(draft.decided_at, min(record.append_time, clock + CLOCK_LEAD_MS))
    draft.next[record.source] = record.offset + 1


def _decide_checked(draft: Draft, record: Input, body: bytes, checked: Checked) -> Encoded:
    request = checked.body
    dataset = request.dataset
    ledger = draft.ledger(dataset)
    genesis = draft.partition.genesis
    raw = msgspec.Raw(body)
    common = {"dataset": dataset, "request": raw}
    if ledger is None and partition_of(dataset.encode(), genesis.partitions) != genesis.partition:
        return _append(draft, record, Outcome.INVALID, Reason.WRONG_PARTITION, **common)
    if record.source == "requests":
        draft.floor = max(draft.floor, draft.decided_at - genesis.window_ms)
    issued = checked.issued
    if issued <= draft.floor:
        return _append(draft, record, Outcome.EXPIRED, None, **common)
    if issued > draft.decided_at + genesis.skew_ms:
        return _append(draft, record, Outcome.INVALID, Reason.ISSUED_IN_FUTURE, **common)
    key = id_key(record.source, dataset, checked.who, request.request_id)
    body_hash = hashlib.sha256(body).digest()
    known = draft.remembered(issued, key)
    if known is not None:
        same = known.body_hash == body_hash
        outcome = Outcome.REPEATED if same else Outcome.CONFLICT
        return _append(draft, record, outcome, None, first=known.first(), **common)
    if not draft.has_room_for_id():
        return _append(draft, record, Outcome.REFUSED, Reason.OVERLOADED, **common)
    if issued <= draft.floor:  # making room has just raised it
        return _append(draft, record, Outcome.EXPIRED, None, **common)
    return _decide_new(draft, record, raw, checked, ledger, (issued, key, body_hash))


def _decide_new(
    draft: Draft,
    record: Input,
    raw: msgspec.Raw,
    checked: Checked,
    ledger: Ledger | None,
    identity: tuple[int, str, bytes],
) -> Encoded:
    request = checked.body
    if ledger is None and not isinstance(request, Open):
        encoded = _append(
            draft,
            record,
            Outcome.REFUSED,
            Reason.UNKNOWN_DATASET,
            dataset=request.dataset,
            request=raw,
        )
        _remember(draft, identity, encoded)
        return encoded
    extra = _NOTHING_MORE
    if isinstance(request, MechanismRequest):
        assert ledger is not None
        assert checked.claim is not None
        after, verdict = adjudicate(
            ledger, checked.claim, request.unit, request.neighbours, draft.decided_at
        )
    else:
        after, verdict, extra = administer(ledger, request, draft.decided_at)
    decision = _ledger_decision(draft, record, raw, after, verdict, extra)
    encoded = draft.append(decision, record.key)
    draft.put(after, decision)
    _remember(draft, identity, encoded)
    return encoded


def _ledger_decision(
    draft: Draft,
    record: Input,
    raw: msgspec.Raw,
    ledger: Ledger,
    verdict: Verdict,
    extra: dict[str, object],
) -> Decision:
    price = verdict.price
    wire = None if price is None else price.wire
    granted = verdict.outcome is Outcome.GRANTED
    decision = Decision(
        partition_sequence=draft.sequence + 1,
        previous=draft.head,
        decided_at=iso(draft.decided_at),
        floor=iso(draft.floor),
        outcome=verdict.outcome,
        reason=verdict.reason,
        dataset=ledger.dataset,
        generation=ledger.generation,
        sequence=ledger.sequence,
        cost=wire if granted else None,
        asked=None if granted else wire,
        fits=verdict.fits,
        totals=totals_wire(ledger),
        left=left_wire(ledger),
        odometers=odometers_wire(ledger),
        crossed=verdict.crossed,
        request=raw,
        source=Origin(record.source, draft.partition.genesis.partition, record.offset),
    )
    # Only an owner's record has more to say; every request would pay for it above.
    return msgspec.structs.replace(decision, **extra) if extra else decision


def _append(
    draft: Draft, record: Input, outcome: Outcome, reason: Reason | None, **fields: object
) -> Encoded:
    """Append a decision that leaves every ledger as it is."""
    decision = Decision(
        partition_sequence=draft.sequence + 1,
        previous=draft.head,
        decided_at=iso(draft.decided_at),
        floor=iso(draft.floor),
        outcome=outcome,
        reason=reason,
        source=Origin(record.source, draft.partition.genesis.partition, record.offset),
        **fields,  # type: ignore[arg-type]
    )
    return draft.append(decision, record.key)


def _append_invalid(draft: Draft, record: Input, body: bytes, wrong: FieldError) -> Encoded:
    """Append an `invalid` that repeats the body, if the log can be read back with it."""
    sequence, head = draft.sequence, draft.head
    raw = msgspec.Raw(body)
    reason = Reason.INVALID_FIELD
    encoded = _append(draft, record, Outcome.INVALID, reason, error=wrong, request=raw)
    try:
        if bytes(decode_decision(encoded.value).request) == body:
            return encoded
    except msgspec.MsgspecError:
        pass
    draft.sequence, draft.head = sequence, head
    return _append(draft, record, Outcome.INVALID, reason, error=wrong)


def _remember(draft: Draft, identity: tuple[int, str, bytes], encoded: Encoded) -> None:
    issued, key, body_hash = identity
    decision = encoded.decision
    remembered = Remembered(
        body_hash,
        bytes.fromhex(draft.head[7:]),
        decision.partition_sequence,
        draft.decided_at,
        decision.outcome,
        decision.reason,
        decision.cost,
    )
    draft.remember(issued, key, remembered)
