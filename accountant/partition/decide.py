"""The decision on one input record: clock, ids and hash chain around the rules of the ledger.

The processor, the offline `decide` command and `audit` all call `decide`: there is one path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from accountant.amounts import Units
from accountant.claims import Claim
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.foreign_text import escape_control_json
from accountant.ledger.adjudicate import Verdict
from accountant.ledger.snapshots import (
    held_row,
    odometers_wire,
    remaining_wire,
    rounded_up_wire,
    totals_wire,
)
from accountant.partition.admin_records import decide_admin
from accountant.partition.draft import Draft
from accountant.partition.fast_records import encode_grant
from accountant.partition.ids import id_key, pack_decision
from accountant.partition.judge import decide_question, decide_request
from accountant.partition.key_hash import home_of
from accountant.partition.lifetimes import why_not_opened
from accountant.partition.reservation_records import decide_reservation_step, place, reserve
from accountant.partition.several_datasets import (
    PartResult,
    decide_parts,
    decide_step_parts,
    missing_part,
    names_several,
)
from accountant.records import (
    FORMAT,
    RULES,
    Body,
    Decision,
    FieldError,
    First,
    Origin,
    ReservationStep,
    decode_decision,
)
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import (
    MAX_BYTES,
    CheckedInput,
    Input,
    Undecodable,
    canonical,
    check,
)
from accountant.records.outcomes import Outcome, Reason
from accountant.records.placement import record_key
from accountant.records.records import Derived
from accountant.records.requests import MechanismRequest, Open
from accountant.times import iso

CLOCK_LEAD_MS: Final = 300_000
"""An append time may be ahead of the deciding clock by at most this."""

_NOTHING_MORE: Final[dict[str, object]] = {}
_GRANTED: Final = Outcome.GRANTED  # every grant looks it up: an enum's member takes longer
_sha256: Final = hashlib.sha256


def decide(draft: Draft, record: Input, clock: int) -> EncodedDecision:
    """Decide one input record and append the decision to the draft.

    Every record gets exactly one decision, whatever its bytes are. Precedence: undecodable or
    oversize, field rules, wrong_partition, expired, issued_in_future, repeated or conflict,
    overloaded, not_together, unknown_dataset or already_opened, not_permitted, then that of
    `adjudicate`.

    Args:
        draft: the state so far; drop it if this raises.
        record: the next input of its source.
        clock: the deciding machine's time, milliseconds since 1970.
    """
    _advance_past(draft, record, clock)
    if record.checked is not None and record.value is not None:
        return _decide_checked(draft, record, record.value, record.checked)
    try:
        body = canonical(record.value)
        checked = check(record.source, body)
    except Undecodable as error:
        wrong = FieldError("body", error.recorded, "")
        return _append_decision(draft, record, Outcome.INVALID, error.reason, error=wrong)
    except RequestInvalid as error:
        wrong = FieldError(error.field, error.rule, error.value)
        return _append_invalid(draft, record, body, wrong)
    return _decide_checked(draft, record, body, checked)


def decide_internal_error(draft: Draft, record: Input, clock: int) -> EncodedDecision:
    """Append `internal_error` for an input whose decision raised, without the input's bytes."""
    _advance_past(draft, record, clock)
    return _append_decision(draft, record, Outcome.INVALID, Reason.INTERNAL_ERROR)


def _advance_past(draft: Draft, record: Input, clock: int) -> None:
    """Advance the partition's clock to a record, and the input's offset past it."""
    at = record.append_time
    if at > draft.decided_at:
        draft.decided_at = max(draft.decided_at, min(at, clock + CLOCK_LEAD_MS))
    draft.next[record.source] = record.offset + 1


