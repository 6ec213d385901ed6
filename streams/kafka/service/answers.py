"""The answers of a ledger on Kafka: a topic that the curator alone writes.

    curator A                        the topic                       readers
    ---------                        ---------                       -------
    start: fence every predecessor
    read to the end, committed
    compare with the mark
    write what has no answer yet --> one transaction  -------------> committed records,
    and the mark, read it back                                       the first of a grant wins

A transactional id for each partition makes a second curator fence the first one: the first one
cannot commit any more, and stops. What it had drawn is discarded, since nobody has read it.

Each record has random bytes, and the hash of all records before it: the records are a chain. A
reader refuses one that does not continue it.

The mark is the chain's head: the number of records, and their hash. It is in the same transaction,
but not in the topic: it is an offset of a consumer group. An older copy of the topic would have
questions drawn a second time, so a curator refuses a topic that the mark does not fit.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import apsw
import msgspec
from aiokafka import TopicPartition
from aiokafka import errors as kafka

from accountant.records import DECODE_ERRORS
from accountant.times import iso
from streams.answers.answer_file import AnswerFile
from streams.answers.chain import RANDOM_BYTES, ChainEnd, Entry
from streams.answers.heads import ChainHead, StoredHead
from streams.answers.published_states import PublishedState
from streams.answers.store import LogPlace, NewAnswer, StepKind, StoredAnswer
from streams.answers.tables import AnswerTables, answers_in_order
from streams.clock import SystemClock, steady
from streams.error_words import meaning_of, words_of
from streams.errors import Fenced, JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.operate.acls.roles import ANSWER_IDS, ANSWER_MARKS
from streams.kafka.wire.admin import admin_of
from streams.kafka.wire.batches import Record
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.group_offset import GroupOffset
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.reader import StableReader, consumer, stop
from streams.tasks.broadcast import Broadcast, Subscription
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_CONNECT_S: Final = 10
_POLL_MS: Final = 200
_MAX_RECORDS: Final = 1_000
_RETRY_S: Final = 1.0
_READ_BACK_S: Final = 15.0
_LOOK_S: Final = 5.0
"""How often a reader looks whether the topic still has its first records."""
BEGIN_AGAIN: Final = (
    "If there is none, delete the consumer group {group}: every question without an answer that "
    "was granted before fails, and stays charged"
)
_SUCCESSOR_S: Final = 10.0
"""The longest wait for the record of the curator that has taken over."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of the topic's records.

    Attributes:
        previous: the hash of all records before, in hexadecimal digits; "" in a record of a
            version without a chain.
        random: 32 random bytes, so that nobody finds a value by trying hashes.
    """

    previous: str = ""
    random: str = ""


class _AnswerRecord(_Record, frozen=True, tag="answer"):
    grant: str
    dataset: str
    analyst: str
    request_id: str
    answer: msgspec.Raw


class _StepRecord(_Record, frozen=True, tag="step"):
    grant: str
    kind: StepKind
    body: msgspec.Raw


class _TakenBackRecord(_Record, frozen=True, tag="taken_back"):
    """A step with this body was not taken."""

    grant: str
    kind: StepKind
    body: msgspec.Raw


class _LogRecord(_Record, frozen=True, tag="log"):
    ledger: str
    begins: int
    at: int = 0  # milliseconds since 1970: which of two beginnings is the later one


class _PlaceRecord(_Record, frozen=True, tag="place"):
    number: int
    head: str


class _CuratorRecord(_Record, frozen=True, tag="curator"):
    """A curator has started: it writes from here on."""

    host: str
    process: int
    since: str

    @property
    def text(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"


class _SourceRecord(_Record, frozen=True, tag="source"):
    """What gateways refuse from here on. Of a dataset the last one counts."""

    state: PublishedState


_TopicRecord = (
    _AnswerRecord
    | _StepRecord
    | _TakenBackRecord
    | _LogRecord
    | _PlaceRecord
    | _CuratorRecord
    | _SourceRecord
)
_decode: Final = msgspec.json.Decoder(_TopicRecord).decode
_encode: Final = msgspec.json.Encoder().encode


class ChainBroken(Refused):
    """The records are not all those that were written, or somebody else has written some.

    Attributes:
        partition: the first one in which this was found.
    """

    def __init__(self, message: str, *, partition: int = 0) -> None:
        super().__init__(message)
        self.partition = partition


class AnswerTopic:
    """Reads the topic into tables of this process. An `AnswerReader`; use `start` to make one.

    Attributes:
        states: what was published of each dataset's source.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._tables = AnswerTables(apsw.Connection(""))  # SQLite spills it to a temporary file
        self._new = Broadcast[StoredAnswer]()
        self._offsets = dict.fromkeys(map(self._tp, range(deployment.partitions)), 0)
        self._taken = dict.fromkeys(range(deployment.partitions), 0)  # records of each
        self._hashes = dict.fromkeys(range(deployment.partitions), b"")  # of these records
        self._curators: dict[int, str] = {}  # the last one of each partition
        self._chained = set[int]()  # partitions in which a record with a hash was read
        self._begun = dict.fromkeys(range(deployment.partitions), 0)
        self._moved = asyncio.Condition()
        self._following: asyncio.Task[None] | None = None
        self.trouble: str | None = None
        self.states = dict[str, PublishedState]()

    @classmethod
    async def start(cls, deployment: Deployment, *, wait: float = 30.0) -> Self:
        """Return a reader that has read what was committed before the call.

        Raises: Unavailable: the broker does not answer within `wait` seconds. Refused: there is no
            such topic, or its records are not this version's.
        """
        topic = cls(deployment)
        try:
            async with asyncio.timeout(wait):
                await topic._open()
        except TimeoutError as error:
            await topic.close()
            raise Unavailable(f"{deployment.bootstrap} does not answer in time") from error
        except BaseException:
            await topic.close()
            raise
        return topic

    async def _open(self) -> None:
        async with StableReader(self._deployment.cluster, list(self._offsets)) as reader:
            ends = {tp: span.end for tp, span in reader.spans.items()}
        self._following = asyncio.create_task(self._follow(), name="answers")
        await self._wait(lambda: all(self._offsets[tp] >= end for tp, end in ends.items()))

    async def _wait(self, is_there: Callable[[], bool]) -> None:
        """Wait until enough was read.

        Raises: Refused: a record cannot be read.
        """
        async with self._moved:
            while not is_there():
                self._check_following()
                await self._moved.wait()

    def _check_following(self) -> None:
        """Raises: Refused: nothing more is read."""
        if self._following is not None and self._following.done():
            self._following.result()

    async def _follow(self) -> None:
        """Read committed records for ever; connect again when the brokers went away."""
        try:
            while True:
                try:
                    await self._read_on()
                except Refused as error:
                    self.trouble = str(error)
                    raise
                except (kafka.KafkaError, TimeoutError, OSError, JournalFault) as error:
                    self.trouble = f"the answers cannot be read: {words_of(error)}"
                    _log.warning("answers_not_read", why=words_of(error))
                    await asyncio.sleep(_RETRY_S)
                except Exception as error:  # a defect: nobody reads on
                    self.trouble = f"the answers are not read any more: {meaning_of(error)}"
                    _log.error(
                        "answers_not_read", error=type(error).__name__, then="report this defect"
                    )
                    raise
        finally:
            async with self._moved:
                self._moved.notify_all()

    async def _read_on(self) -> None:
        client: Any = consumer(self._deployment.cluster, committed=True)
        try:
            with translate_errors():
                async with asyncio.timeout(_CONNECT_S):
                    await client.start()
                client.assign(list(self._offsets))
                for tp, offset in self._offsets.items():
                    client.seek(tp, offset)
            look_at = steady()
            while True:
                if steady() >= look_at:
                    with translate_errors():
                        begins = await client.beginning_offsets(list(self._offsets))
                    self._check_begins(begins)
                    look_at = steady() + _LOOK_S
                self.trouble = None
                with translate_errors():
                    got = await client.getmany(timeout_ms=_POLL_MS, max_records=_MAX_RECORDS)
                new = list[StoredAnswer]()
                for tp, records in got.items():
                    for record in records:
                        new += self._take(tp, record.offset, record.value or b"")
                        self._offsets[tp] = record.offset + 1  # no record counts twice
                        self._count(tp.partition, record.value or b"")
                # Beyond the last record there may be markers of transactions.
                for tp in self._offsets:
                    self._offsets[tp] = await client.position(tp)
                async with self._moved:
                    self._moved.notify_all()
                self._new.send(new)
        finally:
            await stop(client)

    def _check_begins(self, begins: Mapping[TopicPartition, int]) -> None:
        """Raises: ChainBroken: the first records of a partition were deleted."""
        for tp, begin in begins.items():
            if begin > 0:
                raise ChainBroken(
                    f"{tp.topic}, partition {tp.partition}, begins at offset {begin}: the records "
                    "before it were deleted. Delete the topic, run `accountant topics create`, and "
                    f"put the newest copy back. {BEGIN_AGAIN.format(group=self.group)}",
                    partition=tp.partition,
                )

    @property
    def group(self) -> str:
        """The consumer group that has the marks."""
        return f"{self._deployment.application}{ANSWER_MARKS}"

    def _count(self, partition: int, value: bytes) -> None:
        """Count a record that was taken."""
        self._taken[partition] += 1
        self._hashes[partition] = _hash_on(self._hashes[partition], value)

    def _tp(self, partition: int) -> TopicPartition:
        return TopicPartition(self._deployment.topics.answers, partition)

    def _take(self, tp: TopicPartition, offset: int, value: bytes) -> list[StoredAnswer]:
        """Take in a record; return the answer in it if it is its grant's first.

        Raises: Refused: it is none of this version's.
        """
        try:
            record = _decode(value)
        except DECODE_ERRORS:
            where = f"{tp.topic}, partition {tp.partition}, offset {offset}"
            raise Refused(
                f"{where}: no record of this version. Run the version that "
                "wrote it, and check who may write to the topic"
            ) from None
        self._check_chain(tp, offset, record)
        if isinstance(record, _LogRecord):
            self._begun[tp.partition] = record.at
        return self._keep(tp, offset, record)

    def _keep(self, tp: TopicPartition, offset: int, record: _TopicRecord) -> list[StoredAnswer]:
        """Put a record into the tables; return the answer in it if it is its grant's first."""
        match record:
            case _AnswerRecord(grant, dataset, analyst, request_id, answer):
                put = NewAnswer(
                    grant=grant,
                    partition=tp.partition,
                    dataset=dataset,
                    analyst=analyst,
                    request_id=request_id,
                    value=bytes(answer),
                )
                return self._tables.put_first([put], number=offset + 1)[1]
            case _StepRecord(grant, kind, body):
                self._tables.put_step(grant, kind, bytes(body))
            case _TakenBackRecord(grant, kind, body):
                self._tables.take_back(grant, kind, bytes(body))
            case _LogRecord(ledger, begins):
                bound, _ = self._tables.open_log(tp.partition, ledger, begins)
                if bound == ledger:  # the last one: answers may be missing since
                    self._tables.begin_again(tp.partition, begins)
            case _PlaceRecord(number, head):
                self._tables.move(tp.partition, LogPlace(number, head))
            case _CuratorRecord():
                self._curators[tp.partition] = record.text
            case _SourceRecord(state):
                self.states[state.dataset] = state
        return []

    def _check_chain(self, tp: TopicPartition, offset: int, record: _Record) -> None:
        """Raises: ChainBroken: a record does not continue those before it."""
        partition = tp.partition
        if record.previous == self._hashes[partition].hex() and record.random:
            self._chained.add(partition)
        elif record.previous or partition in self._chained:
            raise ChainBroken(
                f"{tp.topic}, partition {partition}, offset {offset}: this record does not "
                "continue the records before it. Somebody else has written to the topic, or "
                "records were removed. Put the newest copy back, and check who may write to it",
                partition=partition,
            )

    def head(self, partition: int) -> StoredHead:
        """Return the head of a partition's chain as far as it was read, for the log's branch 0."""
        head = ChainHead(self._taken[partition], f"sha256:{self._hash(partition)}")
        return StoredHead(head, 0, self._begun[partition], 0)

    def _hash(self, partition: int) -> str:
        return (self._hashes[partition] or hashlib.sha256().digest()).hex()

    async def get(self, grant: str) -> StoredAnswer | None:
        """As `AnswerReader.get`."""
        return self._tables.get(grant)

    async def find(self, dataset: str, analyst: str, request_id: str) -> StoredAnswer | None:
        """As `AnswerReader.find`."""
        return self._tables.find(dataset, analyst, request_id)

    async def page(self, dataset: str, *, after: int, limit: int) -> list[StoredAnswer]:
        """As `AnswerReader.page`."""
        return self._tables.page(dataset, after=after, limit=limit)

    async def place(self, partition: int) -> LogPlace:
        """As `AnswerStore.place`."""
        return self._tables.place(partition)

    def subscribe(self) -> Subscription[StoredAnswer]:
        """As `AnswerReader.subscribe`."""
        return self._new.subscribe()

    async def stop_reading(self) -> None:
        """Read nothing more; what was read stays."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})

    async def close(self) -> None:
        """Close everything."""
        await self.stop_reading()
        self._new.end()
        self._tables.close()


async def open_answers(deployment: Deployment) -> AnswerTopic | None:
    """Return a reader of the answers, None where this process sees no such topic.

    A ledger whose topics were made earlier has none, and neither has a principal without the right.
    Raises: as `AnswerTopic.start`.
    """
    return await AnswerTopic.start(deployment) if await _is_there(deployment) else None


async def open_answer_chain(deployment: Deployment) -> AnswerChain | None:
    """Return a reader of the answers' chain, None where this process sees no such topic.

    Raises: as `AnswerTopic.start`.
    """
    return await AnswerChain.start(deployment) if await _is_there(deployment) else None


async def _is_there(deployment: Deployment) -> bool:
    async with admin_of(deployment.cluster) as admin:
        with translate_errors():
            return deployment.topics.answers in await admin.list_topics()


async def read_all_answers(deployment: Deployment) -> AnswerFile | None:
    """Return the answers that were committed before the call, None without such a topic.

    Raises: as `AnswerTopic.start`.
    """
    if not await _is_there(deployment):
        return None
    topic = await HashedTopic.start(deployment)
    await topic.stop_reading()
    return topic.file()


class HashedTopic(AnswerTopic):
    """Reads the topic, and remembers the hash of each record."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self._all = {number: [self._hash(number)] for number in range(deployment.partitions)}

    def _count(self, partition: int, value: bytes) -> None:
        super()._count(partition, value)
        self._all[partition].append(self._hash(partition))

    def chain(self, partition: int) -> ChainEnd:
        """Return a partition's chain as far as it was read."""
        hashes = [f"sha256:{each}" for each in self._all[partition]]
        return ChainEnd(tuple(hashes), 0)

    def file(self) -> AnswerFile:
        """Return what was read, as an audit reads a file. Call it after `stop_reading`."""
        name = Path(f"topic {self._deployment.topics.answers}")
        return _TopicFile(self._tables.connection, name, self)


