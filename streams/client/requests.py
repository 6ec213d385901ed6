"""What clients send: bodies made once, so that every retry has the same bytes."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final, NamedTuple, cast
from uuid import UUID

import msgspec
from msgspec import UNSET

from accountant.claims import Claim
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from accountant.records import (
    VERSION,
    Decision,
    MechanismRequest,
    Open,
    Source,
    encode,
)
from accountant.records.coerce import coerce_claim, coerce_id, coerce_text, optional_text
from accountant.records.inputs import Checked, Undecodable, canonical, check, check_body
from accountant.records.outcomes import Outcome, Reason
from accountant.times import issued_at, uuid7
from streams.clock import Clock
from streams.errors import Unavailable


class Unanswered(Unavailable):
    """A call got no decision; whether it will be decided is unknown.

    Attributes:
        request_id: to ask again with: that is never charged twice.
        why: what happened, without what to do about it.
    """

    def __init__(self, why: str, then: str, request_id: str) -> None:
        super().__init__(f"{why}{then}")
        self.why = why
        self.request_id = request_id


def error_text(error: BaseException) -> str:
    """Return what an error says, its type's name if that is nothing."""
    return str(error) or type(error).__name__


class ScopedClaim(NamedTuple):
    """A claim with the unit and the neighbouring relation that it holds for, as engines state it.

    Attributes:
        unit: of privacy, such as `person`.
    """

    claim: Claim
    unit: str
    neighbours: Neighbours


class PreparedRequest(NamedTuple):
    """One body, checked, and where its decision can be looked up.

    Attributes:
        caller: the analyst, or the owner.
        opens: it opens a dataset, so that a ledger may be made for it.
        checked: what the body asks for, where that is known of the body as a whole, which is
            canonical then.
        fresh: the id was made for this very call, so that a repeat is its own.
    """

    source: Source
    body: bytes
    dataset: str
    caller: str
    request_id: str
    opens: bool = False
    checked: Checked | None = None
    fresh: bool = False

    def is_own_repeat(self, decision: Decision) -> bool:
        """Tell whether this call's own retry has made a decision a repeat."""
        return self.fresh and decision.outcome is Outcome.REPEATED


class _RecordType(msgspec.Struct):
    type: str


_decode_kind = msgspec.json.Decoder(_RecordType).decode


def body_source(body: bytes) -> Source:
    """Return which input a body is meant for, by its `type`.

    Raises: Undecodable: it is no JSON object with a `type`.
    """
    try:
        return "requests" if _decode_kind(body).type == "request" else "admin"
    except (msgspec.MsgspecError, RecursionError):
        what = "the body must be a JSON object with a field `type`"
        raise Undecodable(Reason.UNDECODABLE, what) from None


def prepare_body(body: bytes) -> PreparedRequest:
    """Return the call that a body is.

    Raises: Undecodable, RequestInvalid.
    """
    body = canonical(body)
    source: Source = "requests"
    try:
        checked = check(source, body)  # which nothing but a request passes
    except (Undecodable, RequestInvalid):
        source = body_source(body)
        if source == "requests":
            raise
        checked = check(source, body)
    request = checked.body
    opens = isinstance(request, Open)
    return PreparedRequest(
        source, body, request.dataset, checked.caller, request.request_id, opens, checked
    )


def new_id(clock: Clock) -> str:
    """Return a new request id: a UUIDv7 of this moment."""
    return uuid7(clock.now(), os.urandom(10))


