"""Who asks: the name that a door has found proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from litestar import Request

from streams.http.problems import HTTPProblem
from streams.http.refusal import Refusal, told

KEY: Final = "accountant.principal"
"""Where a request's scope holds its principal, None for a stranger."""

Kind = Literal["token", "oidc"]


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or program that the door knows.

    Attributes:
        name: what bodies have as `analyst`, `by` or `via`.
        kind: by a token of the door's own, or by one of the provider's.
        administrator: the settings name it as one.
    """

    name: str
    kind: Kind
    administrator: bool


def authenticates(request: Request[Any, Any, Any]) -> bool:
    """Tell whether this door lets in only those who are known."""
    return request.app.state.get("authenticator") is not None


def principal_of(request: Request[Any, Any, Any]) -> Principal | None:
    """Return who asks, None only where authentication is off.

    Raises: HTTPProblem: a stranger, on one of the few paths that are open to strangers (401).
    """
    found = known(request)
    if found is None and authenticates(request):
        raise HTTPProblem(told(Refusal(401, "none")))
    return found


def known(request: Request[Any, Any, Any]) -> Principal | None:
    """Return who asks on a path that is open to strangers, None for one of them."""
    found = request.scope.get(KEY)
    return found if isinstance(found, Principal) else None