class AnswerChain(HashedTopic):
    """Reads the topic for its chain alone: it has no answers."""

    def _keep(self, tp: TopicPartition, offset: int, record: _TopicRecord) -> list[StoredAnswer]:
        return []


class _TopicFile(AnswerFile):
    """The answers of a topic, in the tables of its reader."""

    def __init__(self, db: apsw.Connection, path: Path, topic: HashedTopic) -> None:
        super().__init__(db, path)
        self._topic = topic

    def chain(self, partition: int, ledger: str) -> ChainEnd | None:
        """Return a partition's chain, which was checked as it was read."""
        return self._topic.chain(partition)

    def entries(self, partition: int) -> Iterator[tuple[StoredAnswer, Entry | None]]:
        """Yield the answers alone: their chain is one of all records of the topic."""
        yield from ((answer, None) for answer in answers_in_order(self._db, partition))


class KafkaAnswers(AnswerTopic):
    """The `AnswerStore` of a curator: the topic's only writer, until another one starts."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self._writers: dict[int, TransactionalProducer] = {}
        self._fenced: dict[int, TransactionalProducer] = {}  # started, and not used yet
        self._marked = set[int]()  # partitions whose mark was found or written
        self._writing = {number: asyncio.Lock() for number in range(deployment.partitions)}
        since = iso(SystemClock().now())
        self._own = _CuratorRecord(platform.node(), os.getpid(), since)

    async def _open(self) -> None:
        # A curator that was killed may have left a transaction open, which hides its end from
        # readers for up to 20 s. A producer's start aborts it.
        for partition in self._writing:
            async with self._stopping_if_fenced(partition):
                self._fenced[partition] = await self._new_producer(partition)
        await super()._open()

    async def open_log(self, partition: int, ledger: str, begins: int) -> int:
        """As `AnswerStore.open_log`."""
        now = SystemClock().now()
        async with self._written(partition) as records:
            if self._curators.get(partition) != self._own.text:
                records.append(self._own)
            first = self._tables.bound_log(partition)
            if first is None:
                records.append(_LogRecord(ledger, begins, now))
            elif first[0] == ledger and partition not in self._marked:
                # Nobody knows which answers were read: all of those here, or more.
                records.append(_LogRecord(ledger, begins, now))
                _log.warning(
                    "answers_may_be_missing",
                    partition=partition,
                    then=f"questions that were granted before decision {begins} are not run",
                )
        bound = self._tables.bound_log(partition)
        assert bound is not None
        if bound[0] != ledger:
            raise Refused(
                f"{self._deployment.topics.answers} has the answers of ledger {bound[0]}, and this "
                f"is ledger {ledger}. Give each ledger its own topics"
            )
        return bound[1]

    async def move(self, partition: int, place: LogPlace) -> None:
        """As `AnswerStore.move`."""
        async with self._written(partition) as records:
            records.append(_PlaceRecord(*place))

    async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        """As `AnswerStore.put_first`."""
        if not answers:
            return []
        async with self._written(answers[0].partition) as records:
            # This process has read every answer, and nobody else can write one.
            new = [each for each in answers if self._tables.get(each.grant) is None]
            records.extend(map(_record_of, new))
        return [self._stored(each.grant) for each in answers]

    def _stored(self, grant: str) -> StoredAnswer:
        stored = self._tables.get(grant)
        assert stored is not None, "it was written and read back"
        return stored

    async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
        """As `AnswerStore.put_step`."""
        async with self._written(partition) as records:
            if self._tables.step(grant, kind) is None:
                records.append(_StepRecord(grant, kind, msgspec.Raw(body)))
        stored = self._tables.step(grant, kind)
        assert stored is not None
        return stored

    async def take_back(self, partition: int, grant: str, kind: StepKind, body: bytes) -> None:
        """As `AnswerStore.take_back`."""
        async with self._written(partition) as records:
            if self._tables.step(grant, kind) == body:
                records.append(_TakenBackRecord(grant, kind, msgspec.Raw(body)))

    async def publish_states(self, states: Sequence[PublishedState]) -> None:
        """As `StatePublisher.publish_states`; all in one partition, so that the last one counts."""
        async with self._written(0) as records:
            # Of a dataset that is closed by now, or reads no source, nothing is refused.
            others = self.states.keys() - {each.dataset for each in states}
            freed = [PublishedState(dataset=each, source="") for each in sorted(others)]
            new = [each for each in (*states, *freed) if self.states.get(each.dataset) != each]
            records.extend(map(_SourceRecord, new))

    async def close(self) -> None:
        """As `AnswerStore.close`."""
        for producer in (*self._writers.values(), *self._fenced.values()):
            producer.drop()
        await super().close()

    @contextlib.asynccontextmanager
    async def _written(self, partition: int) -> AsyncIterator[list[_TopicRecord]]:
        """Yield a list, write its records in one transaction, and read them back.

        Raises: Unavailable: whether they are written is unknown. Refused: another curator writes.
        """
        records = list[_TopicRecord]()
        async with self._writing[partition], self._stopping_if_fenced(partition):
            producer = await self._producer(partition)
            yield records
            self._check_following()
            if not records:
                return
            topic = self._deployment.topics.answers
            values = list(_chain(self._hashes[partition], records))
            taken = self._taken[partition] + len(records)
            mark = self._mark(partition, taken, values)
            await producer.transact(
                partition, {topic: [Record(None, value) for value in values]}, mark
            )
            self._marked.add(partition)
            await self._read_back(lambda: self._taken[partition] >= taken)

    async def marked(self) -> set[int]:
        """Return the partitions whose mark fits their records; those without begin again.

        Raises: Refused: a mark does not fit. Unavailable.
        """
        for partition, writing in self._writing.items():
            async with writing, self._stopping_if_fenced(partition):
                await self._producer(partition)
        return set(self._marked)

    def _mark(self, partition: int, records: int, new: Sequence[bytes] = ()) -> GroupOffset:
        """Return the mark of the records that were read, and of new ones after them."""
        hashed = self._hashes[partition]
        for value in new:
            hashed = _hash_on(hashed, value)
        return GroupOffset(self.group, self._tp(partition), records, hashed.hex())

    async def _check_mark(self, partition: int, producer: TransactionalProducer) -> None:
        """Check that the topic has the records that were written last.

        An empty topic fits: it begins as a new one. So does one without a mark, which expires when
        nobody has written for long, or is deleted with its topic.

        Raises: Refused: the topic is an older copy, or another one.
        """
        mark = await producer.offset_of(self.group, self._tp(partition))
        taken = self._taken[partition]
        if mark is None or not taken:
            return
        if mark != self._mark(partition, taken):
            topic = self._deployment.topics.answers
            raise Refused(
                f"{topic}, partition {partition}, does not have the {mark.offset} records that "
                f"were written last, but {taken}: it is an older copy, or somebody else has "
                f"written to it. Put the newest back. {BEGIN_AGAIN.format(group=self.group)}"
            )
        self._marked.add(partition)

    @contextlib.asynccontextmanager
    async def _stopping_if_fenced(self, partition: int) -> AsyncIterator[None]:
        try:
            yield
        except Fenced as error:
            raise Refused(
                f"another curator has started ({await self._successor(partition)}), and writes the "
                f"answers of partition {partition}. This one has stopped; run one at a time"
            ) from error
        except JournalFault as error:
            # The next call starts a producer that ends what this one left.
            producer = self._writers.pop(partition, None)
            if producer is not None:
                producer.drop()
            raise Unavailable(f"the answers cannot be written: {error}") from error

    async def _successor(self, partition: int) -> str:
        """Return which curator writes a partition now, as far as it has said so."""
        with contextlib.suppress(TimeoutError, Refused):
            async with asyncio.timeout(_SUCCESSOR_S):
                await self._wait(lambda: self._curators.get(partition) != self._own.text)
        found = self._curators.get(partition)
        return "it has not said which" if found in (None, self._own.text) else found

    async def _producer(self, partition: int) -> TransactionalProducer:
        """Return the producer of a partition, whose every earlier record this process has read."""
        producer = self._writers.get(partition)
        if producer is None:
            producer = self._fenced.pop(partition, None) or await self._new_producer(partition)
            try:
                end = await self._catch_up(partition)
                await self._check_mark(partition, producer)
            except BaseException:
                producer.drop()
                raise
            producer.expect_at(self._deployment.topics.answers, end)
            self._writers[partition] = producer
        return producer

    async def _new_producer(self, partition: int) -> TransactionalProducer:
        """Return a producer of a partition: from its start on nobody else can commit."""
        name = f"{self._deployment.application}-{ANSWER_IDS}{partition}"
        producer = TransactionalProducer(self._deployment.cluster, name)
        await producer.start()
        return producer

    async def _catch_up(self, partition: int) -> int:
        async with StableReader(self._deployment.cluster, [self._tp(partition)]) as reader:
            end = reader.spans[self._tp(partition)].end
        await self._read_back(lambda: self._offsets[self._tp(partition)] >= end)
        return end

    async def _read_back(self, is_there: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(_READ_BACK_S):
                await self._wait(is_there)
        except TimeoutError as error:
            raise Unavailable(self.trouble or "the answers are not read in time") from error


def _chain(before: bytes, records: Sequence[_TopicRecord]) -> Iterator[bytes]:
    """Yield the bytes of records that continue a chain."""
    for record in records:
        random = secrets.token_hex(RANDOM_BYTES)
        chained = msgspec.structs.replace(record, previous=before.hex(), random=random)
        value = _encode(chained)
        yield value
        before = _hash_on(before, value)


def _hash_on(before: bytes, value: bytes) -> bytes:
    return hashlib.sha256(before + value).digest()


def _record_of(answer: NewAnswer) -> _AnswerRecord:
    return _AnswerRecord(
        answer.grant, answer.dataset, answer.analyst, answer.request_id, msgspec.Raw(answer.value)
    )
