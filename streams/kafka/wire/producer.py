"""A transactional producer that reports a commit only where there was one.

aiokafka's producer sends in the background and retries by itself when an answer is lost, so it
could send a commit twice. This producer sends each request of a transaction itself (add the
partitions, write, end) and waits for the answer. It sends a request again only where the broker
carries it out once; every other unexpected answer is a fault. It never sends EndTxn again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from streams.errors import CommitUnknown, JournalFault, Refused
from streams.kafka.wire.batches import Batch, Fields, ProducerId, batches
from streams.kafka.wire.brokers import AWAY_S, Brokers
from streams.kafka.wire.describe_transactions import DescribeTransactionsRequest
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.group_offset import GroupOffset, fetch_offset
from streams.kafka.wire.security import Cluster

REQUEST_TIMEOUT_MS: Final = 4_000
TRANSACTION_TIMEOUT_MS: Final = 10_000
# The first pause. The broker answers CONCURRENT_TRANSACTIONS or NOT_ENOUGH_REPLICAS while it
# writes the last transaction's markers; pauses of 100 ms would make commits five times slower.
RETRY_BACKOFF_MS: Final = 2
_PATIENCE_S: Final = 15.0
# Counted from the begin: the broker aborts a longer transaction, and ends the producer's epoch.
_BEGUN_S: Final = TRANSACTION_TIMEOUT_MS / 1000 - 1
_ALL_REPLICAS: Final = -1
_LIMITED: Final = (
    f"the broker's transaction.max.timeout.ms is below {TRANSACTION_TIMEOUT_MS}, which a "
    f"worker needs: set it to {TRANSACTION_TIMEOUT_MS} or more on every broker"
)

_MOVED: Final = (kafka.NotCoordinatorError, kafka.CoordinatorNotAvailableError)
_NOT_YET: Final = (
    *_MOVED,
    kafka.CoordinatorLoadInProgressError,
    kafka.ConcurrentTransactions,
    kafka.UnknownTopicOrPartitionError,
)
"""Errors on a begin that the producer retries; the broker begins the transaction once."""


class TransactionalProducer:
    """The only writer of one partition. Its start fences every predecessor and aborts its work.

    Args:
        cluster: where it writes.
        transactional_id: one for each partition of an application.
    """

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._id = transactional_id
        self._brokers = Brokers(cluster, transactional_id, REQUEST_TIMEOUT_MS)
        self._producer = ProducerId(-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._ends: dict[str, int] = {}  # by topic: the end offset as read, until the first write
        self._last: dict[str, int] = {}
        self._over = False

    async def start(self) -> None:
        """Connect, fence the predecessor and abort its open transaction.

        Raises: JournalFault, Refused.
        """
        with translate_errors():
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._brokers.connect()
                    await self._fence()
            except BaseException:
                self.drop()
                raise

    async def _fence(self) -> None:
        request = InitProducerIdRequest(self._id, TRANSACTION_TIMEOUT_MS)
        for tries in itertools.count():
            answer = await self._brokers.ask_coordinator(request)
            error = kafka.for_code(answer.error_code)
            if error is kafka.NoError:
                self._producer = ProducerId(answer.producer_id, answer.producer_epoch)
                return
            if error is kafka.InvalidTransactionTimeout:
                raise Refused(_LIMITED)
            await self._wait_or_raise(error, self._id, tries)

    async def transact(
        self,
        partition: int,
        records: dict[str, Iterable[Fields]],
        offset: GroupOffset | None = None,
    ) -> None:
        """Write records to topics, all at the same partition number, in one transaction.

        The steps, and what readers of committed records find if the process dies after each:

        1. Number the batches, in memory. The producer has sent nothing.
        2. Add the partitions. The transaction is open and empty: the successor's start aborts it,
           or the broker aborts it after `TRANSACTION_TIMEOUT_MS`.
        3. Write, and wait until all replicas have each batch. Readers find nothing; the
           transaction is aborted as after 2. One exception: a late duplicate of an old EndTxn may
           end it here. `_next_writes` says why readers then find a consistent prefix.
        4. End. Readers find the whole transaction, though the broker may not have written all
           markers or answered yet. The successor's start waits for the markers, so its replay
           reads all of it.

        A process that dies within a step leaves either the case before it or the one after it.
        The producer never sends EndTxn again, and does nothing more once it has raised.

        Args:
            records: by topic; a topic whose records refer to another topic's comes after it.
            offset: to commit with the records, if there are any.
        Returns once the broker has said that the transaction is committed.
        Raises: JournalFault: whether it was committed is unknown.
        """
        self._check_not_over()
        with translate_errors(committing=True):
            try:
                async with asyncio.timeout(_PATIENCE_S) as limit:
                    # 1. Number the batches. An empty commit sends nothing.
                    pending = self._batches(partition, records)
                    if pending:
                        # 2. The broker's transaction timeout counts from here; this limit is
                        # shorter, so this process gives up before the broker does.
                        await self._add(pending)
                        limit.reschedule(asyncio.get_running_loop().time() + _BEGUN_S)
                        # 3. All replicas must have every batch before the end makes them visible.
                        await self._write(pending)
                        if offset is not None:
                            await self._commit_offset(offset)
                        # 4. Sent once: a second EndTxn could end the next transaction instead.
                        await self._end(commit=True)
            except BaseException as error:
                # The transaction may still be open: this producer must add nothing to it.
                self._over = True
                if isinstance(error, TimeoutError):
                    raise CommitUnknown("the broker did not answer in time") from None
                raise

    async def broker_time(self, tp: TopicPartition) -> int:
        """Return the time of the broker that coordinates this producer's transactions.

        No request of the protocol returns a broker's time as such. The coordinator records by its
        own clock when a transaction begins, so this begins one, describes it and aborts it. The
        only trace is the abort's marker in the partition.

        Args:
            tp: a partition that this producer may write to.
        Returns: milliseconds since 1970.
        Raises: JournalFault, Refused: it is not known; this producer can no longer be used.
        """
        self._check_not_over()
        with translate_errors():
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._add([tp])
                    began = await self._began_at()
                    await self._end(commit=False)
            except BaseException:
                self._over = True
                raise
        return began

    async def _began_at(self) -> int:
        answer = await self._brokers.ask_coordinator(DescribeTransactionsRequest(self._id))
        ((code, _, _, _, began, *_),) = answer.transaction_states
        error = kafka.for_code(code)
        if error is not kafka.NoError:
            raise error(self._id)
        return int(began)

    def _batches(
        self, partition: int, records: dict[str, Iterable[Fields]]
    ) -> dict[TopicPartition, list[Batch]]:
        """Return the batches to write, by partition, the last one first."""
        pending = {}
        for topic, some in records.items():
            tp = TopicPartition(topic, partition)
            made = batches(some, self._producer, self._sequences.get(tp, 0))
            if made:
                self._sequences[tp] = made[-1].next_sequence
                pending[tp] = made[::-1]
        return pending

    async def _add(self, tps: Iterable[TopicPartition]) -> None:
        """Begin the transaction, after finding the leaders that take its writes."""
        self._brokers.learn({tp.topic for tp in tps})
        for tp in tps:
            await self._brokers.leader(tp)
        request = AddPartitionsToTxnRequest(
            self._id, *self._producer, [(tp.topic, [tp.partition]) for tp in tps]
        )
        for tries in itertools.count():
            answer = await self._brokers.ask_coordinator(request)
            errors = {
                kafka.for_code(code): topic
                for topic, partitions in answer.errors
                for _, code in partitions
            }
            if errors.keys() == {kafka.NoError}:
                return
            # If the broker refuses one partition, it does not try the others.
            refused = errors.keys() - {kafka.NoError, kafka.OperationNotAttempted}
            for error in refused or [kafka.OperationNotAttempted]:
                await self._wait_or_raise(error, errors.get(error, self._id), tries)

    async def _wait_or_raise(self, error: type[kafka.KafkaError], of: str, tries: int) -> None:
        """Wait before the caller retries a request, or raise if a retry cannot help."""
        if error not in _NOT_YET:
            raise error(of)
        if error in _MOVED:
            self._brokers.forget_coordinator()
        await _pause(tries, markers=error is kafka.ConcurrentTransactions)

    async def _commit_offset(self, offset: GroupOffset) -> None:
        """Add a group's offset to the transaction. The broker takes it once."""
        group, (topic, partition), number, text = offset
        adding = AddOffsetsToTxnRequest(self._id, *self._producer, group)
        for tries in itertools.count():
            error = kafka.for_code((await self._brokers.ask_coordinator(adding)).error_code)
            if error is kafka.NoError:
                break
            await self._wait_or_raise(error, group, tries)
        where = [(topic, [(partition, number, text)])]
        commit = TxnOffsetCommitRequest(self._id, group, *self._producer, where)
        for tries in itertools.count():
            answer = await self._brokers.ask_group(group, commit)
            ((_, ((_, code),)),) = answer.errors
            error = kafka.for_code(code)
            if error is kafka.NoError:
                return
            if error in _MOVED:
                self._brokers.forget_group(group)
            await self._wait_or_raise(error, group, tries)

    async def offset_of(self, group: str, tp: TopicPartition) -> GroupOffset | None:
        """Return what a group has committed for a partition; wait until its coordinator is known.

        Call it after `start`, which waits for the end of the predecessor's transaction. The offset
        of this producer's own last transaction may be visible later than its commit.

        Raises: JournalFault, Refused.
        """
        self._check_not_over()
        with translate_errors():
            async with asyncio.timeout(_PATIENCE_S):
                for tries in itertools.count():
                    try:
                        return await fetch_offset(self._brokers, group, tp)
                    except _NOT_YET:
                        await _pause(tries, markers=False)
        raise AssertionError("unreachable")

    async def _write(self, pending: dict[TopicPartition, list[Batch]]) -> None:
        """Send all batches in the order of `_next_writes`. The broker appends each once."""
        tries = 0
        while pending:
            by_leader = defaultdict(list)
            for tp in _next_writes(pending):
                by_leader[await self._brokers.leader(tp)].append(tp)
            writes = [
                self._write_to(node, {tp: pending[tp][-1] for tp in tps})
                for node, tps in by_leader.items()
            ]
            again: set[type[kafka.KafkaError]] = set()
            written = await asyncio.gather(*writes) if writes[1:] else [await writes[0]]
            for tp, error, offset in itertools.chain(*written):
                if error is kafka.NoError:
                    self._check_continues(tp.topic, offset)
                    pending[tp].pop()
                    if not pending[tp]:
                        del pending[tp]
                elif error.retriable:
                    again.add(error)
                else:
                    raise error(tp)
            if again:
                if any(error.invalid_metadata for error in again):
                    await self._brokers.refresh()
                await _pause(tries, markers=again == {kafka.NotEnoughReplicasError})
                tries += 1

    async def _write_to(
        self, node: int, sent: dict[TopicPartition, Batch]
    ) -> list[tuple[TopicPartition, type[kafka.KafkaError], int]]:
        """Send a batch of each partition to their leader; return each one's error and offset."""
        request = ProduceRequest(
            transactional_id=self._id,
            required_acks=_ALL_REPLICAS,
            timeout=REQUEST_TIMEOUT_MS,
            topics=[(tp.topic, [(tp.partition, batch.data)]) for tp, batch in sent.items()],
        )
        try:
            answer = await self._brokers.ask(node, request)
        except kafka.KafkaError as error:
            if not error.retriable:
                raise
            # The sequence numbers make the broker append a batch once, even if two copies arrive.
            return [(tp, type(error), -1) for tp in sent]
        return [
            (TopicPartition(topic, partition), kafka.for_code(code), offset)
            for topic, partitions in answer.topics
            for partition, code, offset, *_ in partitions
        ]

    async def _end(self, *, commit: bool) -> None:
        request = EndTxnRequest(self._id, *self._producer, commit)
        answer = await self._brokers.ask_coordinator(request)
        error = kafka.for_code(answer.error_code)
        if error is not kafka.NoError:
            raise error(self._id)

    def _check_not_over(self) -> None:
        if self._over:
            raise CommitUnknown("this producer has failed or was dropped")

    def expect_at(self, topic: str, offset: int) -> None:
        """Expect the first write to a topic at its end offset, as read after this producer's start.

        This producer has fenced all other writers. The read was complete if, and only if, the
        first record that this producer writes takes this offset. A deposed leader that does not
        know it yet shows readers an old end, but cannot confirm a write to all replicas.
        """
        self._ends[topic] = offset
        self._brokers.learn({topic})

    def _check_continues(self, topic: str, offset: int) -> None:
        """Detect a topic that was not read to its end, or that was recreated during the run.

        Raises: JournalFault: no record of the transaction is visible yet.
        """
        expected, last = self._ends.pop(topic, offset), self._last.get(topic, -1)
        if offset != expected or offset <= last:
            raise JournalFault(
                f"{topic} continues at offset {offset}, not at {max(expected, last + 1)}: it was "
                "recreated, or read from a broker that no longer leads it"
            )
        self._last[topic] = offset

    def drop(self) -> None:
        """Close the sockets and nothing else: no flush, no abort, no request to the broker."""
        self._over = True
        self._brokers.close()


def _next_writes(pending: dict[TopicPartition, list[Batch]]) -> list[TopicPartition]:
    """Return the partitions to write next: a topic starts with the last batch of those before it.

    A late duplicate of an old EndTxn can end the transaction while it is being written. The
    records visible then must not refer to decisions that are not visible.
    """
    due = []
    for tp, some in pending.items():
        due.append(tp)
        if len(some) > 1:
            break  # later topics wait: their records refer to the batches that are still missing
    return due


async def _pause(tries: int, *, markers: bool) -> None:
    """Wait before a retry; while the broker writes markers, each pause is longer than the last."""
    growing = RETRY_BACKOFF_MS / 1000 * 1.5 ** min(tries, 20)
    await asyncio.sleep(min(growing, AWAY_S) if markers else AWAY_S)
