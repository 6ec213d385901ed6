"""The journal of one partition on Kafka, by the commit protocol of docs/decisions."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Protocol

from aiokafka import TopicPartition

from accountant.records import Source
from accountant.records.inputs import Input
from streams.errors import Refused, Unavailable
from streams.kafka.deployment import TopicNames
from streams.kafka.wire.batches import Fields
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.reader import StableReader
from streams.kafka.wire.security import Cluster
from streams.processing.journal import DEAD_LETTER_BYTES, Commit, DeadLetter

_DEAD_KEY_BYTES: Final = DEAD_LETTER_BYTES // 4
_LOOK_BACK: Final = 1_000
_NO_HEADERS: Final[Sequence[tuple[str, bytes]]] = ()


class Inputs(Protocol):
    """The consumer of the inputs, shared by the partitions of a worker."""

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    async def locate(self) -> None: ...

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> Any: ...


class HeaderReader(Protocol):
    """Gets the headers of records: any producer may have written them."""

    def received(
        self, partition: int, source: Source, offset: int, headers: Sequence[tuple[str, Any]]
    ) -> None:
        """A record with headers was read. Must return at once and not raise."""
        ...


class KafkaJournal:
    """The journal of one partition on Kafka.

    Args:
        cluster: where the topics are.
        application: with the partition number, names the transactional id.
        topics: names of the topics.
        partition: number of the partition.
        inputs: the consumer; both inputs of the partition are assigned to it, paused.
        headers: gets the headers of inputs, which no decision depends on.
    """

    def __init__(
        self,
        cluster: Cluster,
        application: str,
        topics: TopicNames,
        partition: int,
        inputs: Inputs,
        *,
        headers: HeaderReader | None = None,
    ) -> None:
        self._cluster = cluster
        self._application = application
        self._topics = topics
        self._partition = partition
        self._inputs = inputs
        self._headers = headers
        self._producer: TransactionalProducer | None = None
        self._reader: StableReader | None = None
        self._tp: dict[str, TopicPartition] = {
            name: TopicPartition(topics.of(name), partition)
            for name in ("requests", "admin", "decisions", "state")
        }

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def gapless(self) -> bool:
        """False: markers of transactions take offsets, too."""
        return False

    async def own(self) -> None:
        await self.drop()
        producer = TransactionalProducer(self._cluster, f"{self._application}-{self._partition}")
        self._producer = producer
        # Fence first, then read: no other process can write after the start, so the ends that
        # the reader finds are final.
        await producer.start()
        reader = StableReader(self._cluster, [self._tp["decisions"], self._tp["state"]])
        self._reader = await reader.__aenter__()
        for tp, span in reader.spans.items():
            # The first commit proves that the read was complete; see `expect_at`.
            producer.expect_at(tp.topic, span.end)
        begin = reader.spans[self._tp["decisions"]].begin
        if begin > 0:
            raise Refused(
                f"{self._topics.decisions}, partition {self._partition}, begins at offset {begin}: "
                "decisions were deleted. Restore the topic, then run `accountant topics check`"
            )

    async def rows(self) -> AsyncIterator[tuple[bytes, bytes | None]]:
        tp = self._tp["state"]
        reader = self._opened_reader
        async for record in reader.read(tp, reader.spans[tp].begin):
            yield record.key, record.value

    async def decisions(self, since: int | None) -> AsyncIterator[bytes]:
        tp = self._tp["decisions"]
        reader = self._opened_reader
        begin, end = reader.spans[tp]
        start = begin
        if since is not None:
            found = await reader.offset_at(tp, since)
            start = max(begin, end - _LOOK_BACK) if found is None else found
        while True:
            # Transaction markers take offsets too: from `start` on there may be no record.
            some = False
            async for record in reader.read(tp, start):
                some = True
                yield record.value
            if some or start <= begin:
                return
            start = max(begin, start - _LOOK_BACK)

    async def read_snapshot(self) -> None:
        """Return None: a log on Kafka has no archive."""

    async def last_decisions(self, changed_at: Mapping[str, int]) -> None:
        """Return None: finding them would mean reading the log."""

    async def admin_decisions(self) -> None:
        """Return None: finding them would mean reading the log."""

    async def seek(self, offsets: Mapping[Source, int]) -> None:
        reader = self._opened_reader
        await self._check_inputs(reader, offsets)
        self._reader = None
        await reader.close()
        # The group's client may still know a deposed leader of the inputs.
        await self._inputs.locate()
        for source, offset in offsets.items():
            self._inputs.seek(self._tp[source], offset)
            self._inputs.resume(self._tp[source])

    async def _check_inputs(self, reader: StableReader, offsets: Mapping[Source, int]) -> None:
        """Refuse inputs that lost undecided records, or that were recreated.

        The group's client may ask a deposed leader for minutes; the reader's client has just
        connected.
        """
        bounds = await reader.bounds([self._tp[source] for source in offsets])
        for source, offset in offsets.items():
            tp = self._tp[source]
            begin, end = bounds[tp]
            if not begin <= offset <= end:
                raise Refused(
                    f"{tp.topic}, partition {tp.partition}, holds offsets {begin} up to "
                    f"but not including {end}, and {offset} is the next to be decided: "
                    "inputs were deleted. Restore the topic, then restart the worker. If they are "
                    "lost for good, run "
                    f"`accountant topics accept-lost-inputs --topic {source} --partition "
                    f"{tp.partition} --from {offset} --reason WHY`"
                )

    async def read(self, limit: int, wait: float) -> list[Input]:
        with translate_errors():
            got = await self._inputs.getmany(
                self._tp["admin"],
                self._tp["requests"],
                timeout_ms=int(wait * 1000),
                max_records=limit,
            )
        sources: tuple[Source, Source] = ("admin", "requests")
        if self._headers is not None:
            for source in sources:
                for record in got.get(self._tp[source], ()):
                    if record.headers:
                        self._headers.received(
                            self._partition, source, record.offset, record.headers
                        )
        return [
            Input(source, record.offset, record.key, record.value, record.timestamp)
            for source in sources
            for record in got.get(self._tp[source], ())
        ]

    async def commit(self, commit: Commit) -> None:
        if self._producer is None:
            raise Unavailable("not owned")
        await self._producer.transact(
            self._partition,
            {
                self._topics.decisions: [
                    (each.key, each.value, each.decided_at, _NO_HEADERS)
                    for each in commit.decisions
                ],
                # Use the decisions' time: the broker may reject a timestamp of a wrong clock.
                self._topics.state: [
                    (key, value, commit.at, _NO_HEADERS) for key, value in commit.rows
                ],
                self._topics.dead_letters: [
                    _dead(letter, commit.at) for letter in commit.dead_letters
                ],
            },
        )

    async def drop(self) -> None:
        producer, self._producer = self._producer, None
        reader, self._reader = self._reader, None
        if producer is not None:
            producer.drop()
        if reader is not None:
            await reader.close()

    @property
    def _opened_reader(self) -> StableReader:
        if self._reader is None:
            raise Unavailable("not owned")
        return self._reader


def _dead(letter: DeadLetter, at: int) -> Fields:
    record, reason = letter
    key, value = record.key, record.value or b""
    headers = [
        ("reason", str(reason).encode()),
        ("source", record.source.encode()),
        ("offset", str(record.offset).encode()),
        ("sha256", hashlib.sha256(value).hexdigest().encode()),
    ]
    if key is not None and len(key) > _DEAD_KEY_BYTES:
        # A whole key could exceed this topic's limit; the commit would fail and halt the partition.
        headers.append(("key_sha256", hashlib.sha256(key).hexdigest().encode()))
        key = key[:_DEAD_KEY_BYTES]
    return key, value[:DEAD_LETTER_BYTES], at, headers
