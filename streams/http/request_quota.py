"""The rate limit that applies to a request. Each further line of a batch is charged to it too."""

from __future__ import annotations

from typing import Any, Final, Protocol

from litestar import Request, Response

KEY: Final = "accountant.quota"
"""The key of a request's scope for its quota; without one no limit applies."""


class RequestQuota(Protocol):
    """The rate limit of one caller or address."""

    def charge(self) -> Response[bytes] | None:
        """Count one more request; return 429 if it exceeds the limit."""
        ...


def quota_of(request: Request[Any, Any, Any]) -> RequestQuota | None:
    """Return the limit that a request was counted in, None if no limit applies to it."""
    found: RequestQuota | None = request.scope.get(KEY)  # type: ignore[assignment]
    return found
