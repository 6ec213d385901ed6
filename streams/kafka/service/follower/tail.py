"""Follow `state` and `decisions` as commits become visible: the read side's only source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiokafka import TopicPartition

from streams.clock import Clock, SystemClock
from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.service.follower.state_rows import OnPartitionRow, OnRow, StateRowsFollower
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


class Tail:
    """Reads every dataset's row, then every decision from `history_ms` ago on, without end.

    Rows and decisions may come twice, for example after a reconnection. The callbacks must allow
    it: every decision carries running totals and its dataset's sequence.

    Args:
        on_partition_row: called with each partition's own row.
        read_on: called before each read; see `ResumePoints`.
        pause: awaited between two reads, so that decisions come in few large batches while
            no caller waits for them.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        on_row: OnRow,
        on_decisions: OnDecisions,
        on_partition_row: OnPartitionRow | None = None,
        read_on: ResumePoints = _no_resume_points,
        history_ms: int = 0,
        pause: Callable[[], Awaitable[None]],
        clock: Clock | None = None,
    ) -> None:
        self._deployment = deployment
        self._rows = StateRowsFollower(deployment, on_row, on_partition_row)
        self._on_decisions = on_decisions
        self._read_on = read_on
        self._history_ms = history_ms
        self._pause = pause
        self._clock = clock or SystemClock()
        self._positions: dict[TopicPartition, int] = {}
        self._since: dict[TopicPartition, int] = {}  # start times of partitions to read again
        self._handed_over: set[TopicPartition] = set()
        self._caught_up = asyncio.Event()
        self.trouble: str | None = "starting"

    @property
    def branches(self) -> Mapping[int, int]:
        """By partition: the number of its log's fork, where known."""
        return self._rows.branches

    def take_branch(self, partition: int, branch: int) -> None:
        """As `StateRowsFollower.take_branch`."""
        self._rows.take_branch(partition, branch)

    def knows(self, partition: int) -> bool:
        """Tell whether every dataset of a partition has been read."""
        return partition in self._rows.known

    def decided_at(self, partition: int) -> int:
        """Return the time of the last known decision, 0 for none."""
        return self._rows.decided.get(partition, (-1, 0))[1]

    def take_time(self, partition: int, sequence: int, decided_at: int) -> None:
        """As `StateRowsFollower.take_time`."""
        self._rows.take_time(partition, sequence, decided_at)

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
                    why = f"{type(error).__name__}: {error}"
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
                    leave = await self._on_decisions(tp.partition, values)
                    self._positions[tp] = records[-1].offset + 1
                    if leave:
                        self._handed_over.add(tp)
                        follower.pause(tp)
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
        self._since |= again
        for tp in again:
            self._positions.pop(tp, None)
        self._handed_over -= again.keys()
        with translate_errors():
            await self._seek(follower, list(again))

    async def _seek(self, follower: Any, decisions: list[TopicPartition]) -> None:
        """Seek to the last position, or else to the start time, `history_ms` ago by default."""
        first = max(0, self._clock.now() - self._history_ms)
        since = {tp: self._since.get(tp, first) for tp in decisions}
        # Read end offsets before looking up times; otherwise a decision committed in between is
        # skipped.
        ends = await follower.end_offsets(decisions)
        found = await follower.offsets_for_times(since)
        begins = await follower.beginning_offsets(decisions)
        for tp in decisions:
            start = self._positions.get(tp)
            if start is None or not begins[tp] <= start <= ends[tp]:
                start = ends[tp] if found[tp] is None else found[tp].offset
            self._positions[tp] = start
            self._since.pop(tp, None)
            follower.seek(tp, start)
            if tp in self._handed_over:
                follower.pause(tp)
            else:
                follower.resume(tp)
