"""Follows records from HTTP to their decision: reads the ids that a gateway put into headers.

The ids never reach `decide`: an input has no field for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from accountant.partition import Partition
from accountant.records import Source
from accountant.records.encoded_decision import EncodedDecision
from streams.clock import Clock, SystemClock
from streams.processing.observers import Committed
from streams.settings import Settings
from streams.telemetry.logs import ACCESS_LOGGER, get_logger
from streams.telemetry.trace_context import RequestIds, parse_ids
from streams.telemetry.tracing import Tracing

MAX_WAITING: Final = 20_000
"""Records with ids that are read and not decided; beyond it the oldest are forgotten."""
_MAX_HEADERS: Final = 20
"""Headers of a record that are read: any producer may send more."""
_NS_PER_MS: Final = 1_000_000

_log = get_logger(ACCESS_LOGGER)


class _Waiting(NamedTuple):
    ids: RequestIds
    read_at: int  # milliseconds since 1970


class RecordTracer:
    """An observer that logs, and traces, decisions on records that carry valid ids.

    Args:
        logs: write a line for each such decision.
        tracing: makes a span for each with a trace; None without OpenTelemetry.
        clock: times the spans.
    """

    def __init__(
        self, *, logs: bool, tracing: Tracing | None = None, clock: Clock | None = None
    ) -> None:
        self._logs = logs
        self._tracing = tracing
        self._clock = clock or SystemClock()
        self._waiting: dict[tuple[int, Source, int], _Waiting] = {}

    def received(
        self, partition: int, source: Source, offset: int, headers: Sequence[tuple[str, Any]]
    ) -> None:
        """Remember the ids of a record that was read. Its headers may be from anybody."""
        ids = parse_ids((name.encode(), value) for name, value in islice(headers, _MAX_HEADERS))
        if ids == RequestIds():
            return
        if len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[partition, source, offset] = _Waiting(ids, self._clock.now())

    def replayed(self, partition: Partition, seconds: float) -> None:
        """Do nothing: the inputs are read again."""

    def committed(self, committed: Committed) -> None:
        if not self._waiting:
            return
        number = committed.partition.genesis.partition
        for record, encoded in committed.records:
            found = self._waiting.pop((number, record.source, record.offset), None)
            if found is not None:
                self._follow(number, record.source, record.offset, encoded, found)

    def _follow(
        self, partition: int, source: Source, offset: int, encoded: EncodedDecision, found: _Waiting
    ) -> None:
        trace = found.ids.trace
        if self._logs:
            _log.info(
                "record_decided",
                partition=partition,
                source=source,
                offset=offset,
                partition_sequence=encoded.partition_sequence,
                dataset=encoded.dataset,
                outcome=encoded.outcome,
                reason=encoded.reason,
                http_request_id=found.ids.request_id,
                trace_id=None if trace is None else trace.trace_id,
            )
        if self._tracing is not None and trace is not None:
            self._tracing.add_decision(
                trace,
                began_ns=found.read_at * _NS_PER_MS,
                ended_ns=self._clock.now() * _NS_PER_MS,
                attributes={
                    "messaging.destination.partition.id": str(partition),
                    "messaging.kafka.offset": offset,
                    "accountant.partition_sequence": encoded.partition_sequence,
                    "accountant.outcome": str(encoded.outcome),
                },
            )

    def dropped(self, partition: int, error: BaseException | None) -> None:
        for key in [key for key in self._waiting if key[0] == partition]:
            del self._waiting[key]

    def halted(self, partition: int, error: BaseException) -> None:
        self.dropped(partition, error)


def record_tracer(settings: Settings, tracing: Tracing | None) -> RecordTracer | None:
    """Return the follower that the settings ask for, None if there is nothing to log or trace."""
    logs = settings.access_log in {"requests", "all"}
    return RecordTracer(logs=logs, tracing=tracing) if logs or tracing is not None else None
