"""The visibility of a request's caller."""

from __future__ import annotations

from typing import Any, Final, cast

from accountant.views.visibility import Caller
from streams.auth.principal import principal_of
from streams.http.context import HttpRequest, context_of
from streams.service.visibility import Visibility

_KEY: Final = "accountant.visibility"


def visibility_of(request: HttpRequest) -> Visibility:
    """Return what the caller of a request may see.

    Raises: HTTPProblem: as `principal_of`.
    """
    # Kept in the scope: the caller of a request never changes, and it is looked up several times.
    found = request.scope.get(_KEY)
    if not isinstance(found, Visibility):
        context = context_of(request)
        found = Visibility(context.service, context.clock, caller_of(request))
        cast(Any, request.scope)[_KEY] = found
    return found


def caller_of(request: HttpRequest) -> Caller | None:
    """Return the authenticated caller, None where authentication is off.

    Raises: HTTPProblem: as `principal_of`.
    """
    caller = principal_of(request)
    return None if caller is None else Caller(caller.name, caller.administrator)
