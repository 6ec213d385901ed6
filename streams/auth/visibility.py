"""What the caller of a request sees."""

from __future__ import annotations

from accountant.views.visibility import Caller
from streams.auth.principal import principal_of
from streams.http.context import HttpRequest, context_of
from streams.visibility import Sight


def sight_of(request: HttpRequest) -> Sight:
    """Return what the caller of a request sees."""
    context = context_of(request)
    return Sight(context.service, context.clock, caller_of(request))


def caller_of(request: HttpRequest) -> Caller | None:
    """Return the authenticated caller, None where authentication is off.

    Raises: HTTPProblem: as `principal_of`.
    """
    who = principal_of(request)
    return None if who is None else Caller(who.name, who.administrator)
