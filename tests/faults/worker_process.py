"""`accountant worker` in a process of its own, to be killed and paused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.ledger import Ledger
from tests.forks import commands
from tests.patience import PATIENCE_S

STARTS = ("streams.cli", "streams.worker.app")

W = TypeVar("W", bound="WorkerProcess")


def settings_of(ledger: Ledger) -> dict[str, str]:
    """Return where a ledger is, as every command's environment says it."""
    deployment = ledger.deployment
    return {
        "ACCOUNTANT_URL": f"kafka://{deployment.bootstrap}",
        "ACCOUNTANT_APPLICATION": deployment.application,
        "ACCOUNTANT_TOPIC_PREFIX": deployment.topics.prefix,
        "ACCOUNTANT_PARTITIONS": str(deployment.partitions),
        "ACCOUNTANT_PLACEMENT": deployment.placement,
    }


class WorkerProcess:
    """One worker as an operator runs it; its log spans all its starts.

    Args:
        ledger: what it decides.
        instance_id: its name in the group.
        directory: where its log goes.
        more: settings beside those that every worker of the ledger needs.
    """

    def __init__(self, ledger: Ledger, instance_id: str, directory: Path, **more: str) -> None:
        deployment = ledger.deployment
        self._log = directory / f"{instance_id}.log"
        self._environment = {
            **{name: os.environ[name] for name in os.environ if "ACCOUNTANT_" not in name},
            **settings_of(ledger),
            "ACCOUNTANT_WINDOW_MS": str(deployment.window_ms),
            "ACCOUNTANT_SKEW_MS": str(deployment.skew_ms),
            "ACCOUNTANT_INSTANCE_ID": instance_id,
            "ACCOUNTANT_METRICS_PORT": "0",
            "ACCOUNTANT_LOG_FORMAT": "json",
            **more,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start without waiting for anything."""
        with self._log.open("ab") as log:
            self._process = commands.start(
                "worker", env=self._environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self) -> None:
        """End it by SIGKILL. Safe to repeat."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> int:
        """End it by SIGTERM and return its exit code."""
        assert self._process is not None
        process, self._process = self._process, None
        process.terminate()
        return process.wait(PATIENCE_S)

    def pause(self) -> None:
        """Stop it by SIGSTOP."""
        assert self._process is not None
        commands.pause(self._process)

    def resume(self) -> None:
        """Resume it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def events(self, name: str, since: int = 0) -> list[dict[str, Any]]:
        """Return the log entries of a kind, from line `since` on."""
        found = []
        for line in self._log.read_text(errors="replace").splitlines()[since:]:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the line of a killed process
            if isinstance(entry, dict) and entry.get("event") == name:
                found.append(entry)
        return found

    def mark(self) -> int:
        """Return the number of log lines so far."""
        return len(self._log.read_text(errors="replace").splitlines())

    def log_tail(self, lines: int = 30) -> str:
        """Return the last lines of the log, for a test that fails."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def running(workers: Sequence[W]) -> Iterator[Sequence[W]]:
    """Start workers; at the end kill the running ones."""
    try:
        for each in workers:
            each.start()
        yield workers
    except BaseException:
        for each in workers:
            print(each.log_tail())
        raise
    finally:
        for each in workers:
            each.kill()