class RequestDraft(NamedTuple):
    """A request whose unit, neighbouring relation and analyst may still be unknown.

    Attributes:
        analyst: None for the name that the server knows the client by.
        unit, neighbours: those of the dataset's policy where they are None.
        request_id: of an earlier call, or made for this one.
        fresh: it was made for this one.
        via: the engine that asks for the analyst, None where there is none.
    """

    dataset: str
    claim: str | Claim
    analyst: str | None
    purpose: str
    unit: str | None
    neighbours: Neighbours | None
    request_id: str
    fresh: bool
    via: str | None = None

    def prepare(
        self, unit: str = "person", neighbours: Neighbours = "add_remove"
    ) -> PreparedRequest:
        """Return the call that asks to run one mechanism.

        Args:
            unit, neighbours: where none were given.
        Raises: RequestInvalid.
        """
        assert self.analyst is not None
        before, after = _split_at_id(
            self.dataset,
            self.claim,
            self.analyst,
            self.purpose,
            self.unit or unit,
            self.neighbours or neighbours,
            self.via,
        )
        if issued_at(self.request_id) is None:
            rule = "must be a UUID of version 7, lower case"
            raise RequestInvalid("request_id", rule, self.request_id)
        body = before + self.request_id.encode() + after
        return PreparedRequest(
            "requests", body, self.dataset, self.analyst, self.request_id, fresh=self.fresh
        )

    def check(self) -> None:
        """Check every field that is known by now.

        Raises: RequestInvalid.
        """
        self._replace(analyst=self.analyst or PLACEHOLDER_NAME).prepare()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to find out before it can be sent."""
        return None not in (self.analyst, self.unit, self.neighbours)


PLACEHOLDER_NAME: Final = "somebody"
"""A placeholder, replaced by a name before the request is sent."""
ANALYST_VARIABLE: Final = "ACCOUNTANT_ANALYST"
_ANY_ID: Final = "00000000-0000-7000-8000-000000000000"


@lru_cache(maxsize=1024)
def _split_at_id(
    dataset: str,
    claim: str | Claim,
    analyst: str,
    purpose: str,
    unit: str,
    neighbours: Neighbours,
    via: str | None,
) -> tuple[bytes, bytes]:
    """Return a checked body's bytes before and after its id: notebooks ask alike, often."""
    if isinstance(claim, str):
        try:
            claim = parse_claim(claim)
        except RequestInvalid as error:
            raise (error if error.field == "claim" else error.under("claim")) from None
    request = MechanismRequest(
        version=VERSION,
        request_id=_ANY_ID,
        analyst=analyst,
        dataset=dataset,
        claim=claim,
        unit=unit,
        neighbours=neighbours,
        purpose=purpose,
        via=UNSET if via is None else via,
    )
    body = encode(request)
    check_body("requests", body)
    # The id stands before all that a caller chose, so its first place is the right one.
    before, _, after = body.partition(_ANY_ID.encode())
    return before, after


def draft_request(
    dataset: str,
    claim: object,
    analyst: str | None,
    purpose: str,
    unit: str | None,
    neighbours: Neighbours | None,
    request_id: str | UUID | None,
    via: str | None,
    *,
    clock: Clock,
    needs_analyst: bool,
) -> RequestDraft:
    """Return a request, checked as far as it is known.

    Args:
        claim: whatever a program gives for one.
        clock: dates the id of a new request.
        needs_analyst: no server knows the client's name.
    Raises: RequestInvalid.
    """
    if isinstance(claim, ScopedClaim):
        for field, argument, engines in (
            ("unit", unit, claim.unit),
            ("neighbours", neighbours, claim.neighbours),
        ):
            if argument is not None and argument != engines:
                raise RequestInvalid(field, f"must be {engines}, as the engine states", argument)
        claim, unit, neighbours = claim
    else:
        claim = coerce_claim(claim)
    if analyst is None and via is not None:
        rule = "must be given where an engine asks, as `via` says"
        raise RequestInvalid("analyst", rule, analyst)
    if analyst is None and needs_analyst:
        rule = f"must be given to the call, to the client, or as {ANALYST_VARIABLE}"
        raise RequestInvalid("analyst", rule, analyst)
    draft = RequestDraft(
        coerce_text("dataset", dataset),
        claim,
        analyst,
        coerce_text("purpose", purpose),
        optional_text("unit", unit),
        cast("Neighbours | None", optional_text("neighbours", neighbours)),
        new_id(clock) if request_id is None else coerce_id(request_id),
        request_id is None,
        via,
    )
    if not draft.is_complete:
        draft.check()
    return draft


def default_analyst(analyst: object) -> str | None:
    """Return the analyst that a client was made with, else the environment's.

    Raises: RequestInvalid: it is no text.
    """
    return optional_text("analyst", analyst or os.environ.get(ANALYST_VARIABLE) or None)


def undecided_error(call: PreparedRequest, wait: float) -> Unanswered:
    """Return the error of a call that was taken in, but not decided in time."""
    return Unanswered(
        f"not decided within {wait:g} s",
        f": look it up by decision({call.dataset!r}, {call.caller!r}, {call.request_id!r}), or ask "
        "again with that request_id",
        call.request_id,
    )


def unanswered_error(call: PreparedRequest | RequestDraft, why: str) -> Unanswered:
    """Return the error of a call of which nothing is known."""
    return Unanswered(
        why,
        f"; ask again with request_id {call.request_id}, which is never charged twice",
        call.request_id,
    )
