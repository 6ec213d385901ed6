"""Requests of clients: each body is made once, so that every retry has the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import UNSET

from accountant.claims import Claim
from accountant.claims.text import parse_claim_on
from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from accountant.records import VERSION, Decision, Reserve, Source, encode
from accountant.records.coerce import coerce_claim, coerce_id, coerce_text, optional_text
from accountant.records.inputs import CheckedInput, Undecodable, canonical, check, check_body
from accountant.records.outcomes import Reason
from accountant.records.requests import Begin, MechanismRequest, Open, Settle, Void
from accountant.times import issued_at, uuid7
from streams.client.questions.asked_question import AskedQuestion
from streams.clock import Clock
from streams.engines.scoped_claim import ScopedClaim
from streams.error_words import meaning_of
from streams.errors import Unavailable
from streams.variables import read_variable

Datasets = str | Sequence[str]
"""The name of a dataset, or the names of several."""


class Unanswered(Unavailable):
    """A call got no decision; whether it is decided later is unknown.

    Attributes:
        request_id: to ask again with: it is never charged twice.
        why: what happened, without the next step.
    """

    def __init__(self, why: str, then: str, request_id: str) -> None:
        super().__init__(f"{why}{then}")
        self.why = why
        self.request_id = request_id


class Undecided(Unanswered):
    """The ledger accepted a call, and did not decide it in time."""


def error_text(error: BaseException) -> str:
    """Return the message of an error, or what it means if it has none."""
    return str(error) or meaning_of(error)


class PreparedRequest(NamedTuple):
    """A checked body, and the keys to look its decision up.

    Attributes:
        caller: the analyst, or the owner.
        opens: it opens a dataset, so the ledger's file may be created.
        checked: the decoded body, where the whole body was checked; the body is canonical then.
        fresh: the id was made for this call, so a repeat comes from its own retry.
        new: what the caller would be asked back is meant.
    """

    source: Source
    body: bytes
    dataset: str
    caller: str
    request_id: str
    opens: bool = False
    checked: CheckedInput | None = None
    fresh: bool = False
    new: bool = False

    @property
    def is_step(self) -> bool:
        """Whether it begins, settles or voids a reservation, which is charged already."""
        return self.checked is not None and isinstance(self.checked.body, Begin | Settle | Void)

    def is_own_repeat(self, decision: Decision) -> bool:
        """Whether a decision is a repeat that this call's own retry caused."""
        return self.fresh and decision.outcome.is_repeat


class _RecordType(msgspec.Struct):
    type: str


_decode_kind = msgspec.json.Decoder(_RecordType).decode
_REQUEST_TYPES: Final = frozenset({"request", "begin", "settle", "void"})


def body_type(body: bytes) -> str:
    """Return a body's `type`; "" if it has none that can be read."""
    try:
        return _decode_kind(body).type
    except (msgspec.MsgspecError, RecursionError):
        return ""


def body_source(body: bytes) -> Source:
    """Return the input that a body belongs to, by its `type`.

    Raises: Undecodable: it is not a JSON object with a `type`.
    """
    try:
        return "requests" if _decode_kind(body).type in _REQUEST_TYPES else "admin"
    except (msgspec.MsgspecError, RecursionError):
        what = "the body must be a JSON object with a field `type`"
        raise Undecodable(Reason.UNDECODABLE, what) from None


def prepare_body(body: bytes) -> PreparedRequest:
    """Check a body that the caller made.

    Raises: Undecodable, RequestInvalid.
    """
    body = canonical(body)
    source: Source = "requests"
    try:
        checked = check(source, body)  # fails for everything but a request
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


class OwnId(str):
    """An id that the caller made for one call: a repeat can only come from that call's retry."""

    __slots__ = ()


def is_fresh(request_id: object) -> bool:
    """Whether an argument `request_id` is for a new request: left out, or made for this call."""
    return request_id is None or isinstance(request_id, OwnId)


