"""The decision that a request waits for approval, and that on an owner's answer to it."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import UNSET

from accountant.amounts import Units
from accountant.claims import Claim
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import Verdict, advance, refused_for
from accountant.members.permits import may_decide
from accountant.partition.approvals import (
    answer_refusal,
    answered_row,
    clock_of,
    first_of,
    pending_row,
    placed_row,
    update_of,
    with_pending,
)
from accountant.partition.decision_writer import (
    NOTHING_MORE,
    Identity,
    charged_of,
    ledger_decision,
    remember,
)
from accountant.partition.draft import Draft
from accountant.partition.judge import decide_question, decide_request
from accountant.partition.reservation_records import place, reserve
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input, check
from accountant.records.outcomes import Reason
from accountant.records.pending_rows import PendingRow
from accountant.records.records import Derived
from accountant.records.requests import Approve, Deny, MechanismRequest


def append_pending(
    draft: Draft,
    record: Input,
    request: MechanismRequest,
    body: bytes,
    advanced: DatasetLedger,
    verdict: Verdict,
    identity: Identity,
    derived: Derived | None = None,
) -> EncodedDecision:
    """Append the decision that a request waits, and put its row in the draft."""
    after = with_pending(advanced, 1)
    row = pending_row(after, request, body, draft.decided_at, draft.resets.number)
    extra: dict[str, object] = {"pending": update_of(row), "derived": derived}
    decision = ledger_decision(draft, record, msgspec.Raw(body), after, verdict, extra)
    encoded = draft.append(decision, record.key, request.analyst)
    draft.pending.put(placed_row(row, encoded))
    draft.put(after)
    remember(draft, identity, encoded, None)
    return encoded


def decide_answer(
    draft: Draft,
    record: Input,
    body: bytes,
    answer: Approve | Deny,
    ledger: DatasetLedger,
    identity: Identity,
) -> EncodedDecision:
    """Decide an owner's answer to a request that waits: as if the request were sent now.

    The decision that grants or denies it has the request where every decision has one, and the
    owner's record beside it. What an owner may not answer, and what does not fit now, is refused
    as their own record, and the request waits on.
    """
    at = draft.decided_at
    row = draft.pending.get(ledger.dataset, answer.pending)
    reason = answer_refusal(row, answer, clock_of(ledger, at), draft.resets.number)
    if not may_decide(ledger.plan.policy, partial(draft.members.get, ledger.dataset), answer, at):
        reason = Reason.NOT_PERMITTED
    if reason is not None or row is None:
        refused = refused_for(reason)
        return _append_answer(draft, record, body, advance(ledger, at), refused, identity)
    if isinstance(answer, Deny):
        denied = refused_for(Reason.DENIED)
        answered = row, answer
        return _append_answer(
            draft, record, body, advance(ledger, at), denied, identity, answered=answered
        )
    request, after, verdict, claim = _decide_as_now(draft, ledger, row)
    if not verdict.outcome.charges or claim is None:
        return _append_answer(draft, record, body, after, verdict, identity)
    extra: dict[str, object] = {
        "cost": verdict.cost,
        "asked": None,
        "levels": tuple([each.update for each in verdict.charged]),
        "derived": None if request.question is UNSET else Derived(claim),
    }
    new = None
    if verdict.outcome.reserves:
        clock = ledger.clock(at)
        after, more, new = reserve(ledger, after, request, claim, verdict, clock)
        extra |= more
    encoded = _append_answer(
        draft,
        record,
        body,
        after,
        verdict,
        identity,
        extra=extra,
        answered=(row, answer),
        charged=charged_of(ledger, after),
    )
    if new is not None:
        place(draft, (new,), encoded)
    for each in verdict.charged:
        draft.levels.put(each.after)
    return encoded


def _decide_as_now(
    draft: Draft, ledger: DatasetLedger, row: PendingRow
) -> tuple[MechanismRequest, DatasetLedger, Verdict, Claim | None]:
    """Return a request that waits, and the verdict on it as if it were sent and approved now."""
    checked = check("requests", bytes(row.body or b""))
    request = checked.body
    assert isinstance(request, MechanismRequest)
    levels = draft.levels if ledger.limits else None
    reserves, open_of = request.reserve is not UNSET, draft.reservations.open_of_holder
    at, resets, members = draft.decided_at, draft.resets, draft.members
    if checked.claim is not None:
        after, verdict = decide_request(
            *(ledger, request, checked.claim, members.get, levels, at, resets, reserves),
            *(draft.reservations, (), open_of),
        )
        return request, after, verdict, checked.claim.claim
    assert request.question is not UNSET
    assert request.noise is not UNSET
    after, verdict, claim, _ = decide_question(
        *(ledger, request, request.question, request.noise, members.get, members.of, levels),
        *(at, resets, reserves, open_of),
    )
    return request, after, verdict, None if claim is None else claim.claim


def _append_answer(
    draft: Draft,
    record: Input,
    body: bytes,
    after: DatasetLedger,
    verdict: Verdict,
    identity: Identity,
    *,
    extra: dict[str, object] = NOTHING_MORE,
    answered: tuple[PendingRow, Approve | Deny] | None = None,
    charged: Units | None = None,
) -> EncodedDecision:
    """Append the decision on an owner's answer, and keep it for repeats of what it answers."""
    request, analyst = msgspec.Raw(body), None
    if answered is not None:
        row, answer = answered
        request, analyst = msgspec.Raw(bytes(row.body or b"")), row.analyst
        extra = {**extra, "approval": msgspec.Raw(body), "pending": update_of(row, answer)}
    decision = ledger_decision(draft, record, request, after, verdict, extra)
    encoded = draft.append(decision, record.key, analyst, charged=charged)
    if answered is not None:
        draft.pending.put(answered_row(answered[0], first_of(encoded, decision.cost)))
    draft.put(after)
    remember(draft, identity, encoded, decision.cost)
    return encoded
