"""What supervisors and Prometheus ask, of a gateway and of a worker alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry

from accountant.records import encode
from streams.auth.principal import authenticates, optional_principal
from streams.http.problems import JSON
from streams.http.refusal import forbidden
from streams.metrics.registry import exposition
from streams.service import Readiness

_CLOSED: Final = "nobody is let in: the file of tokens cannot be used, this door's log says why"


@get("/healthz", tags=["monitoring"])
async def healthz() -> Response[bytes]:
    """Tell that this process answers."""
    return Response(encode({"alive": True}), media_type=JSON)


def health(
    readiness: Callable[[], Readiness], *, needs_tokens: bool = True
) -> list[HTTPRouteHandler]:
    """Return the handlers of /healthz and /readyz.

    Args:
        readiness: what /readyz tells.
        needs_tokens: nothing is decided while nobody can be let in; a worker decides on.
    """

    @get("/readyz", tags=["monitoring"])
    async def readyz(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Tell whether requests are being decided, and if not (503), why.

        Of a ledger on Kafka: whether this gateway follows the decisions, whoever makes them.
        Where a door knows who asks, strangers are told `ready` alone, and whether nobody can be
        let in.
        """
        state, authenticator = readiness(), request.app.state.get("authenticator")
        is_closed = authenticator is not None and await authenticator.rejects_everybody()
        is_ready = state.ready and not (is_closed and needs_tokens)
        body: dict[str, object] = {"ready": is_ready}
        if is_closed:
            body["reasons" if needs_tokens else "notes"] = [_CLOSED]
        elif not authenticates(request) or optional_principal(request) is not None:
            body["reasons"] = list(state.reasons)
            if state.notes:
                body["notes"] = list(state.notes)
        return Response(encode(body), media_type=JSON, status_code=200 if is_ready else 503)

    return [healthz, readyz]


def monitoring(
    registry: CollectorRegistry, readiness: Callable[[], Readiness], *, needs_tokens: bool = True
) -> list[HTTPRouteHandler]:
    """Return the handlers of /healthz, /readyz and /metrics.

    Args:
        registry: what /metrics shows.
        readiness, needs_tokens: as of `health`.
    """

    @get("/metrics", tags=["monitoring"], sync_to_thread=True)
    def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Return every metric for Prometheus."""
        authenticator = request.app.state.get("authenticator")
        if authenticator is not None and not authenticator.may_read_metrics(
            optional_principal(request)
        ):
            what = "metrics are for administrators and those named by a setting"
            raise forbidden(request, "metrics", what)
        text, content_type = exposition(registry, request.headers.get("accept", ""))
        # As a header: Litestar would put a second charset behind a media type's own.
        return Response(text, headers={"Content-Type": content_type})

    return [*health(readiness, needs_tokens=needs_tokens), metrics]