class RequestDraft(NamedTuple):
    """A request whose unit, neighbouring relation and analyst may still be unknown.

    Attributes:
        claim: or the question in its place.
        analyst: None for the name in the client's token.
        unit, neighbours: None for those of the dataset's policy.
        request_id: of an earlier call, or made for this one.
        fresh: the id was made for this call.
        via: the engine that asks for the analyst, if any.
        until: how long a reservation may take; None for a plain request.
        other_datasets: further ones that the mechanism reads.
    """

    dataset: str
    claim: str | Claim | AskedQuestion
    analyst: str | None
    purpose: str
    unit: str | None
    neighbours: Neighbours | None
    request_id: str
    fresh: bool
    via: str | None = None
    until: str | None = None
    other_datasets: tuple[str, ...] = ()

    def prepare(
        self, unit: str = "person", neighbours: Neighbours = "add_remove"
    ) -> PreparedRequest:
        """Return the checked request.

        Args:
            unit, neighbours: used where the draft has none.
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
            self.until,
            self.other_datasets,
        )
        if issued_at(self.request_id) is None:
            rule = "must be a UUID of version 7, lower case"
            raise RequestInvalid("request_id", rule, self.request_id)
        body = before + self.request_id.encode() + after
        return PreparedRequest(
            "requests", body, self.dataset, self.analyst, self.request_id, fresh=self.fresh
        )

    def check(self) -> None:
        """Check every field that is already known.

        Raises: RequestInvalid.
        """
        self._replace(analyst=self.analyst or PLACEHOLDER_NAME).prepare()

    @property
    def is_complete(self) -> bool:
        """Whether the draft has every field, so that it can be sent."""
        if isinstance(self.claim, AskedQuestion):  # the unit and neighbours are the policy's
            return self.analyst is not None
        return None not in (self.analyst, self.unit, self.neighbours)


PLACEHOLDER_NAME: Final = "somebody"
"""A placeholder, replaced by a name before the request is sent."""
BATCH_LINES: Final = 1_000
"""Requests that are sent together; a server accepts no more as one batch."""
_ASK_ARGUMENTS: Final = (
    *("dataset", "claim", "analyst", "purpose", "unit", "neighbours", "request_id", "via"),
)
T = TypeVar("T")
ANALYST_VARIABLE: Final = "ACCOUNTANT_ANALYST"
_ANY_ID: Final = "00000000-0000-7000-8000-000000000000"


def claim_value(claim: str | Claim, dataset: str = "") -> Claim:
    """Return a claim, parsed if it is text.

    Args:
        dataset: the name beside the claim, which may be the claim by mistake.
    Raises: RequestInvalid.
    """
    if not isinstance(claim, str):
        return claim
    try:
        return parse_claim_on(dataset, claim)
    except RequestInvalid as error:
        raise (error if error.field in {"claim", "dataset"} else error.under("claim")) from None


@lru_cache(maxsize=1024)
def _split_at_id(
    dataset: str,
    claim: str | Claim | AskedQuestion,
    analyst: str,
    purpose: str,
    unit: str,
    neighbours: Neighbours,
    via: str | None,
    until: str | None,
    other_datasets: tuple[str, ...],
) -> tuple[bytes, bytes]:
    """Return the bytes of a checked body before and after its id.

    Cached, because notebooks often ask for the same thing.
    """
    wish: dict[str, Any]
    if isinstance(claim, AskedQuestion):
        wish = {"question": claim.question, "noise": claim.noise, "stop": claim.stop}
    else:
        wish = {"claim": claim_value(claim, dataset), "unit": unit, "neighbours": neighbours}
    request = MechanismRequest(
        version=VERSION,
        request_id=_ANY_ID,
        analyst=analyst,
        dataset=dataset,
        **wish,
        purpose=purpose,
        via=UNSET if via is None else via,
        reserve=UNSET if until is None else Reserve(until),
        other_datasets=other_datasets or UNSET,
    )
    body = encode(request)
    check_body("requests", body)
    # The id comes before every field that a caller chooses, so its first occurrence is the id.
    before, _, after = body.partition(_ANY_ID.encode())
    return before, after


def draft_request(
    dataset: Datasets,
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
    """Return a request, checked as far as its fields are known.

    Args:
        dataset, claim: in any form that `ask` accepts.
        clock: dates the id of a new request.
        needs_analyst: no token names the analyst.
    Raises: RequestInvalid.
    """
    if isinstance(claim, ScopedClaim):
        for field, argument, engines in (
            ("unit", unit, claim.unit),
            ("neighbours", neighbours, claim.neighbours),
        ):
            if argument is not None and argument != engines:
                raise RequestInvalid(
                    field, f"must be {engines}, which the engine's claim is for", argument
                )
        claim, unit, neighbours = claim
    elif not isinstance(claim, AskedQuestion):
        claim = coerce_claim(claim)
    if analyst is None and via is not None:
        rule = "must be passed where an engine asks (`via`)"
        raise RequestInvalid("analyst", rule, analyst)
    if analyst is None and needs_analyst:
        rule = f"must be passed to the call or to the Accountant, or set as {ANALYST_VARIABLE}"
        raise RequestInvalid("analyst", rule, analyst)
    first, *others = [dataset] if isinstance(dataset, str) else _names(dataset)
    draft = RequestDraft(
        coerce_text("dataset", first),
        claim,
        analyst,
        coerce_text("purpose", purpose),
        optional_text("unit", unit),
        cast("Neighbours | None", optional_text("neighbours", neighbours)),
        new_id(clock) if request_id is None else coerce_id(request_id),
        is_fresh(request_id),
        via,
        until=claim.until if isinstance(claim, AskedQuestion) else None,
        other_datasets=tuple([coerce_text("other_datasets", name) for name in others]),
    )
    if not draft.is_complete:
        draft.check()
    return draft


def _names(datasets: object) -> Sequence[object]:
    if not isinstance(datasets, list | tuple) or not datasets:
        raise RequestInvalid("dataset", "must be a name, or a list of names", datasets)
    return datasets


def default_analyst(analyst: object) -> str | None:
    """Return the client's analyst, else the environment's.

    Raises: RequestInvalid: it is not text.
    """
    return optional_text("analyst", analyst or read_variable(os.environ, ANALYST_VARIABLE) or None)


def prepare_request_body(body: bytes) -> PreparedRequest:
    """Check the body of a mechanism request.

    Raises: Undecodable, RequestInvalid: also for an admin request.
    """
    call = prepare_body(body)
    if call.source != "requests":
        raise RequestInvalid("type", "must be request", body_type(body))
    return call


def ask_arguments(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return one of many requests as the arguments of `draft_request`.

    Raises: RequestInvalid: it has no dataset or claim, or another field than these.
    """
    if not isinstance(request, Mapping):
        raise RequestInvalid("request", "must be a dict of the arguments of `ask`", request)
    for name in request:
        if name not in _ASK_ARGUMENTS:
            rule = f"must be left out: the fields are {', '.join(_ASK_ARGUMENTS)}"
            raise RequestInvalid(str(name), rule, request[name])
    for name in ("dataset", "claim"):
        if name not in request:
            raise RequestInvalid(name, "must be passed", None)
    return dict(request)


def batches(requests: Iterable[T]) -> Iterator[list[T]]:
    """Split requests into lists that a server accepts as one batch."""
    rest = iter(requests)
    while batch := list(islice(rest, BATCH_LINES)):
        yield batch


def undecided_error(call: PreparedRequest, wait: float) -> Undecided:
    """Return the error for a call that was accepted, but not decided in time."""
    return Undecided(
        f"the ledger did not decide the request within {wait:g} s",
        f". Look it up with decision({call.dataset!r}, {call.caller!r}, {call.request_id!r}), or "
        "ask again with that request_id",
        call.request_id,
    )


def unanswered_error(call: PreparedRequest | RequestDraft, why: str) -> Unanswered:
    """Return the error for a call without an answer."""
    return Unanswered(
        why,
        f". Ask again with request_id {call.request_id}: it is never charged twice",
        call.request_id,
    )
