"""Read committed decisions by their numbers, which differ from their offsets."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from typing import Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka import errors as kafka

from accountant.errors import LogDamaged
from streams.clock import steady
from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.wire.brokers import AWAY_S, Brokers
from streams.kafka.wire.errors import translate_error
from streams.kafka.wire.fetch import CommittedFetch, fetch_committed
from streams.log.single_decisions import number_of

_TIMEOUT_MS: Final = 3_000
_PATIENCE_S: Final = 6.0  # for one fetch with all its tries
_TRIES: Final = 3  # an idle connection may be closed, and the leader may have changed
_STALLED_S: Final = 15.0
_MAX_POSITIONS: Final = 2_000  # places of a partition, of a hundred bytes each
_NEAR_END: Final = 16  # offsets
_MAX_SLICES_AHEAD: Final = 8  # slices, of a megabyte each


class _LogPosition(NamedTuple):
    """The offset of a decision; for a future decision, the earliest possible offset."""

    number: int
    offset: int


_BEGIN: Final = _LogPosition(0, 0)


class _Slice(NamedTuple):
    """Consecutive decisions.

    Attributes:
        first: number of the first.
        next: the offset after them.
    """

    first: int
    values: list[bytes]
    next: int


class KafkaDecisionReader:
    """Reads decisions of any partition of one ledger, in one event loop.

    Transaction markers and aborted records take offsets, too. So a decision's offset is its number
    or more, and the gap only grows. A search starts at the earliest possible offset; the number
    that it finds there says how far to go on.

    Attributes:
        offsets_left: by partition: the number of offsets after its last read.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._cluster = deployment.cluster
        self._topic = deployment.topics.decisions
        self._brokers: Brokers | None = None
        self._known: dict[int, list[_LogPosition]] = {}
        self._ahead: OrderedDict[int, _Slice] = OrderedDict()
        self.offsets_left: dict[int, int] = {}

    async def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        """Return decisions from number `first` on, fewer than `limit` only where the log ends.

        Raises:
            LogDamaged: the log has a later decision and not this one.
            Unavailable, Refused: it cannot be read, or was recreated meanwhile.
        """
        found: list[bytes] = []
        while len(found) < limit:
            some = await self._at(partition, first + len(found))
            if some is None:
                break
            begin = first + len(found) - some.first
            found += some.values[begin : begin + limit - len(found)]
            if first + len(found) == some.first + len(some.values):
                self._ahead.pop(partition, None)
        return found

    async def last(self, partition: int) -> tuple[int, bytes]:
        """Return the last decision, with its number; search backwards from the log's end.

        Raises: Unavailable, Refused: there is none, or it cannot be read. LogDamaged.
        """
        known = self._known.get(partition, [_BEGIN])[-1]
        fetched = await self._fetch(partition, known.offset)
        end = known.offset if fetched is None else fetched.end
        back = _NEAR_END
        while True:
            offset, found = max(0, end - back), None
            while (some := await self._next(partition, offset)) is not None:
                found, offset = some, some.next
            if found is not None:
                after = found.first + len(found.values)
                self._learn(partition, _LogPosition(after, offset))
                return after - 1, found.values[-1]
            if back >= end:
                raise Unavailable(f"partition {partition} has no decision yet")
            back *= 16  # the last offsets hold only markers or aborted records

    async def _at(self, partition: int, number: int) -> _Slice | None:
        """Return a slice that contains a decision; None if the log ends before it."""
        ahead = self._ahead.get(partition)
        if ahead is not None and ahead.first <= number < ahead.first + len(ahead.values):
            return ahead
        known = self._nearest(partition, number)
        while True:
            some = await self._next(partition, known.offset + number - known.number)
            if some is None:
                return None
            after = _LogPosition(some.first + len(some.values), some.next)
            self._learn(partition, after)
            if number < some.first:
                raise LogDamaged(f"partition {partition} has no decision {number}")
            if number < after.number:
                self._ahead[partition] = some
                self._ahead.move_to_end(partition)
                while len(self._ahead) > _MAX_SLICES_AHEAD:
                    self._ahead.popitem(last=False)
                return some
            known = after

    async def _next(self, partition: int, offset: int) -> _Slice | None:
        """Return the first decisions from an offset on; None at the log's end."""
        moved = steady()
        while True:
            fetched = await self._fetch(partition, offset)
            if fetched is None:
                return None
            if fetched.records:
                first = number_of(fetched.records[0][1])
                return _Slice(first, [value for _, value in fetched.records], fetched.next)
            if fetched.next >= fetched.end:
                return None
            if fetched.next > offset:
                moved = steady()
            elif steady() - moved > _STALLED_S:
                raise Unavailable(f"{self._topic}, partition {partition}: no record at {offset}")
            offset = fetched.next

    async def _fetch(self, partition: int, offset: int) -> CommittedFetch | None:
        tp = TopicPartition(self._topic, partition)
        try:
            fetched = await self._fetch_with_retries(tp, offset)
        except kafka.OffsetOutOfRangeError:
            known = self._known.get(partition, [_BEGIN])
            if offset > known[-1].offset:
                return None
            self.forget(partition)
            raise Unavailable(
                f"{tp.topic}, partition {partition}, no longer has offset {offset}: the topic was "
                "recreated, or its first decisions were deleted"
            ) from None
        self.offsets_left[partition] = fetched.end - fetched.next
        return fetched

    async def _fetch_with_retries(self, tp: TopicPartition, offset: int) -> CommittedFetch:
        """Fetch; retry if the leader or the connection has changed."""
        tries = _TRIES
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while True:
                    tries -= 1
                    try:
                        return await fetch_committed(await self._connect(), tp, offset)
                    except kafka.KafkaError as error:
                        out_of_range = isinstance(error, kafka.OffsetOutOfRangeError)
                        if not tries or not error.retriable or out_of_range:
                            raise
                    await self._refresh()
                    await asyncio.sleep(AWAY_S)
        except kafka.OffsetOutOfRangeError:
            raise
        except (TimeoutError, kafka.KafkaError, OSError) as error:
            raise translate_error(error) from error

    async def _connect(self) -> Brokers:
        if self._brokers is None:
            brokers = Brokers(self._cluster, "usage-index", _TIMEOUT_MS)
            try:
                await brokers.connect()
            except BaseException:
                brokers.close()
                raise
            self._brokers = brokers
        return self._brokers

    async def _refresh(self) -> None:
        if self._brokers is not None and not await self._brokers.refresh():
            self.close()  # no broker answers: their addresses may have changed

    def _nearest(self, partition: int, number: int) -> _LogPosition:
        known = self._known.get(partition, [])
        at = bisect_right(known, number, key=lambda place: place.number)
        return known[at - 1] if at else _BEGIN

    def _learn(self, partition: int, place: _LogPosition) -> None:
        known = self._known.setdefault(partition, [])
        at = bisect_right(known, place.number, key=lambda each: each.number)
        if at and known[at - 1].number == place.number:
            known[at - 1] = place  # later, because of markers written since
            return
        known.insert(at, place)
        if len(known) > _MAX_POSITIONS:
            del known[1::2]

    def forget(self, partition: int) -> None:
        """Forget the known offsets of a partition; the next read searches again."""
        self._known.pop(partition, None)
        self._ahead.pop(partition, None)

    def close(self) -> None:
        """Disconnect; the next read connects again. Call it in the loop that reads."""
        brokers, self._brokers = self._brokers, None
        if brokers is not None:
            brokers.close()
