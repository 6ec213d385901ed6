"""Requests that wait for an owner's approval, as people see them; nothing here decides."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET

from accountant.claims import Claim
from accountant.claims.text import claim_text
from accountant.field_rules import Count, Hash, Name, Note, RequestId, Time
from accountant.questions import Noise, Question, noise_text, question_text
from accountant.records.pending_rows import PendingRow
from accountant.records.requests import MechanismRequest
from accountant.times import iso


class PendingView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that waits for an owner's approval.

    Attributes:
        dataset, pending: hash of the decision `pending`, by which records name it.
        sequence: number of that decision in the dataset.
        analyst, via, request_id, purpose: of the request.
        claim: what it asks for; left out of a question.
        question, noise: what it asks of the data; left out of a claim.
        reserve: how long it would be reserved; left out of one that is no reservation.
        pending_at, until: since when it waits, and until when an owner may approve it.
    """

    dataset: Name
    pending: Hash
    sequence: Count
    analyst: Name
    via: Name | None = None
    request_id: RequestId
    purpose: Note = ""
    claim: Claim | None = None
    question: Question | None = None
    noise: Noise | None = None
    reserve: str | None = None
    pending_at: Time
    until: Time

    @property
    def asked(self) -> str:
        """What it asks for, as it is typed."""
        if self.question is not None and self.noise is not None:
            return f"{question_text(self.question)} ({noise_text(self.noise)})"
        return "" if self.claim is None else claim_text(self.claim)


decode_pending_views = msgspec.json.Decoder(tuple[PendingView, ...]).decode
_decode_request = msgspec.json.Decoder(MechanismRequest).decode


def pending_views(rows: Iterable[PendingRow], at: int, resets: int) -> tuple[PendingView, ...]:
    """Return the requests that wait, in the order of their decisions.

    Args:
        at: a time of the log. `resets`: how many times its clock has been set back.
    """
    waiting = sorted((row for row in rows if row.waits(at, resets)), key=lambda row: row.sequence)
    return tuple(map(_view, waiting))


def _view(row: PendingRow) -> PendingView:
    asked = _decode_request(row.body or b"")
    return PendingView(
        dataset=row.dataset,
        pending=row.pending,
        sequence=row.sequence,
        analyst=row.analyst,
        via=row.via or None,
        request_id=row.request_id,
        purpose=asked.purpose,
        claim=None if asked.claim is UNSET else asked.claim,
        question=None if asked.question is UNSET else asked.question,
        noise=None if asked.noise is UNSET else asked.noise,
        reserve=None if asked.reserve is UNSET else asked.reserve.until,
        pending_at=iso(row.pending_at),
        until=iso(row.deadline),
    )