def _decide_checked(
    draft: Draft, record: Input, body: bytes, checked: CheckedInput
) -> EncodedDecision:
    request = checked.body
    dataset, request_id = request.dataset, request.request_id
    ledger = draft.ledger(dataset)
    genesis = draft.partition.genesis
    home = genesis.partition
    if ledger is None:
        home = home_of(dataset, genesis.placement, genesis.partitions)
    if home != genesis.partition:
        rule = f"belongs to partition {home} of {genesis.partitions}, not {genesis.partition}"
        if genesis.placement == "group":
            rule += f": the record's key must be {record_key(dataset, genesis.placement)}"
        return _append_decision(
            draft,
            record,
            Outcome.INVALID,
            Reason.WRONG_PARTITION,
            dataset=dataset,
            request=msgspec.Raw(body),
            error=FieldError("dataset", rule, dataset),
        )
    floor = draft.floor
    if record.source == "requests":
        oldest = draft.decided_at - genesis.window_ms
        if oldest > floor:
            draft.floor = floor = oldest
    issued = checked.issued
    if issued <= floor:
        return _append_uncharged(draft, record, checked, body, Outcome.EXPIRED)
    if issued > draft.decided_at + genesis.skew_ms:
        return _append_uncharged(
            draft, record, checked, body, Outcome.INVALID, Reason.ISSUED_IN_FUTURE
        )
    key = id_key(record.source, dataset, checked.caller, request_id)
    body_hash = _sha256(body).digest()
    known = draft.find_decision(issued, key)
    if known is not None:
        same = known.body_hash == body_hash
        outcome = Outcome.REPEATED if same else Outcome.CONFLICT
        return _append_uncharged(draft, record, checked, body, outcome, first=known.first())
    if not draft.make_room_for_id():
        return _append_uncharged(draft, record, checked, body, Outcome.REFUSED, Reason.OVERLOADED)
    if issued <= draft.floor:  # making room has just raised it
        return _append_uncharged(draft, record, checked, body, Outcome.EXPIRED)
    return _decide_new(draft, record, body, checked, ledger, (issued, key, body_hash))


def _decide_new(
    draft: Draft,
    record: Input,
    body: bytes,
    checked: CheckedInput,
    ledger: DatasetLedger | None,
    identity: tuple[int, bytes, bytes],
) -> EncodedDecision:
    request, extra, analyst = checked.body, _NOTHING_MORE, None
    if isinstance(request, MechanismRequest):
        if request.other_datasets is not UNSET:
            return _decide_several(draft, record, body, checked, request, identity)
        if ledger is None:
            return _refuse_missing(draft, record, body, checked, identity, Reason.UNKNOWN_DATASET)
        if ledger.limits or ledger.held is not None:
            ledger = draft.begin(ledger)
        analyst = request.analyst
        claim = checked.claim
        if claim is None:
            return _decide_question(draft, record, request, body, ledger, identity)
        after, verdict = decide_request(
            ledger,
            request,
            claim,
            draft.members.get,
            draft.levels if ledger.limits else None,
            draft.decided_at,
            draft.resets,
            request.reserve is not UNSET,  # by position: keywords take longer
            draft.reservations,
            (),
            draft.reservations.open_of_holder,
        )
        if verdict.outcome is _GRANTED:
            return _append_grant(draft, record, body, analyst, (ledger, after), verdict, identity)
        if verdict.outcome.reserves:
            return _append_reserved(
                draft, record, request, claim.claim, body, (ledger, after), verdict, identity
            )
    elif ledger is None and (reason := _missing(draft, request)) is not None:
        return _refuse_missing(draft, record, body, checked, identity, reason)
    elif isinstance(request, ReservationStep):
        assert ledger is not None
        return _decide_step(draft, record, body, request, ledger, identity)
    else:
        if ledger is not None:
            ledger = draft.begin(ledger)
        results = decide_admin(draft, ledger, request)
        if len(results) > 1:
            return _append_parts(draft, record, body, results, identity)
        _, after, verdict, extra, _ = results[0]
    decision = _ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    encoded = draft.append(decision, record.key, analyst)
    draft.put(after)
    _remember(draft, identity, encoded, decision.cost)
    return encoded


