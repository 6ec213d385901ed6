"""The receiver of Alertmanager's alerts in the demo: it prints a line for each, and answers GET /.

Environment: PORT (default 9095). In production this is a pager or a chat; see
deploy/alertmanager.
"""

from __future__ import annotations

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

MAX_BYTES: Final = 1 << 20
LABELS: Final = ("severity", "dataset", "owner", "topic", "partition", "instance")


def line(alert: dict[str, Any]) -> str:
    """Return one alert as a line: state, name, labels, summary, address of the runbook."""
    labels = alert.get("labels", {})
    notes = alert.get("annotations", {})
    named = [f"{name}={labels[name]}" for name in LABELS if labels.get(name)]
    words = [alert.get("status", "?"), labels.get("alertname", "?"), *named]
    return " ".join([*words, "|", notes.get("summary", ""), notes.get("runbook_url", "")]).rstrip()


class Receiver(BaseHTTPRequestHandler):
    """Accepts Alertmanager's webhook messages, version 4."""

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= MAX_BYTES:
            self.send_error(413 if size else 411)
            return
        try:
            message = json.loads(self.rfile.read(size))
            lines = [line(alert) for alert in message["alerts"]]
        except (ValueError, TypeError, KeyError, AttributeError):
            self.send_error(400)
            return
        for text in lines:
            print(text, flush=True)
        self._empty(200)

    def do_GET(self) -> None:
        self._empty(200)

    def _empty(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Do not log requests: the output is for the alerts."""


def main() -> None:
    """Serve until the process is ended."""
    port = int(os.environ.get("PORT", "9095"))
    with ThreadingHTTPServer(("", port), Receiver) as server:
        print(f"waiting for alerts at port {server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
