"""Follow `state` and `decisions` as they become visible: the read side's only source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiokafka import TopicPartition

from streams.clock import Clock, SystemClock
from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.following.state_rows import FollowedStateRows, OnPartitionRow, OnRow
from streams.kafka.wire.errors import translating
from streams.kafka.wire.reader import consumer, stop
from streams.logs import get_logger

_log = get_logger(__name__)
_RETRY_S: Final = 1.0
_MOST_AT_A_TIME: Final = 8_000  # decisions, about a kilobyte each

OnDecisions = Callable[[int, list[bytes]], Awaitable[bool]]
"""Takes the next decisions of a partition; tells whether another source gives the later ones."""

ReadOn = Callable[[], Mapping[int, int]]
"""Returns the partitions to read again, and from what time, in milliseconds since 1970."""


def _nothing_to_read_on() -> Mapping[int, int]:
    return {}


class Tail:
    """Reads every dataset's row, then every decision from `history_ms` ago on, without end.

    Rows and decisions may come twice, for example after a reconnection. The callbacks must allow
    it: every decision carries running totals and its dataset's sequence.

    Args:
        on_partition_row: takes each partition's own row.
        read_on: called before each read; see `ReadOn`.
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
        read_on: ReadOn = _nothing_to_read_on,
        history_ms: int = 0,
        pause: Callable[[], Awaitable[None]],
        clock: Clock | None = None,
    ) -> None:
        self._deployment = deployment
        self._rows = FollowedStateRows(deployment, on_row, on_partition_row)
        self._on_decisions = on_decisions
        self._read_on = read_on
        self._history_ms = history_ms
        self._pause = pause
        self._clock = clock or SystemClock()
        self._positions: dict[TopicPartition, int] = {}
        self._since: dict[TopicPartition, int] = {}  # replaces a forgotten position
        self._left: set[TopicPartition] = set()
        self._caught_up = asyncio.Event()
        self.trouble: str | None = "starting"

    @property
    def branches(self) -> Mapping[int, int]:
        """How many losses the log of each partition has accepted, of those that are known."""
        return self._rows.branches

    def take_branch(self, partition: int, branch: int) -> None:
        """As `StateRows.take_branch`."""
        self._rows.take_branch(partition, branch)

    def decided_at(self, partition: int) -> int:
        """Return the time of the last decision that is known, 0 for none."""
        return self._rows.decided.get(partition, (-1, 0))[1]

    def take_time(self, partition: int, sequence: int, decided_at: int) -> None:
        """As `StateRows.take_time`."""
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
                    # current. Only a start may be refused; later the loop tries again.
                    if isinstance(error, Refused) and not self._caught_up.is_set():
                        raise
                    why = f"{type(error).__name__}: {error}"
                    self.trouble = f"decisions cannot be read: {why}"
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
            with translating():
                async with asyncio.timeout(10):
                    await follower.start()
                    follower.assign(decisions)
                    await self._place(follower, decisions)
            if not self._caught_up.is_set():
                await self._rows.read()
                self._caught_up.set()
            self.trouble = None
            while True:
                await self._return(follower)
                with translating():
                    got = await follower.getmany(timeout_ms=1_000, max_records=_MOST_AT_A_TIME)
                for tp, records in got.items():
                    values = [record.value for record in records]
                    leave = await self._on_decisions(tp.partition, values)
                    self._positions[tp] = records[-1].offset + 1
                    if leave:
                        self._left.add(tp)
                        follower.pause(tp)
                if not got:
                    with translating():
                        async with asyncio.timeout(6):
                            await follower.end_offsets(decisions[:1])
                await self._pause()
        finally:
            await stop(follower)

    async def _return(self, follower: Any) -> None:
        """Read the partitions again that `read_on` names."""
        topic = self._deployment.topics.decisions
        again = {TopicPartition(topic, i): at for i, at in self._read_on().items()}
        if not again:
            return
        self._since |= again
        for tp in again:
            self._positions.pop(tp, None)
        self._left -= again.keys()
        with translating():
            await self._place(follower, list(again))

    async def _place(self, follower: Any, decisions: list[TopicPartition]) -> None:
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
            if tp in self._left:
                follower.pause(tp)
            else:
                follower.resume(tp)
