"""Checks that a decision is the response to the request that the client sent.

A proxy or a cache may return a real decision that belongs to another request.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, Decision, decode_decision
from accountant.records.openings import with_members_only
from accountant.records.outcomes import Outcome, Reason
from accountant.records.parts import about
from streams.client.requests.requests import PreparedRequest, Unanswered, unanswered_error

MAX_REMEMBERED: Final = 100_000
"""How many granted and how many unanswered requests a client remembers."""
_SPACE: Final = b" \t\r\n"

_Key = tuple[str, str, str]


class _RequestKey(msgspec.Struct):
    """The fields that identify a request or an admin request."""

    dataset: str = ""
    request_id: str = ""
    analyst: str = ""
    by: str = ""


_decode_key: Final = msgspec.json.Decoder(_RequestKey).decode
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class ResponseMatcher:
    """Compares decisions with the requests that one client sent. Thread-safe."""

    def __init__(self) -> None:
        self._granted: dict[_Key, object] = {}
        self._unanswered: dict[_Key, bytes] = {}

    def check(self, call: PreparedRequest, decision: Decision) -> None:
        """Check that a decision belongs to a call.

        Raises: Unanswered: it is for another request, or grants this one a second time.
        """
        other = _difference(call, decision)
        if other is not None:
            raise unanswered_error(
                call, f"the response is {other}: a proxy or a cache may mix up responses"
            )
        if decision.outcome.allows_run:
            self._check_first_grant(call)

    def first(self, call: PreparedRequest, repeat: Decision, record: bytes) -> Decision:
        """Return the first decision on a call whose own retry was answered as a repeat.

        Raises: Unanswered: the record is another decision, or this client has used the grant.
        """
        decision = decode_decision(record)
        if repeat.first is None or repeat.first.hash != hash_of(record):
            raise unanswered_error(
                call, "the lookup returned another decision than the repeated one"
            )
        self.check(call, decision)
        return decision

    def check_lookup(self, dataset: str, caller: str, request_id: str, decision: Decision) -> None:
        """Check that a lookup returned the decision on the requested id.

        Raises: Unanswered: it is for another request, or for another body than the client sent.
        """
        body = bytes(decision.request).strip(_SPACE)
        names = _names_in(body)
        if names != (dataset, caller, request_id):
            body = decision.input_body.strip(_SPACE)
            names = _names_in(body)
        if about(decision, dataset).dataset != dataset or names != (dataset, caller, request_id):
            what = "the response is a decision on another request: a proxy may mix up responses"
        elif not _is_of(body, self._unanswered.get(names, body)):
            what = "the id was used for another request before, and the decision is on that request"
        else:
            return
        then = f". Ask again with request_id {request_id}: it is never charged twice"
        raise Unanswered(what, then, request_id)

    def remember_unanswered(self, call: PreparedRequest) -> None:
        """Remember the body that was sent, to compare a later lookup with it."""
        self._unanswered[call.dataset, call.caller, call.request_id] = call.body.strip(_SPACE)
        _trim(self._unanswered)

    def _check_first_grant(self, call: PreparedRequest) -> None:
        own = object()
        key = call.dataset, call.caller, call.request_id
        if self._granted.setdefault(key, own) is not own:
            raise Unanswered(
                "the response grants an id that this client has already used",
                ". Nothing runs a second time. Ask with a new id, which is charged again",
                call.request_id,
            )
        _trim(self._granted)


def _names_in(body: bytes) -> _Key:
    try:
        asked = _decode_key(body)
    except DECODE_ERRORS:
        return "", "", ""
    return asked.dataset, asked.analyst or asked.by, asked.request_id


def _trim(remembered: dict[_Key, object] | dict[_Key, bytes]) -> None:
    if len(remembered) > MAX_REMEMBERED:
        remembered.pop(next(iter(remembered)), None)


def _difference(call: PreparedRequest, decision: Decision) -> str | None:
    """Describe a decision that does not belong to a call; None if it does."""
    invalid = decision.outcome is Outcome.INVALID
    request = _input_of(call, decision)
    if not request and not invalid and decision.reason is not Reason.HALTED:
        return f"`{decision.outcome}` without its request"
    of_dataset = about(decision, call.dataset).dataset
    if of_dataset != call.dataset and not (invalid and decision.dataset is None):
        return "a decision on another dataset"
    body = call.body.strip(_SPACE)
    if not request or _is_of(request, body):
        return None
    return f"a decision on a request with another {_differing_fields(request, body)}"


def _input_of(call: PreparedRequest, decision: Decision) -> bytes:
    """Return the record that a call must be: an owner's, or the request that it answers."""
    request = bytes(decision.request).strip(_SPACE)
    if _is_of(request, call.body.strip(_SPACE)):
        return request
    return decision.input_body.strip(_SPACE)


def _is_of(request: bytes, sent: bytes) -> bool:
    """Tell whether a decided body is the one that was sent, as a server may have completed it."""
    return request == sent or request == with_members_only(sent)


def _differing_fields(request: bytes, body: bytes) -> str:
    theirs, ours = _members(request), _members(body)
    names = [
        name
        for name in dict.fromkeys((*ours, *theirs))
        if bytes(ours.get(name, b"")) != bytes(theirs.get(name, b""))
    ]
    return ", ".join(names[:4]) or "form"
