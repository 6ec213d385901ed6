"""A transactional producer that reports a commit only where there was one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka
from aiokafka.producer import sender
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)

from streams.errors import CommitUnknown, JournalFault
from streams.kafka.errors import LostResponse, translated, translating

_DECISIVE: Final = (
    EndTxnRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
)
_LOST: Final = (kafka.KafkaConnectionError, kafka.RequestTimedOutError, kafka.NodeNotReadyError)

REQUEST_TIMEOUT_MS: Final = 4_000
TRANSACTION_TIMEOUT_MS: Final = 10_000
# The broker answers NOT_ENOUGH_REPLICAS while the last transaction's markers are written;
# the client's default of 100 ms before trying again costs a factor of five.
RETRY_BACKOFF_MS: Final = 2
# And while it says so of a transaction's first request, CONCURRENT_TRANSACTIONS, the client waits
# for 20 ms whatever it was told: most of what a request waits for, where one follows another.
sender.BACKOFF_OVERRIDE = RETRY_BACKOFF_MS / 1000
# Below the smallest topic limit, 1 MiB, with room for a batch's own header.
BATCH_BYTES: Final = 900_000
_PATIENCE_S: Final = 15.0
# While nobody answers, RETRY_BACKOFF_MS would keep a core busy with asking.
_AWAY_S: Final = 0.1

T = TypeVar("T")


Fields = tuple[bytes | None, bytes | None, int | None, Sequence[tuple[str, bytes]]]
"""One record to write: key, value, timestamp in milliseconds since 1970 or None, headers."""


class Record(NamedTuple):
    """One record to write, by names; where there are many, a plain tuple of them does.

    Attributes:
        timestamp: milliseconds since 1970, None for now.
    """

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()


class TransactionalProducer:
    """One partition's writer. Starting it fences and aborts every predecessor.

    Args:
        bootstrap: `host:port`.
        transactional_id: one for each partition of an application.
    """

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            max_batch_size=BATCH_BYTES,
            max_request_size=4 * BATCH_BYTES,
            linger_ms=0,
        )
        self._last: dict[str, int] = {}
        self._ask_slowly_while_away()

    def _ask_slowly_while_away(self) -> None:
        client: Any = self._producer.client
        for name in ("_metadata_update", "ready"):
            setattr(client, name, _slow_to_fail(getattr(client, name)))

    async def start(self) -> None:
        """Connect, fence the predecessor and abort what it left open.

        Raises: JournalFault, Refused.
        """
        with translating():
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await self._producer.start()
            except BaseException:
                self.drop()
                raise
        self._make_lost_responses_fatal()

    def _make_lost_responses_fatal(self) -> None:
        client: Any = self._producer.client
        send = client.send

        async def guarded(node: Any, request: Any, **options: Any) -> Any:
            try:
                return await send(node, request, **options)
            except _LOST as error:
                if isinstance(request, _DECISIVE):
                    raise LostResponse(f"{type(request).__name__}: {error}") from error
                raise

        client.send = guarded

    async def transact(self, partition: int, records: dict[str, Iterable[Fields]]) -> None:
        """Write records to topics, all at the same partition number, in one transaction.

        Returns once the broker has said that the transaction is committed.
        Raises: JournalFault: whether it was committed is unknown.
        """
        with translating(committing=True):
            producer = self._producer
            await producer.begin_transaction()
            # All topics at once: the client then adds both partitions to the transaction in one
            # request and writes them in the next, three round trips a transaction and not five.
            sends = [self._send(topic, partition, batch) for topic, batch in records.items()]
            sent = await self._patiently(asyncio.gather(*sends))
            # commit_transaction() reports success after a failed send, so each is awaited.
            futures = [future for of_topic in sent for future in of_topic]
            for metadata in await self._patiently(asyncio.gather(*futures)):
                self._check_moved_on(metadata.topic, metadata.offset)
            await self._patiently(producer.commit_transaction())

    async def _send(self, topic: str, partition: int, records: Iterable[Fields]) -> list[Any]:
        """Hand a topic's records to the client, batch after batch, to keep their order."""
        futures = []
        for batch in self._batches(records):
            futures.append(await self._producer.send_batch(batch, topic, partition=partition))
            futures[-1].add_done_callback(_forget)  # another topic's may fail first
        return futures

    def _batches(self, records: Iterable[Fields]) -> list[Any]:
        batches: list[Any] = []
        append = None
        for key, value, timestamp, headers in records:
            for _ in range(2):
                if append is None:
                    batches.append(self._producer.create_batch())
                    append = batches[-1].append
                added = append(key=key, value=value, timestamp=timestamp, headers=[*headers])
                if added is not None:
                    break
                append = None  # full
            else:
                raise kafka.MessageSizeTooLargeError("a record is larger than a batch may be")
        return batches

    def expect_beyond(self, topic: str, offset: int) -> None:
        """Know that a topic has come so far already, before anything was sent to it."""
        self._last[topic] = offset

    def _check_moved_on(self, topic: str, offset: int) -> None:
        """Notice a topic that was deleted and made anew under us: its offsets begin again.

        Raises: JournalFault.
        """
        if offset <= self._last.get(topic, -1):
            raise JournalFault(f"offset {offset} of {topic} after {self._last[topic]}: recreated?")
        self._last[topic] = offset

    async def _patiently(self, work: Awaitable[T]) -> T:
        """Wait for the client, but not for one whose sender has died, and not for ever."""
        future = asyncio.ensure_future(work)
        sender = self._producer._sender.sender_task
        waited = {future} if sender is None else {future, sender}
        try:
            done, _ = await asyncio.wait(
                waited, timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
            )
        except BaseException:
            future.cancel()
            future.add_done_callback(_forget)
            raise
        if future in done:
            return future.result()
        future.add_done_callback(_forget)
        if sender is not None and sender in done and not sender.cancelled():
            error = sender.exception()
            if error is not None:  # being fenced is what ends it, mostly
                raise translated(error, committing=True) from error
            raise CommitUnknown("the client's sender ended")
        raise CommitUnknown(f"no answer in {_PATIENCE_S:.0f} s")

    def drop(self) -> None:
        """Close the socket and nothing else: no flush, no abort, no last word to the broker."""
        producer: Any = self._producer
        producer._closed = True
        sender = getattr(producer, "_sender", None)
        if sender is not None and sender.sender_task is not None:
            sender.sender_task.cancel()
            sender.sender_task.add_done_callback(_forget)
        self._forget_failures()
        closing = asyncio.ensure_future(producer.client.close())
        closing.add_done_callback(_forget)

    def _forget_failures(self) -> None:
        """Take note of what failed with a sender that died, else asyncio logs each as lost."""
        producer: Any = self._producer
        futures = [producer._txn_manager._transaction_waiter]
        for batches in producer._message_accumulator._batches.values():
            for batch in batches:
                futures += [batch.future, batch._drain_waiter]
        for future in futures:
            if future is not None:
                future.add_done_callback(_forget)


def _slow_to_fail(ask: Callable[..., Awaitable[bool]]) -> Callable[..., Awaitable[bool]]:
    async def asked(*what: Any, **options: Any) -> bool:
        answered = await ask(*what, **options)
        if not answered:
            await asyncio.sleep(_AWAY_S)
        return answered

    return asked


def _forget(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
