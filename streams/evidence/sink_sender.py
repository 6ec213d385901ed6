"""Sends each ledger's newest checkpoint to sinks on other machines, with one task per sink.

    checkpointer                   the sink's thread
    ------------                   -----------------
    store, then take() --------->  step: half the interval after the last one sent, put the
                                   newest; after a failure, again after a pause

Only stored checkpoints are sent, so only ones signed after their commit. A sink that hangs blocks
its own thread and nothing else, since `take` does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accountant.errors import LedgerFault
from streams.error_words import meaning_of
from streams.evidence.signed_checkpoint import SignedHead
from streams.evidence.sinks import Sink
from streams.tasks.background import THREADS, Background
from streams.telemetry.logs import get_logger

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_log = get_logger(__name__)

_FIRST_PAUSE_S: Final = 1.0
_SLOW_S: Final = 15.0  # topics and webhooks give up before
_STOP_S: Final = 5.0


@dataclass(slots=True)
class _Partition:
    """What a sink lacks of one partition. Times are monotonic seconds.

    Attributes:
        newest: the newest checkpoint that the sink lacks, with its signed text.
        since: the time since when it has lacked one.
        due: the time of the next try.
        pause: the pause after the next failure.
        failed: the error of the last try.
    """

    newest: tuple[SignedHead, bytes] | None = None
    since: float = 0.0
    due: float = 0.0
    pause: float = _FIRST_PAUSE_S
    failed: str | None = None


class Sender:
    """Sends to one sink.

    Args:
        number: the sink's position in the setting, from 1.
        seconds: the time within which a checkpoint should arrive.
        slow: seconds after which one try counts as hanging.
        background: calls the steps.
    """

    def __init__(
        self,
        sink: Sink,
        number: int,
        seconds: float,
        *,
        slow: float = _SLOW_S,
        background: Background = THREADS,
    ) -> None:
        self.sink = sink
        self.number = number
        self._seconds = seconds
        self._slow = slow
        self._lock = threading.Lock()
        self._partitions: dict[str, _Partition] = {}  # by origin
        self._trying_since: float | None = None
        self._steady = background.steady
        self._runner = background.runner(self, f"checkpoint-place-{number}")

    @property
    def trouble(self) -> str | None:
        """Why the sink lacks a checkpoint, in words."""
        with self._lock:
            failed = (each.failed for each in self._partitions.values())
            why = next((each for each in failed if each is not None), None)
            since = self._trying_since
        if since is not None and self._steady() - since > self._slow:
            why = f"{self.sink.name} does not answer"
        return None if why is None else f"checkpoint sink {self.number}: {why}"

    @property
    def overdue(self) -> float:
        """Seconds by which the sink's next checkpoint is late."""
        with self._lock:
            lacking = [each for each in self._partitions.values() if each.newest is not None]
            since = min((each.since for each in lacking), default=None)
        return 0.0 if since is None else max(0.0, self._steady() - since - self._seconds)

    def take(self, checkpoint: SignedHead, signed_text: bytes) -> None:
        """Queue a stored checkpoint in place of an older one of its partition."""
        with self._lock:
            part = self._partitions.setdefault(checkpoint.origin, _Partition())
            if part.newest is None:
                part.since = self._steady()
            elif checkpoint.order < part.newest[0].order:
                return  # a late one from the partition's previous owner
            part.newest = checkpoint, signed_text
        self._runner.wake()

    def end(self) -> None:
        """Try once more to send the rest, then stop; does not wait."""
        self._runner.stop()

    def join(self, within: float) -> None:
        """Wait for the end, at most so many seconds."""
        self._runner.join(within)

    def step(self) -> float | None:
        """Send the first checkpoint that is due, if any."""
        with self._lock:
            waiting = [each for each in self._partitions.values() if each.newest is not None]
        first = min(waiting, key=lambda each: each.due, default=None)
        if first is None:
            return None
        if (pause := first.due - self._steady()) > 0:
            return pause
        self._send(first)
        return 0

    def finish(self) -> None:
        """Try once more to send the rest."""
        left = [part for part in self._partitions.values() if part.newest is not None]
        for part in left:
            self._send(part)
            if part.failed is not None:  # the others would fail, too
                return

    def _send(self, part: _Partition) -> None:
        """Try once to put the newest checkpoint of a partition."""
        with self._lock:
            if part.newest is None:
                return
            sent = part.newest
            self._trying_since = begun = self._steady()
        failed = self._put(*sent)
        with self._lock:
            self._trying_since = None
            before, part.failed = part.failed, failed
            if failed is None:
                part.due, part.pause = begun + self._seconds / 2, _FIRST_PAUSE_S
                part.newest = None if part.newest is sent else part.newest
                part.since = begun  # counts for a checkpoint that arrived meanwhile
            else:
                part.due = self._steady() + min(part.pause, self._seconds / 2)
                part.pause *= 2
        fields = {"place": self.number, "where": self.sink.name, "partition": sent[0].partition}
        if failed is not None and before is None:
            _log.warning("checkpoint_place_trouble", **fields, why=failed, then="decisions go on")
        if failed is None and before is not None:
            _log.info("checkpoint_place_back", **fields)

    def _put(self, checkpoint: SignedHead, signed_text: bytes) -> str | None:
        """Try once; return why it failed."""
        try:
            self.sink.put(checkpoint, signed_text)
        except LedgerFault as error:
            return str(error)
        except Exception as error:  # otherwise the thread would end silently
            return f"{self.sink.name}: {meaning_of(error)}"
        return None


class Senders:
    """Sends to several sinks, and exports how late each is.

    Args:
        seconds, background: as for `Sender`.
    """

    def __init__(
        self, sinks: Iterable[Sink], seconds: float, *, background: Background = THREADS
    ) -> None:
        self._steady = background.steady
        self._senders = [
            Sender(sink, i, seconds, background=background) for i, sink in enumerate(sinks, 1)
        ]

    @property
    def notes(self) -> list[str]:
        """Warnings for people, shown by `/readyz`."""
        return [each for sender in self._senders if (each := sender.trouble) is not None]

    def take(self, checkpoint: SignedHead, signed_text: bytes) -> None:
        """As `Sender.take`, for each sink."""
        for sender in self._senders:
            sender.take(checkpoint, signed_text)

    def close(self, within: float = _STOP_S) -> None:
        """Try once more to send the rest, for at most so many seconds."""
        until = self._steady() + within
        for sender in self._senders:
            sender.end()
        for sender in self._senders:
            sender.join(until - self._steady())

    def collect(self) -> Iterator[Metric]:
        """Return how late each sink is, as metrics."""
        from prometheus_client.core import GaugeMetricFamily

        overdue = GaugeMetricFamily(
            "privacy_checkpoint_place_overdue_seconds",
            "For how much longer than the interval a place has lacked a kept checkpoint.",
            labels=["place", "kind"],
        )
        for sender in self._senders:
            overdue.add_metric([str(sender.number), sender.sink.kind], sender.overdue)
        yield overdue
