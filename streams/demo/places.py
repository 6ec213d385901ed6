"""Where the demo's ledger is: a file, or a real Kafka that is started for it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_STOP_S: Final = 15


@contextmanager
def ledger_file(path: Path | None) -> Iterator[str]:
    """Yield the address of a ledger's file, a temporary one unless a path is given."""
    if path is not None:
        yield f"sqlite:///{path.resolve()}"
        return
    with tempfile.TemporaryDirectory(prefix="accountant-demo-") as directory:
        yield f"sqlite:///{directory}/ledger.db"


@contextmanager
def local_kafka() -> Iterator[str]:
    """Start a one-node Kafka, make the topics, start a worker, and yield the address.

    Raises: KafkaUnavailable, BrokerError: the broker cannot be had or does not start.
    """
    from streams.testing import LocalBroker

    with LocalBroker() as broker:
        url = f"kafka://{broker.bootstrap}"
        command = [sys.executable, "-m", "streams.cli"]
        subprocess.run(  # noqa: S603 (our own command)
            [*command, "topics", "create", "--url", url],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        worker = subprocess.Popen(  # noqa: S603
            [*command, "worker", "--url", url, "--metrics-port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield url
        finally:
            worker.terminate()
            try:
                worker.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                worker.kill()
