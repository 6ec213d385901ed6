"""Relay alerts from the log of decisions to the topic `alerts`: a consumer group of its own.

    decisions ---> the alerts of each ---> topic `alerts`, acknowledged ---> the group's offset

A process that is killed between two of these steps leaves the offset of the step before, so its
successor sends these alerts again, under the same ids and in the same order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final

from aiokafka import ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka import errors as kafka

from accountant.errors import LedgerFault, MadeByNewerVersion
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS
from accountant.records.header import decode_header
from accountant.views.datasets import Alert
from streams.alerts.alert_scan import AlertScan, may_have_alerts
from streams.alerts.alerts_topic import AlertTopicWriter
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.group_consumer import group_consumer
from streams.alerts.relay_start import RelayCursor, RelayStart, RelayStarts, encode_cursor
from streams.clock import steady
from streams.error_words import words_of
from streams.errors import JournalFault, Refused
from streams.kafka.deployment import Deployment
from streams.kafka.operate.acls.roles import RELAY_GROUP
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.fetch import UNREADABLE, fetch
from streams.kafka.wire.reader import stop
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_RETRY_S: Final = 1.0
_REFUSED_S: Final = 10.0
_POLL_MS: Final = 500
_AT_A_TIME: Final = 2_000  # decisions, about a kilobyte each
_COMMIT_S: Final = 5.0  # without alerts: a start reads the decisions since then again
_MOVED: Final = (kafka.CommitFailedError, kafka.IllegalStateError)


class _RelayedPartition:
    """One partition as far as it is relayed.

    Attributes:
        next: offset of the next record.
        newer: whether only a newer version can read on.
    """

    def __init__(self, number: int, start: RelayStart, offset: int) -> None:
        self._scan = AlertScan(number, start.branch)
        self._first = start.first
        self._sent = start.sent
        self._written = start.written
        self._last: tuple[int, bytes] | None = None  # offset and value
        self._is_skipping = start.first > 0
        self.next = offset
        self.committed_at = steady()
        self.newer = False

    def take(self, offset: int, value: bytes) -> list[Alert]:
        """Return the alerts of the next decision.

        Raises: DECODE_ERRORS, MadeByNewerVersion: it cannot be read.
        """
        if self._is_skipping:
            number = decode_header(value).partition_sequence
            if number < self._first:
                return []
            self._is_skipping = False
        alerts = self._scan.take(value)
        self._last = offset, value
        sent, self._sent = self._sent, frozenset()
        return [alert for alert in alerts if alert.alert_id not in sent]

    def follows(self, value: bytes) -> bool:
        """Tell whether a record continues this log, as far as its last decision is known.

        Raises: DECODE_ERRORS, MadeByOtherVersion: it cannot be read.
        """
        return self._last is None or decode_header(value).previous == hash_of(self._last[1])

    def skip(self, offset: int) -> None:
        """Go on at an offset, after records that cannot be read."""
        self.next, self._last = offset, None

    def wrote(self, first: int, last: int) -> bool:
        """Record where alerts were written; return whether that is after those before them."""
        follows, self._written = first > self._written, last
        return follows

    def cursor(self) -> RelayCursor | None:
        """Return what is done; None before the first decision."""
        if self._last is None:
            return None
        offset, value = self._last
        return RelayCursor(
            number=decode_header(value).partition_sequence,
            head=hash_of(value),
            offset=offset,
            branch=self._scan.branch,
            written=self._written,
        )


class AlertRelay(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka carries no types
    """Relays the alerts of the partitions that the group assigns to this worker.

    A decision that cannot be read is reported and counted as given up; those after it are relayed.
    One of a newer version stops its partition until a worker of that version relays it.

    Args:
        instance_id: of this worker, the same after a restart.
    """

    def __init__(
        self, deployment: Deployment, counts: AlertDeliveryMetrics, *, instance_id: str
    ) -> None:
        self._deployment = deployment
        self._counts = counts
        self._instance_id = instance_id
        self._group = f"{deployment.application}{RELAY_GROUP}"
        self._partitions: dict[TopicPartition, _RelayedPartition] = {}
        self._waiting = 0
        counts.waiting["topic"] = lambda: self._waiting

    async def run(self) -> None:
        """Relay until cancelled; start again after a fault."""
        while True:
            try:
                await self._relay()
            except LedgerFault as error:
                _log.warning("alerts_interrupted", why=str(error), then="retry")
                await asyncio.sleep(_REFUSED_S if isinstance(error, Refused) else _RETRY_S)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        for tp in revoked:
            self._partitions.pop(tp, None)
        self._waiting = 0

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Do nothing: the next turn finds where to start."""

    async def _relay(self) -> None:
        member = f"{self._instance_id}-alert-relay"
        consumer = group_consumer(self._deployment, self._group, member)
        consumer.subscribe([self._deployment.topics.decisions], listener=self)
        self._partitions.clear()
        try:
            async with (
                AlertTopicWriter(self._deployment) as writer,
                RelayStarts(self._deployment, self._group) as starts,
            ):
                with translate_errors():
                    await consumer.start()
                while True:
                    for tp in consumer.assignment() - self._partitions.keys():
                        await self._start(consumer, starts, tp)
                    with translate_errors():
                        got = await self._poll(consumer)
                    for tp, records in got.items():
                        await self._pass_on(consumer, writer, tp, records)
        finally:
            await stop(consumer)

    async def _start(self, consumer: Any, starts: RelayStarts, tp: TopicPartition) -> None:
        try:
            start = await starts.find(consumer, tp)
        except MadeByNewerVersion as error:
            self._move_to(consumer, tp, RelayStart(), 0)
            self._stop_at(consumer, tp, error)
            return
        except JournalFault:
            if tp in consumer.assignment():
                raise
            return  # it has moved meanwhile
        offset = start.offset
        if offset is None:
            with translate_errors():
                offset = (await consumer.beginning_offsets([tp]))[tp]
                found = (await consumer.offsets_for_times({tp: start.since}))[tp]
                offset = offset if found is None or not start.first else found.offset
        self._move_to(consumer, tp, start, offset)

    def _move_to(self, consumer: Any, tp: TopicPartition, start: RelayStart, offset: int) -> None:
        if tp in consumer.assignment():
            self._partitions[tp] = _RelayedPartition(tp.partition, start, offset)
            consumer.seek(tp, offset)
            consumer.resume(tp)

    async def _poll(self, consumer: Any) -> dict[TopicPartition, list[ConsumerRecord]]:
        started = [tp for tp in consumer.assignment() if tp in self._partitions]
        if not started:
            await asyncio.sleep(_POLL_MS / 1000)
            return {}
        try:
            got: dict[TopicPartition, list[ConsumerRecord]] = await consumer.getmany(
                *started, timeout_ms=_POLL_MS, max_records=_AT_A_TIME
            )
        except UNREADABLE:
            return {tp: some for tp in started if (some := await self._next_ones(consumer, tp))}
        return got

    async def _next_ones(self, consumer: Any, tp: TopicPartition) -> list[ConsumerRecord]:
        """Return a partition's records before a batch that the client cannot read; skip that one.

        No worker writes such a batch, and a worker that reads it stops deciding. Its records are
        not relayed: a raw read does not tell whether they were committed.
        """
        found: list[ConsumerRecord] = []
        position = self._partitions[tp].next
        consumer.seek(tp, position)
        while len(found) < _AT_A_TIME:
            try:
                # One by one, since an error loses those that were fetched with it.
                got = await consumer.getmany(tp, timeout_ms=_POLL_MS, max_records=1)
            except UNREADABLE as error:
                batch = await fetch(consumer, tp, position, most=1)
                if batch.records:
                    lost = sum(may_have_alerts(each.value or b"") for each in batch.records)
                    self._report_unreadable(tp, batch.records[0].offset, error, lost)
                if batch.next is not None:
                    position = batch.next
                    consumer.seek(tp, position)
                continue
            if not got:
                break
            found += got[tp]
            position = found[-1].offset + 1
        return found

    def _stop_at(self, consumer: Any, tp: TopicPartition, error: MadeByNewerVersion) -> None:
        """Relay a partition no further: a worker of a newer version has to."""
        _log.error("alerts_not_relayed", partition=tp.partition, why=str(error))
        if tp in self._partitions:
            self._partitions[tp].newer = True
            consumer.pause(tp)

    def _report_unreadable(
        self, tp: TopicPartition, offset: int, error: Exception, lost: int = 1
    ) -> None:
        self._counts.add("topic", "given_up", lost)
        _log.error(
            "alerts_of_unreadable_decision",
            partition=tp.partition,
            offset=offset,
            why=words_of(error),
            then="later alerts are sent",
        )

    async def _pass_on(
        self,
        consumer: Any,
        writer: AlertTopicWriter,
        tp: TopicPartition,
        records: Sequence[ConsumerRecord],
    ) -> None:
        """Send the alerts of some records, then commit that this is done."""
        partition = self._partitions.get(tp)
        if partition is None or partition.newer:
            return
        if records[0].offset < partition.next or not _continues(partition, records[0]):
            _log.warning("log_is_another", partition=tp.partition, then="relay from the fork")
            del self._partitions[tp]
            return
        found: list[Alert] = []
        for record in records:
            try:
                found += partition.take(record.offset, record.value or b"")
            except MadeByNewerVersion as error:
                self._stop_at(consumer, tp, error)
                break
            except (LedgerFault, *DECODE_ERRORS) as error:
                self._report_unreadable(tp, record.offset, error)
                partition.skip(record.offset + 1)
            partition.next = record.offset + 1
        if found:
            self._waiting = len(found)
            try:
                where = await writer.append(tp.partition, found)
            except LedgerFault:
                self._counts.add("topic", "failed", len(found))
                raise
            self._counts.add("topic", "delivered", len(found))
            self._waiting = 0
            if not partition.wrote(*where):
                await self._begin_again(consumer, tp)
                return
        if found or steady() - partition.committed_at >= _COMMIT_S:
            await self._commit(consumer, tp, partition.next, partition.cursor())
            partition.committed_at = steady()

    async def _begin_again(self, consumer: Any, tp: TopicPartition) -> None:
        """Send all alerts of a partition again: the topic was created again meanwhile."""
        _log.warning("alerts_relayed_again", partition=tp.partition, why="the topic is another")
        with translate_errors():
            offset = (await consumer.beginning_offsets([tp]))[tp]
        await self._commit(consumer, tp, offset, RelayCursor())
        self._move_to(consumer, tp, RelayStart(), offset)

    async def _commit(
        self, consumer: Any, tp: TopicPartition, offset: int, cursor: RelayCursor | None
    ) -> None:
        if cursor is None:
            return
        try:
            with translate_errors():
                await consumer.commit({tp: (offset, encode_cursor(cursor).decode())})
        except JournalFault as error:
            if not isinstance(error.__cause__, _MOVED):
                raise
            # Another worker has the partition now, and sends these alerts again.
            self._partitions.pop(tp, None)


def _continues(partition: _RelayedPartition, record: ConsumerRecord) -> bool:
    try:
        return partition.follows(record.value or b"")
    except (LedgerFault, *DECODE_ERRORS):
        return True  # it is reported where it is read
