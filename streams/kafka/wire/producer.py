"""A transactional producer that reports a commit only where there was one.

The client library's own producer sends in the background, and asks again by itself where an
answer was lost: a commit could so be sent twice. This one sends each request of a transaction
itself and waits for its answer: to add the partitions, to write, to end. Any answer but the one
hoped for is a fault; nothing that decides a transaction is ever sent again.
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
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from streams.errors import CommitUnknown, JournalFault, Refused
from streams.kafka.wire.batches import Batch, Fields, ProducerId, batches
from streams.kafka.wire.brokers import AWAY_S, Brokers
from streams.kafka.wire.errors import translating

REQUEST_TIMEOUT_MS: Final = 4_000
TRANSACTION_TIMEOUT_MS: Final = 10_000
# The first pause. The broker answers CONCURRENT_TRANSACTIONS or NOT_ENOUGH_REPLICAS while the
# last transaction's markers are written; to wait for 100 ms then costs a factor of five.
RETRY_BACKOFF_MS: Final = 2
_PATIENCE_S: Final = 15.0
# Once begun: a transaction that takes longer is aborted by the broker, and its epoch is over.
_BEGUN_S: Final = TRANSACTION_TIMEOUT_MS / 1000 - 1
_ALL_REPLICAS: Final = -1
_LIMITED: Final = (
    f"the broker's transaction.max.timeout.ms is below {TRANSACTION_TIMEOUT_MS}, for which a "
    f"partition's writer asks: set it to {TRANSACTION_TIMEOUT_MS} or more on every broker"
)

_MOVED: Final = (kafka.NotCoordinatorError, kafka.CoordinatorNotAvailableError)
_NOT_YET: Final = (
    *_MOVED,
    kafka.CoordinatorLoadInProgressError,
    kafka.ConcurrentTransactions,
    kafka.UnknownTopicOrPartitionError,
)
"""Answers to the beginning of a transaction that say: ask again, which does it once."""


class TransactionalProducer:
    """One partition's writer. Starting it fences and aborts every predecessor.

    Args:
        bootstrap: `host:port`.
        transactional_id: one for each partition of an application.
    """

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._id = transactional_id
        self._brokers = Brokers(bootstrap, transactional_id, REQUEST_TIMEOUT_MS)
        self._producer = ProducerId(-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._ends: dict[str, int] = {}  # of topics that were read, until they are written to
        self._last: dict[str, int] = {}
        self._over = False

    async def start(self) -> None:
        """Connect, fence the predecessor and abort what it left open.

        Raises: JournalFault, Refused.
        """
        with translating():
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

    async def transact(self, partition: int, records: dict[str, Iterable[Fields]]) -> None:
        """Write records to topics, all at the same partition number, in one transaction.

        The steps, and what readers of committed records find where the process dies behind each:

        1. Number the batches, in memory. Nothing was sent.
        2. Add the partitions: the transaction is begun, and empty. The successor's start aborts
           it, or the broker does after `TRANSACTION_TIMEOUT_MS`.
        3. Write, and wait until all replicas have each batch. Nothing is visible; the transaction
           is aborted as after 2. One exception: a late duplicate of an old EndTxn may end it
           here; `_due` says why what is visible then is a prefix that stands for itself.
        4. End. From here on all of it is visible, though its markers and the broker's answer may
           still be on their way: the successor's start waits for the markers, so its refold sees
           all of it.

        A process that dies within a step leaves either the case before it or the one after it.
        The producer never sends EndTxn again, and does nothing more once it has raised.

        Args:
            records: by topic; one whose records speak of another's comes behind it.
        Returns once the broker has said that the transaction is committed.
        Raises: JournalFault: whether it was committed is unknown.
        """
        self._check_not_over()
        with translating(committing=True):
            try:
                async with asyncio.timeout(_PATIENCE_S) as limit:
                    # 1
                    pending = self._batches(partition, records)
                    if pending:
                        # 2
                        await self._add(pending)
                        limit.reschedule(asyncio.get_running_loop().time() + _BEGUN_S)
                        # 3
                        await self._write(pending)
                        # 4
                        await self._end()
            except BaseException as error:
                # The transaction may be open still: nothing may ever be added to it.
                self._over = True
                if isinstance(error, TimeoutError):
                    raise CommitUnknown("the broker did not answer in time") from None
                raise

    def _batches(
        self, partition: int, records: dict[str, Iterable[Fields]]
    ) -> dict[TopicPartition, list[Batch]]:
        """Return what is to be written, the batches of each topic last first."""
        pending = {}
        for topic, some in records.items():
            tp = TopicPartition(topic, partition)
            made = batches(some, self._producer, self._sequences.get(tp, 0))
            if made:
                self._sequences[tp] = made[-1].following
                pending[tp] = made[::-1]
        return pending

    async def _add(self, tps: Iterable[TopicPartition]) -> None:
        """Begin the transaction; once it is known to whom the writes go."""
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
            # Where one could not be added, the others were not tried.
            refused = errors.keys() - {kafka.NoError, kafka.OperationNotAttempted}
            for error in refused or [kafka.OperationNotAttempted]:
                await self._wait_or_raise(error, errors.get(error, self._id), tries)

    async def _wait_or_raise(self, error: type[kafka.KafkaError], of: str, tries: int) -> None:
        """Wait before what the coordinator has refused is asked again, if that may help."""
        if error not in _NOT_YET:
            raise error(of)
        if error in _MOVED:
            self._brokers.forget_coordinator()
        await _pause(tries, markers=error is kafka.ConcurrentTransactions)

    async def _write(self, pending: dict[TopicPartition, list[Batch]]) -> None:
        """Send all batches in order, see `_due`. The broker takes each once."""
        tries = 0
        while pending:
            by_leader = defaultdict(list)
            for tp in _due(pending):
                by_leader[await self._brokers.leader(tp)].append(tp)
            writes = [
                self._write_to(node, {tp: pending[tp][-1] for tp in tps})
                for node, tps in by_leader.items()
            ]
            again: set[type[kafka.KafkaError]] = set()
            written = await asyncio.gather(*writes) if writes[1:] else [await writes[0]]
            for tp, error, offset in itertools.chain(*written):
                if error is kafka.NoError:
                    self._check_goes_on(tp.topic, offset)
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
            # Its numbers make the broker take a batch once, even if both of two copies arrive.
            return [(tp, type(error), -1) for tp in sent]
        return [
            (TopicPartition(topic, partition), kafka.for_code(code), offset)
            for topic, partitions in answer.topics
            for partition, code, offset, *_ in partitions
        ]

    async def _end(self) -> None:
        request = EndTxnRequest(self._id, *self._producer, True)
        answer = await self._brokers.ask_coordinator(request)
        error = kafka.for_code(answer.error_code)
        if error is not kafka.NoError:
            raise error(self._id)

    def _check_not_over(self) -> None:
        if self._over:
            raise CommitUnknown("this producer has failed or was dropped")

    def expect_at(self, topic: str, offset: int) -> None:
        """Know where a topic ended when it was read, after this producer's start.

        Who has fenced all others writes there next, so what was read was all there is if, and only
        if, the first record that is written takes this very offset. A broker that leads the
        topic no more, and does not know it yet, tells readers of an end long passed; to a write
        that needs all replicas it cannot answer.
        """
        self._ends[topic] = offset
        self._brokers.learn({topic})

    def _check_goes_on(self, topic: str, offset: int) -> None:
        """Notice a topic of which not all was read, or that was deleted and made anew under us.

        Raises: JournalFault: before anything of the transaction is visible.
        """
        expected, last = self._ends.pop(topic, offset), self._last.get(topic, -1)
        if offset != expected or offset <= last:
            raise JournalFault(
                f"{topic} goes on at offset {offset}, not at {max(expected, last + 1)}: it was "
                "recreated, or read from a broker that leads it no more"
            )
        self._last[topic] = offset

    def drop(self) -> None:
        """Close the sockets and nothing else: no flush, no abort, no last word to the broker."""
        self._over = True
        self._brokers.close()


def _due(pending: dict[TopicPartition, list[Batch]]) -> list[TopicPartition]:
    """Return what may be written next: a topic begins with the last batch of those before it.

    Whoever sends an old request to end a transaction once more ends the one that is being
    written, in its middle: what is visible then must not speak of decisions that are not.
    """
    due = []
    for tp, some in pending.items():
        due.append(tp)
        if len(some) > 1:
            break
    return due


async def _pause(tries: int, *, markers: bool) -> None:
    """Wait before asking again; for markers the longer, the longer they take."""
    growing = RETRY_BACKOFF_MS / 1000 * 1.5 ** min(tries, 20)
    await asyncio.sleep(min(growing, AWAY_S) if markers else AWAY_S)
