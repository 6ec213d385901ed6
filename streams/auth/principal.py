"""The principal of a request: the authenticated caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from litestar import Request

from streams.http.problems import HTTPProblem
from streams.http.refusal import Refusal, refusal_response

KEY: Final = "accountant.principal"
"""The key of a request's scope for its caller; None is an unauthenticated caller."""

Kind = Literal["token", "oidc"]


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated person or program.

    Attributes:
        name: the `analyst`, `by` or `via` of the caller's records.
        kind: the kind of token: a static one, or one of the OpenID provider.
        administrator: whether ACCOUNTANT_ADMINISTRATORS names it.
    """

    name: str
    kind: Kind
    administrator: bool


@dataclass(frozen=True, slots=True)
class Scraper:
    """The bearer of the metrics token: it has no name and no role, and may read /metrics alone."""


SCRAPER: Final = Scraper()


def authenticates(request: Request[Any, Any, Any]) -> bool:
    """Tell whether authentication is on."""
    return request.app.state.get("authenticator") is not None


def principal_of(request: Request[Any, Any, Any]) -> Principal | None:
    """Return the caller, None only where authentication is off.

    Raises: HTTPProblem: the caller is unauthenticated, on one of the few public paths (401).
    """
    found = optional_principal(request)
    if found is None and authenticates(request):
        raise HTTPProblem(refusal_response(Refusal(401, "none")))
    return found


def optional_principal(request: Request[Any, Any, Any]) -> Principal | None:
    """Return the caller on a public path, None if unauthenticated."""
    found = request.scope.get(KEY)
    return found if isinstance(found, Principal) else None
