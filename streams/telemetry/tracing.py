"""OpenTelemetry: spans of HTTP requests and of decided records. Imported only if it is on.

The standard OTEL_* variables configure the exporter. Spans have no names of people or datasets, no
paths, queries, tokens or bodies: a collector may belong to others.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from streams.errors import NotInstalled, needs_extra
from streams.settings import PREFIX, Settings
from streams.telemetry.trace_context import TraceContext

_CLOSE_S: Final = 5.0
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def check_tracing(settings: Settings) -> None:
    """Check that what the settings ask for is installed.

    Raises: NotInstalled: the extra is missing.
    """
    if not settings.opentelemetry:
        return
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise NotInstalled(
            needs_extra(f"setting {PREFIX}OPENTELEMETRY", "opentelemetry", "otel")
        ) from error


def start_tracing(settings: Settings) -> Tracing | None:
    """Return what makes spans, None if the settings do not ask for it.

    Raises: NotInstalled: the extra is missing.
    """
    check_tracing(settings)
    return Tracing() if settings.opentelemetry else None


class Tracing:
    """Makes spans and sends them to a collector, in a thread of its own."""

    def __init__(self) -> None:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        named = Resource.create({SERVICE_NAME: "accountant"})
        self._provider = TracerProvider(
            resource=named.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("streaming-privacy-accountant")
        self._trace = trace

    def begin_request(self, method: str, parent: TraceContext | None) -> RequestSpan:
        """Begin the span of an HTTP request.

        Args:
            parent: of the client; None begins a trace.
        """
        known = method if method in _METHODS else "_OTHER"
        span = self._tracer.start_span(
            known,
            context=self._context_of(parent),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": known},
        )
        return RequestSpan(span, known)

    def add_decision(
        self,
        parent: TraceContext,
        *,
        began_ns: int,
        ended_ns: int,
        attributes: dict[str, str | int],
    ) -> None:
        """Make the span of a record that was read from Kafka and decided.

        Args:
            parent: of the record's producer.
            began_ns, ended_ns: nanoseconds since 1970.
        """
        span = self._tracer.start_span(
            "decide",
            context=self._context_of(parent),
            kind=self._trace.SpanKind.CONSUMER,
            attributes={"messaging.system": "kafka", **attributes},
            start_time=began_ns,
        )
        span.end(ended_ns)

    def _context_of(self, parent: TraceContext | None) -> Any:
        from opentelemetry.context import Context

        if parent is None:
            return Context()
        remote = self._trace.SpanContext(
            int(parent.trace_id, 16),
            int(parent.parent_id, 16),
            is_remote=True,
            trace_flags=self._trace.TraceFlags(int(parent.flags, 16)),
        )
        return self._trace.set_span_in_context(self._trace.NonRecordingSpan(remote), Context())

    def close(self) -> None:
        """Send what waits, for at most five seconds: the collector may be away."""
        closing = threading.Thread(target=self._provider.shutdown, name="tracing", daemon=True)
        closing.start()
        closing.join(_CLOSE_S)


class RequestSpan:
    """The span of one HTTP request.

    Attributes:
        context: what the next hop gets, None if OpenTelemetry is disabled by OTEL_SDK_DISABLED.
    """

    def __init__(self, span: Any, method: str) -> None:
        self._span = span
        self._method = method
        found = span.get_span_context()
        self.context = (
            TraceContext(
                f"{found.trace_id:032x}", f"{found.span_id:016x}", f"{found.trace_flags:02x}"
            )
            if found.is_valid
            else None
        )

    def end(self, *, request_id: str, route: str | None, status: int | None) -> None:
        """End the span.

        Args:
            route: the path's template, None where no route was reached.
            status: of the response, None if none was sent.
        """
        from opentelemetry.trace import Status, StatusCode

        if route is not None:
            self._span.update_name(f"{self._method} {route}")
            self._span.set_attribute("http.route", route)
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        self._span.set_attribute("accountant.http_request_id", request_id)
        if status is None or status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
