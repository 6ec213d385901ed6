"""Sends each ledger's newest checkpoint to places outside of its machine, a task for each place.

    who keeps checkpoints          the place's thread
    ---------------------          ------------------
    kept, then take() ---------->  step: half the interval after the last one that it has sent,
                                   put the newest; where that fails, again after a pause

Only what was kept is sent, so what was signed after its commit. A place that hangs holds up its
own thread and nothing else: `take` waits for nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accountant.errors import LedgerFault
from streams.background import THREADS, Background
from streams.evidence.note import Checkpoint
from streams.evidence.sinks import Place
from streams.logs import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE_S: Final = 1.0
_SLOW_S: Final = 15.0  # topics and webhooks give up before
_STOP_S: Final = 5.0


@dataclass(slots=True)
class _Partition:
    """What a place is to be sent of one partition. Times are seconds of a steady clock.

    Attributes:
        newest: the newest checkpoint that the place does not have, with its note.
        since: since when the place has lacked one.
        due: when to try next.
        pause: after the next failure.
        failed: why the last try did.
    """

    newest: tuple[Checkpoint, bytes] | None = None
    since: float = 0.0
    due: float = 0.0
    pause: float = _FIRST_PAUSE_S
    failed: str | None = None


class Sender:
    """Sends to one place.

    Args:
        number: of the place, from 1, as settings list them.
        seconds: within which a checkpoint is to be there.
        slow: seconds of one try after which the place is said to hang.
        background: calls the steps.
    """

    def __init__(
        self,
        place: Place,
        number: int,
        seconds: float,
        *,
        slow: float = _SLOW_S,
        background: Background = THREADS,
    ) -> None:
        self.place = place
        self.number = number
        self._seconds = seconds
        self._slow = slow
        self._lock = threading.Lock()
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._trying_since: float | None = None
        self._steady = background.steady
        self._runner = background.runner(self, f"checkpoint-place-{number}")

    @property
    def trouble(self) -> str | None:
        """Why the place lacks a checkpoint, in words."""
        with self._lock:
            failed = (each.failed for each in self._partitions.values())
            why = next((each for each in failed if each is not None), None)
            since = self._trying_since
        if since is not None and self._steady() - since > self._slow:
            why = f"{self.place.name} hangs"
        return None if why is None else f"checkpoint place {self.number}: {why}"

    @property
    def overdue(self) -> float:
        """For how many seconds longer than the interval the place has lacked a checkpoint."""
        with self._lock:
            lacking = [each for each in self._partitions.values() if each.newest is not None]
            since = min((each.since for each in lacking), default=None)
        return 0.0 if since is None else max(0.0, self._steady() - since - self._seconds)

    def take(self, checkpoint: Checkpoint, note: bytes) -> None:
        """Have a checkpoint sent that was kept, instead of an older one of its partition."""
        with self._lock:
            part = self._partitions.setdefault(
                (checkpoint.ledger, checkpoint.partition), _Partition()
            )
            if part.newest is None:
                part.since = self._steady()
            elif _order(checkpoint) < _order(part.newest[0]):
                return  # whoever had the partition before has kept its last one late
            part.newest = checkpoint, note
        self._runner.wake()

    def end(self) -> None:
        """Try once more to send what is left, and end; wait for nothing."""
        self._runner.stop()

    def join(self, within: float) -> None:
        """Wait for the end, so many seconds at most."""
        self._runner.join(within)

    def step(self) -> float | None:
        """Send the checkpoint that is due first, if it is."""
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
        """Try once more to send what is left."""
        left = [part for part in self._partitions.values() if part.newest is not None]
        for part in left:
            self._send(part)
            if part.failed is not None:  # nor would the others get there
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
                part.since = begun  # of one that has come meanwhile
            else:
                part.due = self._steady() + min(part.pause, self._seconds / 2)
                part.pause *= 2
        told = {"place": self.number, "where": self.place.name, "partition": sent[0].partition}
        if failed is not None and before is None:
            _log.warning("checkpoint_place_trouble", **told, why=failed, then="decisions go on")
        if failed is None and before is not None:
            _log.info("checkpoint_place_back", **told)

    def _put(self, checkpoint: Checkpoint, note: bytes) -> str | None:
        """Try once; return why it failed."""
        try:
            self.place.put(checkpoint, note)
        except LedgerFault as error:
            return str(error)
        except Exception as error:  # else the thread would end, and nobody be told
            return f"{self.place.name}: {type(error).__name__}"
        return None


class Senders(Collector):
    """Sends to each of some places, and tells a scrape how late they are.

    Args:
        seconds, background: as of `Sender`.
    """

    def __init__(
        self, places: Iterable[Place], seconds: float, *, background: Background = THREADS
    ) -> None:
        self._steady = background.steady
        self._senders = [
            Sender(place, i, seconds, background=background) for i, place in enumerate(places, 1)
        ]

    @property
    def notes(self) -> list[str]:
        """What a person should know, for `/readyz`."""
        return [each for sender in self._senders if (each := sender.trouble) is not None]

    def take(self, checkpoint: Checkpoint, note: bytes) -> None:
        """As `Sender.take`, for each place."""
        for sender in self._senders:
            sender.take(checkpoint, note)

    def close(self, within: float = _STOP_S) -> None:
        """Try once more to send what is left, for so many seconds in all."""
        until = self._steady() + within
        for sender in self._senders:
            sender.end()
        for sender in self._senders:
            sender.join(until - self._steady())

    def collect(self) -> Iterator[Metric]:
        overdue = GaugeMetricFamily(
            "privacy_checkpoint_place_overdue_seconds",
            "For how much longer than the interval a place has lacked a kept checkpoint.",
            labels=["place", "kind"],
        )
        for sender in self._senders:
            overdue.add_metric([str(sender.number), sender.place.kind], sender.overdue)
        yield overdue


def _order(checkpoint: Checkpoint) -> tuple[int, int]:
    return checkpoint.branch, checkpoint.sequence
