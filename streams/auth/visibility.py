"""The visibility of a request's caller."""

from __future__ import annotations

from accountant.views.visibility import Caller
from streams.auth.principal import principal_of
from streams.http.context import HttpRequest, context_of
from streams.visibility import Visibility


def visibility_of(request: HttpRequest) -> Visibility:
    """Return what the caller of a request may see."""
    context = context_of(request)
    return Visibility(context.service, context.clock, caller_of(request))


def caller_of(request: HttpRequest) -> Caller | None:
    """Return the authenticated caller, None where authentication is off.

    Raises: HTTPProblem: as `principal_of`.
    """
    caller = principal_of(request)
    return None if caller is None else Caller(caller.name, caller.administrator)
