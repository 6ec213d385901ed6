"""What a worker says where it does not start."""

from __future__ import annotations

import socket


def test_a_refused_start_ends_with_its_reason_and_no_traceback(accountant):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = accountant("worker", "--url", "kafka://127.0.0.1:9", "--metrics-port", port)
    assert done.code == 4
    assert "Traceback" not in done.err
    last = done.err.splitlines()[-1]
    assert last.startswith(f"error: cannot listen at 127.0.0.1 port {port}: ")
    assert last.endswith("another port by --metrics-port (ACCOUNTANT_METRICS_PORT)")
