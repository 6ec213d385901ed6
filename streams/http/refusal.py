"""Answers for unauthenticated (401) and unauthorized (403) callers.

A 401 is the same whatever is wrong with the token: an attacker must not learn what was nearly
right. Only the server's log has the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from litestar import Litestar, Request, Response
from prometheus_client import CollectorRegistry, Counter

from accountant.records.kinds import KINDS
from streams.errors import TOKENS_UNCHECKED
from streams.http.problems import HTTPProblem, problem

ACTIONS: Final = (*(kind.name for kind in KINDS), "questions", "read", "metrics")
"""What a 403 refuses: a kind of record, an owner's look at questions that wait, or reading."""
_COUNTER: Final = "not_permitted"
_UNAVAILABLE_S: Final = 5


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not authenticated.

    Attributes:
        status: 401 without a valid token, 503 while validity cannot be checked.
        why: the reason in a word or two, for the server's log alone.
        what: the message to the caller; specific only where a `field` of theirs is too long,
            which reveals nothing new.
    """

    status: Literal[401, 503]
    why: str
    what: str = (
        "this server needs a valid token: send `Authorization: Bearer TOKEN`. If you did, the "
        "token may be expired, revoked, or incomplete"
    )
    field: Literal["token", "subject"] | None = None


def refusal_response(refusal: Refusal) -> Response[bytes]:
    """Return 401 or 503; one answer for every reason but a token or subject that is too long."""
    if refusal.status == 401:
        rule = refusal.what if refusal.field else ""
        headers = {"WWW-Authenticate": "Bearer"}
        what, field = refusal.what, refusal.field
        return problem(401, "unauthenticated", what, headers=headers, field=field, rule=rule)
    what = f"{TOKENS_UNCHECKED}: try again later. The server's log has the reason"
    headers = {"Retry-After": str(_UNAVAILABLE_S)}
    return problem(503, "authentication_unavailable", what, headers=headers)


def not_permitted(what: str, **more: Any) -> Response[bytes]:
    """Return 403: the caller is authenticated, and not allowed to do this."""
    return problem(403, "not_permitted", what, **more)


def count_refusals(app: Litestar, registry: CollectorRegistry) -> None:
    """Count 403 answers by action."""
    counter = Counter(
        "privacy_http_not_permitted",
        "Requests that authenticated callers were not allowed to make, by action.",
        ["action"],
        registry=registry,
    )
    # Start each series at 0: Prometheus sees no increase in a series that first appears as 1.
    for action in ACTIONS:
        counter.labels(action)
    app.state[_COUNTER] = counter


def forbidden(request: Request[Any, Any, Any], action: str, what: str, **more: Any) -> HTTPProblem:
    """Return the exception for a 403, and count it.

    Args:
        action: one of `ACTIONS`.
    """
    counter = request.app.state.get(_COUNTER)
    if counter is not None:
        counter.labels(action).inc()
    return HTTPProblem(not_permitted(what, **more))
