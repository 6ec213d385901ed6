"""A collector of OpenTelemetry for tests: a real HTTP server that stores the spans it receives."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Listens on a free port of the loopback while its block runs.

    Attributes:
        raw: the bodies that it received.
    """

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        stored = self.raw

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/v1/traces":
                    stored.append(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def settings(self) -> dict[str, str]:
        """Return the variables that make a process send its traces here."""
        return {
            "ACCOUNTANT_OPENTELEMETRY": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def spans(self) -> list[dict[str, Any]]:
        """Return each span: name, ids as hexadecimal text, and attributes."""
        found = []
        for body in list(self.raw):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {each.key: each.value.string_value for each in resource.resource.attributes}
                found += [
                    {
                        "service": named["service.name"],
                        "name": span.name,
                        "trace": span.trace_id.hex(),
                        "span": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "attributes": {
                            each.key: each.value.string_value or each.value.int_value
                            for each in span.attributes
                        },
                        "failed": span.status.code == 2,
                        "ns": (span.start_time_unix_nano, span.end_time_unix_nano),
                    }
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
        return found
