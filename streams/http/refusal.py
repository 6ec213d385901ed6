"""What somebody is told who is not let in: that alone, whatever was wrong with the token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from litestar import Litestar, Request, Response
from prometheus_client import CollectorRegistry, Counter

from streams.http.problems import HTTPProblem, problem

ACTIONS: Final = ("request", "open", "amend", "close", "member", "read", "metrics")
"""What may be refused: a kind of record, or a look at something."""
_COUNTER: Final = "not_permitted"
_UNAVAILABLE_S: Final = 5


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nobody is let in by a header.

    Attributes:
        status: 401 for want of a token that holds, 503 where that cannot be told now.
        why: the reason in a word or two, for the door's log alone: an attacker learns nothing
            of what was nearly right.
        what: what the caller is told; of its own only where a `field` of what they sent is
            too long, which tells them nothing new.
    """

    status: Literal[401, 503]
    why: str
    what: str = "a token that this door knows is needed: `Authorization: Bearer TOKEN`"
    field: Literal["token", "subject"] | None = None


def told(refusal: Refusal) -> Response[bytes]:
    """Return the answer: the same for every reason but a token or a subject that is too long."""
    if refusal.status == 401:
        rule = refusal.what if refusal.field else ""
        headers = {"WWW-Authenticate": "Bearer"}
        what, field = refusal.what, refusal.field
        return problem(401, "unauthenticated", what, headers=headers, field=field, rule=rule)
    what = "the door cannot establish who asks at present; its log says why"
    headers = {"Retry-After": str(_UNAVAILABLE_S)}
    return problem(503, "authentication_unavailable", what, headers=headers)


def not_permitted(what: str, **more: Any) -> Response[bytes]:
    """Return the answer to somebody who is known, and may not."""
    return problem(403, "not_permitted", what, **more)


def count_refusals(app: Litestar, registry: CollectorRegistry) -> None:
    """Have a door count what it does not permit."""
    counter = Counter(
        "privacy_http_not_permitted",
        "Requests of somebody known who may not do that, by what it was.",
        ["action"],
        registry=registry,
    )
    for action in ACTIONS:  # a series that begins at 1 has not increased
        counter.labels(action)
    app.state[_COUNTER] = counter


def forbidden(request: Request[Any, Any, Any], action: str, what: str, **more: Any) -> HTTPProblem:
    """Return what to raise where somebody who is known may not do something.

    Args:
        action: one of `ACTIONS`.
    """
    counter = request.app.state.get(_COUNTER)
    if counter is not None:
        counter.labels(action).inc()
    return HTTPProblem(not_permitted(what, **more))
