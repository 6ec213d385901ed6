"""Where the demo's ledger is: a file, or a real Kafka that is started for it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from accountant.errors import LedgerFault
from streams.errors import Unavailable
from streams.files.temporary_directories import DEMO, temporary_directory

_STOP_S: Final = 15
_LOG_BYTES: Final = 2000


@contextmanager
def ledger_file(path: Path | None) -> Iterator[str]:
    """Yield the address of a ledger's file, a temporary one unless a path is given.

    Nothing is kept of a temporary one, checkpoints neither.
    """
    if path is not None:
        yield f"sqlite:///{path.resolve()}"
        return
    os.environ["ACCOUNTANT_CHECKPOINTS"] = "off"
    with temporary_directory(DEMO) as directory:
        yield f"sqlite:///{directory}/ledger.db"


@contextmanager
def local_kafka() -> Iterator[str]:
    """Start a one-node Kafka, make the topics, start a worker, and yield the address.

    Raises: KafkaUnavailable, BrokerError: the broker cannot be had or does not start.
    """
    from streams.testing import LocalBroker

    for name in [each for each in os.environ if each.startswith("ACCOUNTANT_KAFKA_")]:
        del os.environ[name]  # of a user's own brokers; this one is open to all
    with LocalBroker() as broker:
        url = f"kafka://{broker.bootstrap}"
        command = [sys.executable, "-m", "streams.cli"]
        subprocess.run(  # noqa: S603 (our own command)
            [*command, "topics", "create", "--url", url],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with tempfile.TemporaryFile() as log_file:
            worker = subprocess.Popen(  # noqa: S603
                [*command, "worker", "--url", url, "--metrics-port", "0"],
                stdout=log_file,
                stderr=log_file,
            )
            try:
                yield url
            except LedgerFault as error:
                if worker.poll() is None:
                    raise
                log_file.seek(0)
                end = log_file.read().decode(errors="replace")[-_LOG_BYTES:]
                raise Unavailable(f"the worker ended:\n{end}") from error
            finally:
                _end(worker)


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        worker.kill()
