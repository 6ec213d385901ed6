"""Read a partition of a topic up to a final end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from streams.clock import steady
from streams.errors import Unavailable
from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.security import Cluster

STABLE_WITHIN_S: Final = 12.0
_FETCH_BYTES: Final = 1 << 22
_STALLED_S: Final = 15.0
_STOP_S: Final = 2.0


class Span(NamedTuple):
    """The readable offsets of a partition: from `begin`, up to but not including `end`."""

    begin: int
    end: int


def consumer(cluster: Cluster, *, committed: bool) -> Any:
    """Return a consumer without a group, which never resets an offset on its own."""
    return with_short_connect(
        AIOKafkaConsumer(
            **cluster.options(),
            isolation_level="read_committed" if committed else "read_uncommitted",
            auto_offset_reset="none",
            enable_auto_commit=False,
            fetch_max_wait_ms=20,
            request_timeout_ms=6_000,
            max_partition_fetch_bytes=_FETCH_BYTES,
            retry_backoff_ms=50,
        )
    )


async def bounds(client: Any, tps: list[TopicPartition]) -> dict[TopicPartition, Span]:
    """Return, for each partition, the offsets whose records exist now and that `client` may read.

    Raises: JournalFault, Refused.
    """
    with translate_errors():
        begins = await client.beginning_offsets(tps)
        ends = await client.end_offsets(tps)
    return {tp: Span(begins[tp], ends[tp]) for tp in tps}


async def _start(*clients: Any) -> None:
    """Connect clients concurrently, since each may first try a broker that hangs."""
    starting = [asyncio.create_task(each.start()) for each in clients]
    try:
        await asyncio.gather(*starting)
    finally:
        for task in starting:
            task.cancel()
        await asyncio.wait(starting)


_stopping: Final[set[asyncio.Task[None]]] = set()  # the loop itself holds tasks only weakly


async def stop(*clients: Any, within: float = _STOP_S) -> None:
    """Disconnect clients concurrently, within so many seconds. Raises none of their errors.

    Each client stops in its own task. A client stopped right after its start raises
    CancelledError, which would look like a cancellation of the caller; and if the caller really
    is cancelled, the clients disconnect all the same.
    """
    stopping = [asyncio.create_task(_disconnect(each)) for each in clients]
    for task in stopping:
        _stopping.add(task)
        task.add_done_callback(_forget)
    await asyncio.wait(stopping, timeout=within)


async def _disconnect(client: Any) -> None:
    try:
        await client.stop()
    finally:
        # While the broker is away, a consumer's `stop` ends early on a cancelled fetch and leaves
        # its connections open; they would then reconnect to the broker for ever.
        connections = getattr(client, "_client", None) or client.client
        await connections.close()


def _forget(task: asyncio.Task[None]) -> None:
    _stopping.discard(task)
    if not task.cancelled():
        task.exception()


class StableReader:
    """Reads committed records of a few partitions, up to the present ends of their logs.

    Any producer's open transaction hides all later records from committed readers. A reader that
    stops at the last stable offset would then miss committed decisions, and a worker would decide
    their inputs again. So this waits until the last stable offset reaches the high watermark.
    """

    def __init__(self, cluster: Cluster, partitions: list[TopicPartition]) -> None:
        self._committed = consumer(cluster, committed=True)
        self._uncommitted = consumer(cluster, committed=False)
        self._cluster = cluster
        self._partitions = partitions
        self.spans: dict[TopicPartition, Span] = {}

    async def __aenter__(self) -> Self:
        try:
            with translate_errors():
                async with asyncio.timeout(STABLE_WITHIN_S):
                    await _start(self._committed, self._uncommitted)
            self._committed.assign(self._partitions)
            await self._settle()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect."""
        await stop(self._committed, self._uncommitted)

    async def _settle(self) -> None:
        """Fix the ends once every transaction before them has ended.

        Raises: Unavailable: a transaction stays open; the message names the partition.
        """
        deadline = steady() + STABLE_WITHIN_S
        while True:
            spans = await self.bounds(self._partitions)
            with translate_errors():
                stable = await self._committed.end_offsets(self._partitions)
            open_ones = [tp for tp, span in spans.items() if stable[tp] < span.end]
            if not open_ones:
                self.spans = spans
                return
            if steady() > deadline:
                tp = open_ones[0]
                # `find-hanging` omits transactions that their coordinator still knows.
                tool = self._cluster.tool("kafka-transactions.sh")
                raise Unavailable(
                    f"a transaction on {tp.topic}, partition {tp.partition}, is open at offset "
                    f"{stable[tp]}: find the ID of the one that is Ongoing with `{tool} list`; if "
                    "it does not end by itself, end it with "
                    f"`{tool} forceTerminateTransaction --transactionalId ID` (Kafka 4.1 or later)"
                )
            await asyncio.sleep(0.05)

    async def bounds(self, tps: list[TopicPartition]) -> dict[TopicPartition, Span]:
        """Return the offsets of partitions that hold records now, committed or not."""
        return await bounds(self._uncommitted, tps)

    async def offset_at(self, tp: TopicPartition, since: int) -> int | None:
        """Return the first offset of a record at or after a time in milliseconds."""
        with translate_errors():
            found = (await self._committed.offsets_for_times({tp: since}))[tp]
        return None if found is None else int(found.offset)

    async def read(self, tp: TopicPartition, start: int) -> AsyncIterator[ConsumerRecord]:
        """Yield the committed records from an offset to the fixed end.

        Raises: Unavailable: the read stalls, or the log loses its beginning meanwhile.
        """
        end = self.spans[tp].end
        self._committed.seek(tp, start)
        moved = steady()
        while True:
            with translate_errors():
                position = await self._committed.position(tp)
                if position >= end:
                    return
                got = await self._committed.getmany(tp, timeout_ms=200)
            records = got.get(tp, [])
            if records or await self._committed.position(tp) > position:
                moved = steady()
            elif steady() - moved > _STALLED_S:
                raise Unavailable(f"{tp.topic}, partition {tp.partition}: no record at {position}")
            for record in records:
                if record.offset < end:
                    yield record
