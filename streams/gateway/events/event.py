"""A decision and its alerts as server-sent events, each with the position after it as its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from accountant.partition.ids import decode_identity
from accountant.records import DECODE_ERRORS, check_maker, encode
from accountant.records.header import decode_header
from accountant.records.parts import lines_by_dataset
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert
from accountant.views.visibility import (
    WHOLE,
    DatasetAccess,
    redact_decision,
    sees_alert,
    sees_decision,
)
from streams.errors import Unavailable
from streams.gateway.events.position import Position


class EventFilter(NamedTuple):
    """Selects the events of one client.

    Attributes:
        dataset: only events about this dataset.
        analyst: only decisions on this person's requests and admin requests. Alerts are sent in
            any case, since they belong to no analyst.
    """

    dataset: str | None = None
    analyst: str | None = None


EVERYTHING = EventFilter()


class LogEvent:
    """A decision and its alerts, encoded once for all clients.

    Attributes:
        partition, number: the decision's place in the log.
        before, after: the stream's position before and after it.

    Raises: Unavailable: the decision does not follow `before`, or cannot be read.
    """

    __slots__ = (
        *("_alerts", "_encoded", "_line", "_parts", "_value"),
        *("after", "before", "number", "partition"),
    )

    def __init__(self, partition: int, value: bytes, before: Position) -> None:
        try:
            line = decode_header(value)
            self.after = before.after(partition, line.partition_sequence, value, line.previous)
        except (*DECODE_ERRORS, ValueError) as error:
            check_maker(value)
            raise Unavailable(
                f"partition {partition}: a decision cannot be read: {error}"
            ) from None
        self.partition = partition
        self.number = line.partition_sequence
        if self.number != before.numbers[partition] + 1:
            raise Unavailable(
                f"partition {partition}: decision {self.number} follows {before.numbers[partition]}"
            )
        self.before = before
        self._line = line
        self._value = value
        self._parts = lines_by_dataset(line, value)
        self._alerts = alerts_of(line)
        self._encoded: bytes | None = None

    @property
    def datasets(self) -> tuple[str | None, ...]:
        """The decision's datasets; None alone where it has none."""
        return tuple([line.dataset for line, _ in self._parts])

    def encoded(
        self,
        wanted: EventFilter,
        *,
        sent: int = 0,
        access_of: Callable[[str | None], DatasetAccess | None] = lambda _: WHOLE,
    ) -> bytes:
        """Return the events for a client, without the first `sent`.

        Clients without a filter who see all share one encoding.

        Args:
            access_of: returns the client's access to a dataset; None without any.
        """
        accesses = {name: access_of(name) for name in self.datasets}
        if wanted.dataset is not None:
            accesses = {wanted.dataset: accesses.get(wanted.dataset)}
        seen = {name: access for name, access in accesses.items() if access is not None}
        if wanted != EVERYTHING or sent or not all(each.sees_all for each in seen.values()):
            return b"".join(self._events(wanted, sent, seen))
        if len(seen) < len(self.datasets):
            return b"".join(self._events(wanted, 0, seen))
        if self._encoded is None:
            self._encoded = b"".join(self._events(wanted, 0, seen))
        return self._encoded

    def _events(
        self, wanted: EventFilter, sent: int, seen: Mapping[str | None, DatasetAccess]
    ) -> list[bytes]:
        """Return the events for a client who sees these datasets.

        A decision is one event where all of its datasets are shown, else one for each that is.
        """
        events = [*self._decision_events(wanted, seen)]
        for alert in self._alerts:
            access = seen.get(alert.dataset)
            is_shown = access is not None and sees_alert(access, alert)
            events.append((b"alert", encode(alert)) if is_shown else None)
        found = list[bytes]()
        for number, event in enumerate(events, 1):
            if event is None or number <= sent:
                continue
            is_last = number == len(events)
            place = self.after if is_last else self.before.within(self.partition, number)
            found.append(_event(*event, place))
        return found

    def _decision_events(
        self, wanted: EventFilter, seen: Mapping[str | None, DatasetAccess]
    ) -> Iterator[tuple[bytes, bytes] | None]:
        shown = [
            access is not None and sees_decision(access, line) and self._is_of(wanted.analyst)
            for line, _ in self._parts
            for access in (seen.get(line.dataset),)
        ]
        if all(shown):
            access = seen[self.datasets[0]]
            yield b"decision", redact_decision(access, self._line, self._value)
            yield from [None] * (len(shown) - 1)
            return
        for (line, own), is_shown in zip(self._parts, shown, strict=True):
            event = (
                (b"decision", redact_decision(seen[line.dataset], line, own)) if is_shown else None
            )
            yield event

    def _is_of(self, analyst: str | None) -> bool:
        if analyst is None:
            return True
        try:
            return decode_identity(self._line.request).caller == analyst
        except DECODE_ERRORS:  # what was asked is no request
            return False


def _event(kind: bytes, data: bytes, place: Position) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (str(place).encode(), kind, data)


def alert_event(alert: Alert) -> bytes:
    """Return an alert from before the stream began: it has no position, so no id."""
    return b"event: alert\ndata: %s\n\n" % encode(alert)
