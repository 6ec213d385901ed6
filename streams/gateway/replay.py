"""`Prefer: replay=original`: the first decision in place of a repeat, for HTTP middleware.

Middleware that retries a POST hides the first response, so a program sees `granted: false` though
its request was granted. A replay is marked, since a program may already have seen the original:
a mechanism must not run on it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from accountant.partition import hash_of
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.inputs import CheckedInput
from accountant.records.outcomes import Outcome
from accountant.records.requests import MechanismRequest
from accountant.views.visibility import DatasetAccess, redact_decision, sees_decision
from streams.auth.principal import principal_of
from streams.auth.visibility import visibility_of
from streams.http.context import HttpRequest, context_of

HEADERS: Final = {"Preference-Applied": "replay=original", "Privacy-Replayed": "true"}
_REPLAY: Final = re.compile(
    r'(?:^|[,;\s])replay\s*=\s*(?:original|"original")\s*(?=$|[,;])', re.IGNORECASE
)


class _Repeat(msgspec.Struct):
    hash: str = ""


class _WithFirst(msgspec.Struct):
    first: _Repeat = msgspec.field(default_factory=_Repeat)


class OriginalDecision(NamedTuple):
    """The first decision on a request, as its caller may see it."""

    outcome: Outcome
    content: bytes


_decode_first = msgspec.json.Decoder(_WithFirst).decode


def asks_for_replay(prefer: str) -> bool:
    """Whether a request prefers the first decision to a repeat, by its header Prefer."""
    return _REPLAY.search(prefer) is not None


async def replay_of(
    request: HttpRequest, checked: CheckedInput, header: DecisionHeader, decision: bytes
) -> OriginalDecision | None:
    """Return the first decision on a repeated request, as the caller may see it.

    None for any other outcome, in particular a conflict; if the first decision is no longer known;
    or unless the caller sent the first request and sees all of its decision.

    Args:
        decision: the repeat, as in the log. `header`: its fields.
    """
    body = checked.body
    if not header.outcome.is_repeat or not isinstance(body, MechanismRequest):
        return None
    context = context_of(request)
    found = await context.service.find(body.dataset, checked.caller, body.request_id)
    if found is None or hash_of(found) != _decode_first(decision).first.hash:
        return None
    first = decode_header(found)
    access = _own_access(request, body)
    if access is None or bytes(first.request) != bytes(header.request):
        return None
    first, found = visibility_of(request).of_decision(body.dataset, found, first)
    if not sees_decision(access, first):
        return None
    return OriginalDecision(first.outcome, redact_decision(access, first, found))


def _own_access(request: HttpRequest, body: MechanismRequest) -> DatasetAccess | None:
    """Return the caller's access to a request's dataset; None if the request is not theirs."""
    caller = principal_of(request)
    if caller is not None and caller.name not in {body.analyst, body.via}:
        return None
    return visibility_of(request).at(body.dataset)
