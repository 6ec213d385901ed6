"""The decision on one input record: clock, ids and hash chain around the rules of the ledger.

The processor, the offline `decide` command and `audit` all call `decide`: there is one path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from accountant.claims import CheckedClaim
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.foreign_text import escape_control_json
from accountant.partition.admin_records import decide_admin
from accountant.partition.approval_answers import append_pending, decide_answer
from accountant.partition.approvals import (
    approvals_of,
    begin_decision,
    clock_of,
)
from accountant.partition.decision_writer import (
    NOTHING_MORE,
    Identity,
    append_decision,
    append_grant,
    append_reserved,
    append_uncharged,
    charged_of,
    ledger_decision,
    remember,
)
from accountant.partition.draft import Draft
from accountant.partition.ids import id_key
from accountant.partition.judge import decide_question, decide_request
from accountant.partition.key_hash import home_of
from accountant.partition.lifetimes import why_not_opened
from accountant.partition.reservation_records import decide_reservation_step, place
from accountant.partition.several_datasets import (
    PartResult,
    decide_parts,
    decide_step_parts,
    missing_part,
    names_several,
)
from accountant.records import (
    Body,
    FieldError,
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
from accountant.records.requests import Approve, Deny, MechanismRequest, Open

CLOCK_LEAD_MS: Final = 300_000
"""An append time may be ahead of the deciding clock by at most this."""

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
        return append_decision(draft, record, Outcome.INVALID, error.reason, error=wrong)
    except RequestInvalid as error:
        wrong = FieldError(error.field, error.rule, error.value)
        return _append_invalid(draft, record, body, wrong)
    return _decide_checked(draft, record, body, checked)


def decide_internal_error(draft: Draft, record: Input, clock: int) -> EncodedDecision:
    """Append `internal_error` for an input whose decision raised, without the input's bytes."""
    _advance_past(draft, record, clock)
    return append_decision(draft, record, Outcome.INVALID, Reason.INTERNAL_ERROR)


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
        return append_decision(
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
    if ledger is not None and ledger.pending and record.source == "requests":
        row = draft.pending.of_request(dataset, checked.caller, request_id)
        if row is not None:
            same = row.body_hash == _sha256(body).hexdigest()
            outcome = Outcome.REPEATED if same else Outcome.CONFLICT
            first = row.first_answer(clock_of(ledger, draft.decided_at), draft.resets.number)
            return append_uncharged(draft, record, checked, body, outcome, first=first)
    if issued <= floor:
        return append_uncharged(draft, record, checked, body, Outcome.EXPIRED)
    if issued > draft.decided_at + genesis.skew_ms:
        return append_uncharged(
            draft, record, checked, body, Outcome.INVALID, Reason.ISSUED_IN_FUTURE
        )
    key = id_key(record.source, dataset, checked.caller, request_id)
    body_hash = _sha256(body).digest()
    known = draft.find_decision(issued, key)
    if known is not None:
        same = known.body_hash == body_hash
        outcome = Outcome.REPEATED if same else Outcome.CONFLICT
        return append_uncharged(draft, record, checked, body, outcome, first=known.first())
    if not draft.make_room_for_id():
        return append_uncharged(draft, record, checked, body, Outcome.REFUSED, Reason.OVERLOADED)
    if issued <= draft.floor:  # making room has just raised it
        return append_uncharged(draft, record, checked, body, Outcome.EXPIRED)
    return _decide_new(draft, record, body, checked, ledger, (issued, key, body_hash))


def _decide_new(
    draft: Draft,
    record: Input,
    body: bytes,
    checked: CheckedInput,
    ledger: DatasetLedger | None,
    identity: Identity,
) -> EncodedDecision:
    request = checked.body
    if isinstance(request, MechanismRequest):
        if request.other_datasets is not UNSET:
            return _decide_several(draft, record, body, checked, request, identity)
        if ledger is None:
            return _refuse_missing(draft, record, body, checked, identity, Reason.UNKNOWN_DATASET)
        ledger = begin_decision(draft, ledger)
        if checked.claim is None:
            return _decide_question(draft, record, request, body, ledger, identity)
        return _decide_claim(draft, record, request, checked.claim, body, ledger, identity)
    if ledger is None and (reason := _missing(draft, request)) is not None:
        return _refuse_missing(draft, record, body, checked, identity, reason)
    if isinstance(request, ReservationStep):
        assert ledger is not None
        return _decide_step(draft, record, body, request, ledger, identity)
    if ledger is not None:
        ledger = begin_decision(draft, ledger)
        if isinstance(request, Approve | Deny):
            return decide_answer(draft, record, body, request, ledger, identity)
    results = decide_admin(draft, ledger, request)
    if len(results) > 1:
        return _append_parts(draft, record, body, results, identity)
    _, after, verdict, extra, _ = results[0]
    decision = ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    encoded = draft.append(decision, record.key)
    draft.put(after)
    remember(draft, identity, encoded, decision.cost)
    return encoded


def _decide_claim(
    draft: Draft,
    record: Input,
    request: MechanismRequest,
    claim: CheckedClaim,
    body: bytes,
    ledger: DatasetLedger,
    identity: Identity,
) -> EncodedDecision:
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
        approvals_of(draft) if ledger.plan.approval is not None else None,
    )
    if verdict.outcome is _GRANTED:
        return append_grant(
            draft, record, body, request.analyst, (ledger, after), verdict, identity
        )
    if verdict.outcome.reserves:
        return append_reserved(
            draft, record, request, claim.claim, body, (ledger, after), verdict, identity
        )
    if verdict.outcome.waits:
        return append_pending(draft, record, request, body, after, verdict, identity)
    decision = ledger_decision(draft, record, msgspec.Raw(body), after, verdict, NOTHING_MORE)
    encoded = draft.append(decision, record.key, request.analyst)
    draft.put(after)
    remember(draft, identity, encoded, decision.cost)
    return encoded