def _missing(draft: Draft, request: Body) -> Reason | None:
    """Return why a record is refused on a dataset that is not open, None for one that may open."""
    return why_not_opened(draft, request) if isinstance(request, Open) else Reason.UNKNOWN_DATASET


def _decide_question(
    draft: Draft,
    record: Input,
    request: MechanismRequest,
    body: bytes,
    ledger: DatasetLedger,
    identity: tuple[int, bytes, bytes],
) -> EncodedDecision:
    assert request.question is not UNSET
    assert request.noise is not UNSET
    after, verdict, claim, error = decide_question(
        ledger,
        request,
        request.question,
        request.noise,
        draft.members.get,
        draft.members.of,
        draft.levels if ledger.limits else None,
        draft.decided_at,
        draft.resets,
        request.reserve is not UNSET,
        draft.reservations.open_of_holder,
    )
    ledgers, derived = (ledger, after), None if claim is None else Derived(claim.claim)
    if derived is not None and verdict.outcome is Outcome.GRANTED:
        return _append_grant(
            draft, record, body, request.analyst, ledgers, verdict, identity, derived
        )
    if derived is not None and verdict.outcome.reserves:
        return _append_reserved(
            draft, record, request, derived.claim, body, ledgers, verdict, identity, derived
        )
    extra: dict[str, object] = {"error": error, "derived": derived}
    decision = _ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    encoded = draft.append(decision, record.key, request.analyst)
    draft.put(after)
    _remember(draft, identity, encoded, None)
    return encoded


def _decide_step(
    draft: Draft,
    record: Input,
    body: bytes,
    step: ReservationStep,
    ledger: DatasetLedger,
    identity: tuple[int, bytes, bytes],
) -> EncodedDecision:
    ledger = draft.begin(ledger)
    if names_several(draft, step):
        results = decide_step_parts(draft, ledger, step)
        return _append_parts(draft, record, body, results, identity)
    after, verdict, extra, reservation = decide_reservation_step(draft, ledger, step)
    analyst = charged = None
    if reservation is not None and verdict.outcome.is_step:
        analyst = reservation.analyst  # a refused step is no request of theirs
        charged = charged_of(ledger, after)
    decision = _ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    encoded = draft.append(decision, record.key, analyst, charged=charged)
    draft.put(after)
    _remember(draft, identity, encoded, None)
    return encoded


def _append_grant(
    draft: Draft,
    record: Input,
    body: bytes,
    analyst: str,
    ledgers: tuple[DatasetLedger, DatasetLedger],
    verdict: Verdict,
    identity: tuple[int, bytes, bytes],
    derived: Derived | None = None,
) -> EncodedDecision:
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
        _GRANTED,
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
    _remember(draft, identity, encoded, verdict.cost)
    return encoded


def _decide_several(
    draft: Draft,
    record: Input,
    body: bytes,
    checked: CheckedInput,
    request: MechanismRequest,
    identity: tuple[int, bytes, bytes],
) -> EncodedDecision:
    missing = missing_part(draft, request)
    if missing is not None:
        return _refuse_missing(draft, record, body, checked, identity, *missing)
    assert checked.claim is not None
    results = decide_parts(draft, request, checked.claim)
    return _append_parts(draft, record, body, results, identity, request.analyst)


