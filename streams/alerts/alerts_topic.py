"""Read the topic `alerts` from its beginning, then follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from accountant.records import DECODE_ERRORS
from accountant.views.datasets import Alert, decode_alert
from streams.errors import JournalFault, Refused
from streams.kafka.deployment import Deployment
from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.fetch import UNREADABLE, read_on
from streams.kafka.wire.reader import stop
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_RETRY_S: Final = 1.0
_REFUSED_S: Final = 60.0
_START_S: Final = 10.0
_AT_A_TIME: Final = 200
FETCH_WAIT_MS: Final = 500
"""Longer than for decisions: few alerts come, and nobody waits for this reader."""


def decode_or_none(value: bytes | None) -> Alert | None:
    """Return the alert of a record; None for a record that is not an alert."""
    try:
        return decode_alert(value or b"")
    except DECODE_ERRORS:
        return None


class AlertTopicReader:
    """Passes every alert on the topic to a callback.

    Args:
        on_alert: called with each alert, old ones included.
        on_heard: called each time the end of the topic at the (re)start has been read.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        on_alert: Callable[[Alert], None],
        on_heard: Callable[[], None],
    ) -> None:
        self._deployment = deployment
        self._on_alert = on_alert
        self._on_heard = on_heard
        self._positions: dict[TopicPartition, int] = {}
        self._known = asyncio.Event()

    async def known(self) -> None:
        """Return once all alerts that were on the topic at the start are known, or unreadable."""
        await self._known.wait()

    async def run(self) -> None:
        """Follow until cancelled; reconnect after a lost connection."""
        while True:
            try:
                await self._follow()
            except JournalFault as error:
                _log.warning("alerts_interrupted", why=str(error))
                await asyncio.sleep(_RETRY_S)
            except Refused as error:
                # Without the right to read, send alerts again rather than not at all.
                _log.warning("alerts_unread", why=str(error), then="alerts may be repeated")
                self._positions.clear()
                self._known.set()
                await asyncio.sleep(_REFUSED_S)

    async def _follow(self) -> None:
        tps = [
            TopicPartition(self._deployment.topics.alerts, i)
            for i in range(self._deployment.partitions)
        ]
        follower: Any = with_short_connect(
            AIOKafkaConsumer(
                **self._deployment.cluster.options(),
                isolation_level="read_committed",
                auto_offset_reset="none",
                enable_auto_commit=False,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                request_timeout_ms=6_000,
                retry_backoff_ms=100,
            )
        )
        try:
            with translate_errors():
                async with asyncio.timeout(_START_S):
                    await follower.start()
                    follower.assign(tps)
                    ends = await self._place(follower, tps)
            while True:
                if ends and all(self._positions[tp] >= end for tp, end in ends.items()):
                    ends = {}
                    self._on_heard()
                    self._known.set()
                with translate_errors():
                    got = await self._next(follower, tps)
                for records in got.values():
                    for record in records:
                        alert = decode_or_none(record.value)
                        if alert is not None:
                            self._on_alert(alert)
                await asyncio.sleep(0)
                if not got:
                    with translate_errors():
                        async with asyncio.timeout(_START_S):
                            await follower.end_offsets(tps[:1])  # is the broker there?
        finally:
            await stop(follower)

    async def _next(
        self, follower: Any, tps: list[TopicPartition]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        try:
            got: dict[TopicPartition, list[ConsumerRecord]] = await follower.getmany(
                timeout_ms=1_000, max_records=_AT_A_TIME
            )
        except UNREADABLE as error:
            # Another client's record, which must not silence all alerts.
            _log.warning("alerts_read_raw", why=f"{type(error).__name__}: {error}")
            got = await read_on(follower, self._positions)
        for tp in tps:
            # Beyond the last record: transaction markers take offsets, too.
            self._positions[tp] = await follower.position(tp)
        return got

    async def _place(self, follower: Any, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Seek to the last positions, or to the beginning; return the topic's end offsets."""
        begins = await follower.beginning_offsets(tps)
        ends: dict[TopicPartition, int] = await follower.end_offsets(tps)
        for tp in tps:
            start = self._positions.get(tp, begins[tp])
            if not begins[tp] <= start <= ends[tp]:
                start = begins[tp]
            self._positions[tp] = start
            follower.seek(tp, start)
        return ends
