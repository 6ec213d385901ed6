"""The log of a ledger on Kafka, read by threads that may block.

The modules that need a client of Kafka are imported once something is read: a command compares the
class of a log before it knows that the log is on Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streams.log.decision_log import DecisionLog, Part, PartSize

if TYPE_CHECKING:
    from aiokafka import TopicPartition

    from accountant.replay.state_comparison import StateRows
    from streams.kafka.deployment import Deployment
    from streams.kafka.log.decision_reader import KafkaDecisionReader
    from streams.kafka.wire.reader import StableReader
    from streams.kafka.wire.security import Cluster

T = TypeVar("T")

_FETCHED: Final = 1_000
_CLOSE_S: Final = 1.0


class KafkaLog(DecisionLog):
    """The log of a ledger on Kafka.

    Any thread may read `offsets_left`. The calling thread's event loop runs only during a read,
    so nothing happens between two reads.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._reader: KafkaDecisionReader | None = None
        self._runner: asyncio.Runner | None = None

    @property
    def offsets_left(self) -> Mapping[int, int]:
        """By partition: the number of offsets after its last read."""
        return {} if self._reader is None else self._reader.offsets_left

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        return self._run(lambda reader: reader.read(partition, first, limit))

    def last(self, partition: int) -> tuple[int, bytes]:
        return self._run(lambda reader: reader.last(partition))

    def _run(self, read: Callable[[KafkaDecisionReader], Coroutine[Any, Any, T]]) -> T:
        if self._reader is None:
            from streams.kafka.log.decision_reader import KafkaDecisionReader

            self._reader = KafkaDecisionReader(self.deployment)
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(read(self._reader))

    def seal(self, partition: int) -> None:
        """Return None: a log on Kafka has no archive."""

    def sizes(self) -> list[PartSize]:
        return asyncio.run(_sizes(self.deployment))

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        from aiokafka import TopicPartition

        from streams.kafka.log.topics import check_partition_counts

        # Without this check a missing topic would time out, and a missing partition would go
        # unnoticed. An auditor may not be allowed to see other topics.
        asyncio.run(check_partition_counts(self.deployment, ["decisions", "state"]))
        topic = self.deployment.topics.decisions
        for number in range(self.deployment.partitions) if only is None else (only,):
            place = TopicPartition(topic, number)
            with asyncio.Runner() as runner:
                # `state` is read first, so that the log reaches at least as far.
                state = runner.run(_state(self.deployment, number))
                reader = runner.run(_opened(self.deployment.cluster, place))
                try:
                    begin, end = reader.spans[place]
                    start: int | None = begin
                    if since is not None:
                        start = runner.run(reader.offset_at(place, since))
                    first = end if start is None else max(begin, start)
                    records = partial(_values, runner, reader, place)
                    yield Part(
                        number,
                        records(first, end),
                        state=state,
                        first=0 if first == begin else None,
                        ordered=state is not None and state.resets == 0,
                        newest_first=partial(_records_newest_first, records, first, end),
                    )
                finally:
                    runner.run(reader.close())

    def forget(self, partition: int) -> None:
        if self._reader is not None:
            self._reader.forget(partition)

    def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            with runner:
                runner.run(self._disconnect())

    async def _disconnect(self) -> None:
        if self._reader is not None:
            self._reader.close()
        closing = asyncio.all_tasks() - {asyncio.current_task()}
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)


async def _sizes(deployment: Deployment) -> list[PartSize]:
    """Return the offsets that the partitions of a log have; a transaction takes one of its own."""
    from aiokafka import TopicPartition

    from streams.kafka.log.topics import check_partition_counts
    from streams.kafka.wire.reader import StableReader

    await check_partition_counts(deployment, ["decisions"])
    topic = deployment.topics.decisions
    places = [TopicPartition(topic, number) for number in range(deployment.partitions)]
    async with StableReader(deployment.cluster, places) as reader:
        spans = [reader.spans[place] for place in places]
    return [PartSize(number, span.end - span.begin) for number, span in enumerate(spans)]


async def _state(deployment: Deployment, partition: int) -> StateRows | None:
    """Return the rows of a partition's `state`.

    Each transaction ends with the partition's own row. The reader hides rows after the last one:
    they are not committed yet.
    """
    from aiokafka import TopicPartition

    from accountant.replay.state_comparison import rows_at_one_moment
    from streams.kafka.wire.reader import StableReader

    place, rows = TopicPartition(deployment.topics.state, partition), dict[bytes, bytes | None]()
    async with StableReader(deployment.cluster, [place]) as reader:
        async for record in reader.read(place, reader.spans[place].begin):
            if record.value is None:
                rows.pop(record.key, None)
            else:
                rows[record.key] = record.value
    return rows_at_one_moment(rows, partition)


async def _opened(cluster: Cluster, place: TopicPartition) -> StableReader:
    from streams.kafka.wire.reader import StableReader

    return await StableReader(cluster, [place]).__aenter__()


def _values(
    runner: asyncio.Runner, reader: StableReader, place: TopicPartition, start: int, end: int
) -> Iterator[bytes]:
    """Yield the committed records from one offset up to but not including another."""
    records = reader.read(place, start)

    async def some() -> list[Any]:
        fetched: list[Any] = []
        async for record in records:
            fetched.append(record)
            if len(fetched) == _FETCHED or record.offset >= end:
                break
        return fetched

    while fetched := runner.run(some()):
        yield from (bytes(record.value) for record in fetched if record.offset < end)
        if fetched[-1].offset >= end:
            return


def _records_newest_first(
    records: Callable[[int, int], Iterator[bytes]], first: int, end: int
) -> Iterator[bytes]:
    """Yield the committed records from an end back to an offset."""
    while end > first:
        start = max(first, end - _FETCHED)
        yield from reversed([*records(start, end)])
        end = start
