"""Passes the trace of a program that uses OpenTelemetry on to the server."""

from __future__ import annotations

import sys

import httpx


async def add_trace(request: httpx.Request) -> None:
    """Add `traceparent` if the program is within a span of OpenTelemetry.

    The program has imported OpenTelemetry itself then: this never imports it first.
    """
    if "opentelemetry.trace" not in sys.modules or "traceparent" in request.headers:
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    # This propagator alone: others would send the program's baggage, too.
    TraceContextTextMapPropagator().inject(request.headers)
