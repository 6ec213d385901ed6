"""What supervisors and Prometheus ask."""

from __future__ import annotations

from litestar import Response, get

from accountant.records import encode
from streams.gateway.context import HttpRequest, context_of
from streams.gateway.problems import JSON
from streams.metrics.registry import exposition


@get("/healthz", tags=["monitoring"])
async def healthz() -> Response[bytes]:
    """Tell that this process answers."""
    return Response(encode({"alive": True}), media_type=JSON)


@get("/readyz", tags=["monitoring"])
async def readyz(request: HttpRequest) -> Response[bytes]:
    """Tell whether requests are being decided, and if not (503), why.

    Of a ledger on Kafka: whether this gateway follows the decisions, whoever makes them.
    """
    state = context_of(request).service.readiness()
    body = encode({"ready": state.ready, "reasons": list(state.reasons)})
    return Response(body, media_type=JSON, status_code=200 if state.ready else 503)


@get("/metrics", tags=["monitoring"], sync_to_thread=True)
def metrics(request: HttpRequest) -> Response[bytes]:
    """Return every metric for Prometheus."""
    text, content_type = exposition(context_of(request).registry, request.headers.get("accept", ""))
    return Response(text, media_type=content_type)
