"""Follow `state` and `decisions` as commits become visible: the read side's only source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiokafka import TopicPartition

from streams.clock import Clock, SystemClock
from streams.error_words import words_of
from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.service.follower.state_rows import StateRowsReader
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.reader import consumer, stop
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_RETRY_S: Final = 1.0
_MAX_RECORDS: Final = 8_000  # decisions, about a kilobyte each

OnDecisions = Callable[[int, list[bytes]], Awaitable[bool]]
"""Called with the next decisions of a partition; returns whether another source has the rest."""

ResumePoints = Callable[[], Mapping[int, int]]
"""Returns the partitions to read again, with the start time in milliseconds since 1970."""


def _no_resume_points() -> Mapping[int, int]:
    return {}


def _nothing(_partition: int) -> None:
    pass


class Tail:
    """Reads the rows of every partition, then every decision from `history_ms` ago on, without end.

    Decisions may come twice, for example after a reconnection: the callbacks must allow it.

    Args:
        rows: reads the rows of `state`.
        read_on: called before each read; see `ResumePoints`.
        on_end: called with a partition whose decisions were read to the end that they had when
            the reading began, or went on at another place.
        on_lost: called with a partition whose log no longer has the place that was read last.
        pause: awaited between two reads, so that decisions come in few large batches while
            no caller waits for them.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        rows: StateRowsReader,
        on_decisions: OnDecisions,
        read_on: ResumePoints = _no_resume_points,
        on_end: Callable[[int], None] = _nothing,
        on_lost: Callable[[int], None] = _nothing,
        history_ms: int = 0,
        pause: Callable[[], Awaitable[None]],
        clock: Clock | None = None,
    ) -> None:
        self._deployment = deployment
        self._rows = rows
        self._on_decisions = on_decisions
        self._read_on = read_on
        self._on_end = on_end
        self._on_lost = on_lost
        self._pause = pause
        self._history_ms = history_ms
        self._clock = clock or SystemClock()
        self._positions: dict[TopicPartition, int] = {}
        self._since: dict[TopicPartition, int] = {}  # start times of partitions to read again
        self._until: dict[TopicPartition, int] = {}  # ends that were not reached yet
        self._read = set[TopicPartition]()  # that had decisions
        self._handed_over: set[TopicPartition] = set()
        self._caught_up = asyncio.Event()
        self.trouble: str | None = "starting"

    async def caught_up(self) -> None:
        """Return once the tail has read all snapshots and follows the decisions."""
        await self._caught_up.wait()

    async def run(self) -> None:
        """Follow until cancelled; reconnect when the broker goes away."""
        completing = asyncio.create_task(self._complete_rows(), name="state rows")
        try:
            while True:
                try:
                    await self._follow()
                except Exception as error:
                    # Report every error: a reader that stops silently shows old figures as
                    # current. Only a start may be refused; later the loop retries.
                    if isinstance(error, Refused) and not self._caught_up.is_set():
                        raise
                    why = words_of(error)
                    self.trouble = (
                        f"decisions cannot be read: {why}. Check the brokers and the network; this "
                        "process tries again by itself"
                    )
                    _log.warning("tail_interrupted", why=why)
                    await asyncio.sleep(_RETRY_S)
        finally:
            completing.cancel()

    async def _complete_rows(self) -> None:
        await self._caught_up.wait()
        await self._rows.complete()

    async def _follow(self) -> None:
        deployment = self._deployment
        decisions = [
            TopicPartition(deployment.topics.decisions, i) for i in range(deployment.partitions)
        ]
        follower: Any = consumer(deployment.cluster, committed=True)
        try:
            with translate_errors():
                async with asyncio.timeout(10):
                    await follower.start()
                    follower.assign(decisions)
                    await self._seek(follower, decisions)
            if not self._caught_up.is_set():
                await self._rows.read()
                self._caught_up.set()
            self.trouble = None
            while True:
                await self._reread(follower)
                with translate_errors():
                    got = await follower.getmany(timeout_ms=1_000, max_records=_MAX_RECORDS)
                for tp, records in got.items():
                    values = [record.value for record in records]
                    self._read.add(tp)
                    leave = await self._on_decisions(tp.partition, values)
                    self._positions[tp] = records[-1].offset + 1
                    if leave:
                        self._handed_over.add(tp)
                        follower.pause(tp)
                await self._check_ends(follower)
                if not got:
                    with translate_errors():
                        async with asyncio.timeout(6):
                            await follower.end_offsets(decisions[:1])
                await self._pause()
        finally:
            await stop(follower)

    async def _reread(self, follower: Any) -> None:
        """Read the partitions again that `read_on` names."""
        topic = self._deployment.topics.decisions
        again = {TopicPartition(topic, i): at for i, at in self._read_on().items()}
        if not again:
            return
        # A start reads the history, too.
        first = self._first()
        self._since |= {tp: at if tp in self._read else min(at, first) for tp, at in again.items()}
        for tp in again:
            self._positions.pop(tp, None)
        self._handed_over -= again.keys()
        with translate_errors():
            await self._seek(follower, list(again))

    async def _seek(self, follower: Any, decisions: list[TopicPartition]) -> None:
        """Seek to the last position, or else to the start time, `history_ms` ago by default."""
        first = self._first()
        since = {tp: self._since.get(tp, first) for tp in decisions}
        # Read end offsets before looking up times; otherwise a decision committed in between is
        # skipped.
        ends = await follower.end_offsets(decisions)
        found = await follower.offsets_for_times(since)
        begins = await follower.beginning_offsets(decisions)
        for tp in decisions:
            start = self._positions.get(tp)
            is_lost = start is not None and not begins[tp] <= start <= ends[tp]
            if is_lost:
                self._on_lost(tp.partition)
            if start is None or is_lost:
                start = ends[tp] if found[tp] is None else found[tp].offset
            self._positions[tp] = start
            self._since.pop(tp, None)
            self._until[tp] = ends[tp]
            follower.seek(tp, start)
            if tp in self._handed_over:
                follower.pause(tp)
            else:
                follower.resume(tp)

    def _first(self) -> int:
        return max(0, self._clock.now() - self._history_ms)

    async def _check_ends(self, follower: Any) -> None:
        for tp, end in list(self._until.items()):
            with translate_errors():
                position = await follower.position(tp)
            if position >= end:
                del self._until[tp]
                self._on_end(tp.partition)