def _append_invalid(draft: Draft, record: Input, body: bytes, wrong: FieldError) -> EncodedDecision:
    """Append `invalid`, with the body only if the decision can then be decoded again.

    Its control characters become escapes, so that no reader of the log gets them raw.
    """
    reason, body = Reason.INVALID_FIELD, escape_control_json(body)
    if len(body) > MAX_BYTES:
        return append_decision(draft, record, Outcome.INVALID, reason, error=wrong)
    sequence, head = draft.sequence, draft.head_bytes
    raw = msgspec.Raw(body)
    encoded = append_decision(draft, record, Outcome.INVALID, reason, error=wrong, request=raw)
    try:
        if bytes(decode_decision(encoded.value).request) == body:
            return encoded
    except msgspec.MsgspecError:
        pass
    draft.sequence, draft.head_bytes = sequence, head
    return append_decision(draft, record, Outcome.INVALID, reason, error=wrong)


def _missing(draft: Draft, request: Body) -> Reason | None:
    """Return why a record is refused on a dataset that is not open, None for one that may open."""
    return why_not_opened(draft, request) if isinstance(request, Open) else Reason.UNKNOWN_DATASET


def _decide_question(
    draft: Draft,
    record: Input,
    request: MechanismRequest,
    body: bytes,
    ledger: DatasetLedger,
    identity: Identity,
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
        approvals_of(draft),
    )
    ledgers, derived = (ledger, after), None if claim is None else Derived(claim.claim)
    if derived is not None and verdict.outcome is Outcome.GRANTED:
        return append_grant(
            draft, record, body, request.analyst, ledgers, verdict, identity, derived
        )
    if derived is not None and verdict.outcome.reserves:
        return append_reserved(
            draft, record, request, derived.claim, body, ledgers, verdict, identity, derived
        )
    if verdict.outcome.waits:
        return append_pending(draft, record, request, body, after, verdict, identity, derived)
    extra: dict[str, object] = {"error": error, "derived": derived}
    decision = ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    encoded = draft.append(decision, record.key, request.analyst)
    draft.put(after)
    remember(draft, identity, encoded, None)
    return encoded


def _decide_step(
    draft: Draft,
    record: Input,
    body: bytes,
    step: ReservationStep,
    ledger: DatasetLedger,
    identity: Identity,
) -> EncodedDecision:
    ledger = begin_decision(draft, ledger)
    if names_several(draft, step):
        results = decide_step_parts(draft, ledger, step)
        return _append_parts(draft, record, body, results, identity)
    after, verdict, extra, reservation = decide_reservation_step(draft, ledger, step)
    analyst = charged = None
    if reservation is not None and verdict.outcome.is_step:
        analyst = reservation.analyst  # a refused step is no request of theirs
        charged = charged_of(ledger, after)
    decision = ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    encoded = draft.append(decision, record.key, analyst, charged=charged)
    draft.put(after)
    remember(draft, identity, encoded, None)
    return encoded


def _decide_several(
    draft: Draft,
    record: Input,
    body: bytes,
    checked: CheckedInput,
    request: MechanismRequest,
    identity: Identity,
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
    identity: Identity,
    analyst: str | None = None,
) -> EncodedDecision:
    """Append one decision over several datasets.

    Args:
        analyst: of a request; of a step, the reservation says whose it is.
    """
    raw = msgspec.Raw(body)
    decisions = [
        ledger_decision(draft, record, raw, each.after, each.verdict, each.fields)
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
    remember(draft, identity, encoded, None)
    return encoded


def _refuse_missing(
    draft: Draft,
    record: Input,
    body: bytes,
    checked: CheckedInput,
    identity: Identity,
    reason: Reason,
    refused_by: str | None = None,
) -> EncodedDecision:
    """Refuse a request that no ledger can decide."""
    encoded = append_uncharged(
        draft, record, checked, body, Outcome.REFUSED, reason, refused_by=refused_by
    )
    remember(draft, identity, encoded, None)
    return encoded
