"""Where the relay of a partition's alerts starts: after what it has sent, on whatever log."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, Self

import msgspec
from aiokafka import TopicPartition

from accountant.errors import LogDamaged, MadeByNewerVersion
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, decode_decision
from accountant.times import from_iso
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert
from streams.alerts.alerts_topic import alerts_on
from streams.kafka.deployment import Deployment
from streams.kafka.log.decision_reader import KafkaDecisionReader
from streams.kafka.wire.brokers import Brokers
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.fetch import UNREADABLE
from streams.kafka.wire.group_offset import fetch_offset
from streams.kafka.wire.reader import consumer, stop
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_TIMEOUT_MS: Final = 6_000
_READ_S: Final = 15.0
_NOTHING: Final = -1


class RelayCursor(msgspec.Struct, frozen=True, kw_only=True):
    """What the relay of a partition has done, committed with the group's offset.

    Attributes:
        number, head: of the last decision whose alerts are on the topic, and its hash; -1 and ""
            before the first.
        offset: of its record.
        branch: of the log there.
        written: offset of the last batch on the topic `alerts`, -1 without one.
    """

    number: int = _NOTHING
    head: str = ""
    offset: int = _NOTHING
    branch: int = 0
    written: int = _NOTHING


encode_cursor: Final = msgspec.json.Encoder().encode
_decode_cursor: Final = msgspec.json.Decoder(RelayCursor).decode


class RelayStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where to start.

    Attributes:
        first: number of the first decision whose alerts are to be sent.
        offset: of its record, or one before it; None: look for it by `since`.
        since: the decision's time, milliseconds since 1970.
        branch: of the log before it.
        sent: ids of its alerts that are on the topic already.
        written: as in `RelayCursor`.
    """

    first: int = 0
    offset: int | None = None
    since: int = 0
    branch: int = 0
    sent: frozenset[str] = frozenset()
    written: int = _NOTHING


class RelayStarts:
    """Finds where to start: by the group's offset, by the topic `alerts`, or at the beginning.

    Neither is believed unless the log has the decision that it names. So an older copy of the log
    is read from the last decision that both logs have and that the topic names.
    """

    def __init__(self, deployment: Deployment, group: str) -> None:
        self._deployment = deployment
        self._group = group
        self._log = KafkaDecisionReader(deployment)
        self._brokers = Brokers(deployment.cluster, group, _TIMEOUT_MS)
        # Of the topic `alerts`: another client's open transaction does not hide its end.
        self._ends = consumer(deployment.cluster, committed=False)

    async def __aenter__(self) -> Self:
        try:
            with translate_errors():
                await self._brokers.connect()
                await self._ends.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect."""
        self._log.close()
        self._brokers.close()
        await stop(self._ends)

    async def find(self, member: Any, tp: TopicPartition) -> RelayStart:
        """Return where to start with a partition of the log.

        Args:
            member: the group's consumer that has the partition; its position moves.
        Raises: JournalFault, Refused; MadeByNewerVersion: a newer version has relayed it.
        """
        partition = tp.partition
        cursor = await self._cursor(tp)
        if cursor is not None:
            topic = TopicPartition(self._deployment.topics.alerts, partition)
            with translate_errors():
                end = (await self._ends.end_offsets([topic]))[topic]
            if cursor.written >= end:
                # What is on the new topic was sent in the middle of the old one: do not ask it.
                return _from_beginning(partition, "the topic of alerts was created again")
            if cursor.number == _NOTHING:
                return RelayStart(written=cursor.written)
            if await _has(member, tp, cursor):
                return RelayStart(
                    first=cursor.number + 1,
                    offset=cursor.offset + 1,
                    branch=cursor.branch,
                    written=cursor.written,
                )
            _log.warning("relayed_decision_not_in_log", partition=partition, number=cursor.number)
        named: dict[tuple[int, int], list[Alert]] = defaultdict(list)
        for alert in await alerts_on(self._deployment, partition):
            if alert.decision is not None and alert.decision.partition == partition:
                named[alert.decision.branch, alert.decision.number].append(alert)
        for (branch, number), alerts in sorted(named.items(), reverse=True):
            value = await self._decision(partition, number)
            if value is None or not gives_rise_to(value, alerts):
                continue
            _log.info("alerts_relayed_from_topic", partition=partition, number=number)
            sent = frozenset(alert.alert_id for alert in alerts)
            return RelayStart(first=number, since=_time_of(value), branch=branch, sent=sent)
        if not named and cursor is None:
            return RelayStart()  # a new ledger, or one whose alerts nobody has relayed
        return _from_beginning(partition, "the log has no decision whose alerts were relayed")

    async def _cursor(self, tp: TopicPartition) -> RelayCursor | None:
        with translate_errors():
            found = await fetch_offset(self._brokers, self._group, tp)
        try:
            return None if found is None else _decode_cursor(found.text)
        except DECODE_ERRORS:
            return None

    async def _decision(self, partition: int, number: int) -> bytes | None:
        """Return a decision of the log; None if the log has none of this number.

        Raises: MadeByNewerVersion.
        """
        try:
            found = await self._log.read(partition, number, 1)
            is_it = bool(found) and decode_decision(found[0]).partition_sequence == number
            return found[0] if is_it else None
        except MadeByNewerVersion:
            raise
        except (LogDamaged, *DECODE_ERRORS):
            return None


async def _has(member: Any, tp: TopicPartition, cursor: RelayCursor) -> bool:
    """Tell whether the log has the cursor's decision, at its offset."""
    with translate_errors():
        begin = (await member.beginning_offsets([tp]))[tp]
        end = (await member.end_offsets([tp]))[tp]
        if not begin <= cursor.offset < end:
            return False
        member.seek(tp, cursor.offset)
        try:
            async with asyncio.timeout(_READ_S):
                while not (got := await member.getmany(tp, timeout_ms=500, max_records=1)):
                    pass
        except UNREADABLE:
            return False
    record = got[tp][0]
    return bool(record.offset == cursor.offset and hash_of(record.value or b"") == cursor.head)


def _from_beginning(partition: int, why: str) -> RelayStart:
    _log.warning("alerts_relayed_again", partition=partition, why=why, then="ids are the same")
    return RelayStart()


def _time_of(value: bytes) -> int:
    return from_iso(decode_decision(value).decided_at)


def gives_rise_to(value: bytes, alerts: Iterable[Alert]) -> bool:
    """Tell whether a decision has one of these alerts, with all that it shows."""
    found = alerts_of(decode_decision(value))
    return any(msgspec.structs.replace(alert, decision=None) in found for alert in alerts)