def _append_parts(
    draft: Draft,
    record: Input,
    body: bytes,
    results: Sequence[PartResult],
    identity: tuple[int, bytes, bytes],
    analyst: str | None = None,
) -> EncodedDecision:
    """Append one decision over several datasets.

    Args:
        analyst: of a request; of a step, the reservation says whose it is.
    """
    raw = msgspec.Raw(body)
    decisions = [
        _ledger_decision(draft, record, raw, each.after, each.verdict, each.fields)
        for each in results
    ]
    charged = [
        charged_of(each.before, each.after)
        if each.verdict.outcome.charges or each.verdict.outcome.is_step
        else None
        for each in results
    ]
    held = decisions[0].reservation
    if analyst is None and held is not None and decisions[0].outcome.is_step:
        analyst = held.analyst
    encoded = draft.append_parts(decisions, record.key, analyst, charged=charged)
    place(draft, [each.new for each in results if each.new is not None], encoded)
    for each in results:
        draft.put(each.after)
        for limit in each.verdict.charged:
            draft.levels.put(limit.after)
    _remember(draft, identity, encoded, None)
    return encoded


def _refuse_missing(
    draft: Draft,
    record: Input,
    body: bytes,
    checked: CheckedInput,
    identity: tuple[int, bytes, bytes],
    reason: Reason,
    refused_by: str | None = None,
) -> EncodedDecision:
    """Refuse a request that no ledger can decide."""
    encoded = _append_uncharged(
        draft, record, checked, body, Outcome.REFUSED, reason, refused_by=refused_by
    )
    _remember(draft, identity, encoded, None)
    return encoded


def charged_of(before: DatasetLedger, after: DatasetLedger) -> Units:
    """Return what a decision adds to the first of the totals, below 0 for what comes back.

    It is the difference of the totals as written, so that it equals the `cost` of a grant.
    """
    spent = after.totals[0]
    return 0 if isinstance(spent, float) else int(spent) - int(before.totals[0])


def _append_reserved(
    draft: Draft,
    record: Input,
    request: MechanismRequest,
    claim: Claim,
    body: bytes,
    ledgers: tuple[DatasetLedger, DatasetLedger],
    verdict: Verdict,
    identity: tuple[int, bytes, bytes],
    derived: Derived | None = None,
) -> EncodedDecision:
    before, granted = ledgers
    clock = before.clock(draft.decided_at)
    after, extra, new = reserve(before, granted, request, claim, verdict, clock)
    extra["derived"] = derived
    decision = _ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    charged = charged_of(before, after)
    encoded = draft.append(decision, record.key, request.analyst, charged=charged)
    place(draft, (new,), encoded)
    draft.put(after)
    for each in verdict.charged:
        draft.levels.put(each.after)
    _remember(draft, identity, encoded, verdict.cost)
    return encoded


def _crosses_limit(verdict: Verdict) -> bool:
    return any(each.update.crossed for each in verdict.charged)


def _ledger_decision(
    draft: Draft,
    record: Input,
    raw: msgspec.Raw,
    ledger: DatasetLedger,
    verdict: Verdict,
    extra: dict[str, object],
) -> Decision:
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


def _append_uncharged(
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
    return _append_decision(draft, record, outcome, reason, **fields, refused_by=refused_by)


def _append_decision(
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


def _append_invalid(draft: Draft, record: Input, body: bytes, wrong: FieldError) -> EncodedDecision:
    """Append `invalid`, with the body only if the decision can then be decoded again.

    Its control characters become escapes, so that no reader of the log gets them raw.
    """
    reason, body = Reason.INVALID_FIELD, escape_control_json(body)
    if len(body) > MAX_BYTES:
        return _append_decision(draft, record, Outcome.INVALID, reason, error=wrong)
    sequence, head = draft.sequence, draft.head_bytes
    raw = msgspec.Raw(body)
    encoded = _append_decision(draft, record, Outcome.INVALID, reason, error=wrong, request=raw)
    try:
        if bytes(decode_decision(encoded.value).request) == body:
            return encoded
    except msgspec.MsgspecError:
        pass
    draft.sequence, draft.head_bytes = sequence, head
    return _append_decision(draft, record, Outcome.INVALID, reason, error=wrong)


def _remember(
    draft: Draft,
    identity: tuple[int, bytes, bytes],
    encoded: EncodedDecision,
    cost: dict[str, str] | None,
) -> None:
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
