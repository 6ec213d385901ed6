"""An answer is the answer to a question: what a client compares before it believes a decision.

A proxy or a cache may answer with a decision that is real, and another's.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, Decision, decode_decision
from accountant.records.outcomes import Outcome, Reason
from streams.client.requests import PreparedRequest, Unanswered, unanswered

MOST_REMEMBERED: Final = 100_000
"""Requests of which a client remembers that they were granted, or were not answered."""
_SPACE: Final = b" \t\r\n"

_Key = tuple[str, str, str]


class _RequestKey(msgspec.Struct):
    """Whose request a decision is on, of whatever kind it is."""

    dataset: str = ""
    request_id: str = ""
    analyst: str = ""
    by: str = ""


_decode_key: Final = msgspec.json.Decoder(_RequestKey).decode
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Matching:
    """What one client remembers of its questions; any thread may call it."""

    def __init__(self) -> None:
        self._granted: dict[_Key, object] = {}
        self._unanswered: dict[_Key, bytes] = {}

    def check(self, call: PreparedRequest, decision: Decision) -> None:
        """Check that a decision is the answer to a call.

        Raises: Unanswered: it is on another request, or grants this one a second time.
        """
        other = _difference(call, decision)
        if other is not None:
            raise unanswered(call, f"the answer is {other}: does a proxy or a cache mix them up?")
        if decision.outcome is Outcome.GRANTED:
            self._check_first_grant(call)

    def first(self, call: PreparedRequest, repeat: Decision, record: bytes) -> Decision:
        """Return the decision that a call's own repeat names as the first.

        Raises: Unanswered: the record is another one, or was a grant of this client before.
        """
        decision = decode_decision(record)
        if repeat.first is None or repeat.first.hash != hash_of(record):
            raise unanswered(call, "the answer to the lookup is not the decision that was repeated")
        self.check(call, decision)
        return decision

    def check_lookup(self, dataset: str, who: str, request_id: str, decision: Decision) -> None:
        """Check that a decision is the one that was looked up.

        Raises: Unanswered: it is on another request, or on another body than this client sent.
        """
        body = bytes(decision.request).strip(_SPACE)
        try:
            asked = _decode_key(body)
        except DECODE_ERRORS:
            asked = _RequestKey()
        names = (asked.dataset, asked.analyst or asked.by, asked.request_id)
        if decision.dataset != dataset or names != (dataset, who, request_id):
            what = "the answer is a decision on another request: does a proxy mix them up?"
        elif self._unanswered.get(names, body) != body:
            what = "the id was used for another request before: the answer is the decision on that"
        else:
            return
        then = f"; ask again with request_id {request_id}, which is never charged twice"
        raise Unanswered(what, then, request_id)

    def not_answered(self, call: PreparedRequest) -> None:
        """Remember what was sent, for the lookup of its decision."""
        self._unanswered[call.dataset, call.who, call.request_id] = call.body.strip(_SPACE)
        _bound(self._unanswered)

    def _check_first_grant(self, call: PreparedRequest) -> None:
        own = object()
        key = call.dataset, call.who, call.request_id
        if self._granted.setdefault(key, own) is not own:
            raise Unanswered(
                "the answer grants an id that this client was granted before",
                ": nothing runs a second time for it. Ask with a new id; that is charged again",
                call.request_id,
            )
        _bound(self._granted)


def _bound(remembered: dict[_Key, object] | dict[_Key, bytes]) -> None:
    if len(remembered) > MOST_REMEMBERED:
        remembered.pop(next(iter(remembered)), None)


def _difference(call: PreparedRequest, decision: Decision) -> str | None:
    """Return what else than the answer to a call a decision is, None if it is that answer."""
    invalid = decision.outcome is Outcome.INVALID
    request = bytes(decision.request).strip(_SPACE)
    if not request and not invalid and decision.reason is not Reason.HALTED:
        return f"`{decision.outcome}` without the request that it is on"
    if decision.dataset != call.dataset and not (invalid and decision.dataset is None):
        return "a decision on another dataset"
    body = call.body.strip(_SPACE)
    if not request or request == body:
        return None
    return f"a decision on another request, of another {_fields_that_differ(request, body)}"


def _fields_that_differ(request: bytes, body: bytes) -> str:
    theirs, ours = _members(request), _members(body)
    names = [
        name
        for name in dict.fromkeys((*ours, *theirs))
        if bytes(ours.get(name, b"")) != bytes(theirs.get(name, b""))
    ]
    return ", ".join(names[:4]) or "form"
