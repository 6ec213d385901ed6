"""A decision and its alerts as server-sent events, each with the position after it as its id."""

from __future__ import annotations

from typing import NamedTuple

from accountant.partition.ids import decode_identity
from accountant.records import DECODE_ERRORS, check_maker, decode_decision, encode
from accountant.records.header import decode_header
from accountant.views.alerts import (
    alerts_of_decision,
    limit_alerts_of_decision,
    may_alert,
    may_alert_of_limits,
)
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
from streams.service import LedgerService


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
    """

    __slots__ = ("_alerts", "_encoded", "_line", "_value", "after", "before", "number", "partition")

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
        self.before = before
        self._line = line
        self._value = value
        self._alerts: tuple[Alert, ...] = ()
        self._encoded: bytes | None = None

    @classmethod
    async def of(
        cls, service: LedgerService, partition: int, value: bytes, before: Position
    ) -> LogEvent:
        """Return a decision with its alerts.

        Raises: Unavailable: the decision does not follow `before`, or cannot be read.
        """
        made = cls(partition, value, before)
        if made.number != before.numbers[partition] + 1:
            raise Unavailable(
                f"partition {partition}: decision {made.number} follows {before.numbers[partition]}"
            )
        line = made._line
        if line.dataset is None:
            return made
        at_levels = may_alert_of_limits(line.outcome, line.levels)
        if at_levels or may_alert(line.outcome, line.crossed):
            view = await service.dataset(line.dataset)
            if view is None:
                raise Unavailable(f"dataset {line.dataset} is not shown yet")
            decision = decode_decision(value)
            made._alerts = alerts_of_decision(decision, view)
            if at_levels:
                levels = await service.levels(line.dataset)
                made._alerts += tuple(limit_alerts_of_decision(decision, view, levels))
        return made

    @property
    def dataset(self) -> str | None:
        """The decision's dataset, None without one."""
        return self._line.dataset

    def encoded(
        self, wanted: EventFilter, *, sent: int = 0, access: DatasetAccess | None = WHOLE
    ) -> bytes:
        """Return the events for a client, without the first `sent`.

        Clients without a filter who see all share one encoding.

        Args:
            access: the client's access to the dataset; None without any.
        """
        if access is None:
            return b""
        if wanted != EVERYTHING or sent or not access.sees_all:
            return b"".join(self._events(wanted, sent, access))
        if self._encoded is None:
            self._encoded = b"".join(self._events(wanted, 0, access))
        return self._encoded

    def _events(self, wanted: EventFilter, sent: int, access: DatasetAccess) -> list[bytes]:
        if wanted.dataset is not None and wanted.dataset != self._line.dataset:
            return []
        found = list[bytes]()
        is_shown = sees_decision(access, self._line) and self._is_of(wanted.analyst)
        for number, event in enumerate((None, *self._alerts), 1):
            if number <= sent:
                continue
            if not (is_shown if event is None else sees_alert(access, event)):
                continue
            is_last = number > len(self._alerts)
            place = self.after if is_last else self.before.within(self.partition, number)
            if event is None:
                found.append(
                    _event(b"decision", redact_decision(access, self._line, self._value), place)
                )
            else:
                found.append(_event(b"alert", encode(event), place))
        return found

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
