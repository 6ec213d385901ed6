"""The baseline: the minimal work of any aiokafka program that copies records exactly once.

The same batches, records and bytes go out as the worker writes, one producer a partition, one
transaction a batch; nothing is decoded, decided, hashed or remembered.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.bare import bare_producer
from streams.kafka.wire.batches import BATCH_BYTES

_FETCH_WAIT_MS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The output of a worker.

    Attributes:
        batch: most records a transaction.
        decision_bytes: mean length of a decision.
        rows: mean number of a transaction's rows of `state`.
        row_bytes: mean length of a row.
    """

    batch: int
    decision_bytes: int
    rows: int
    row_bytes: int


async def copy(
    bootstrap: str, source: str, decisions: str, state: str, counts: dict[int, int], shape: Shape
) -> float:
    """Copy so many records of each partition of `source`; return the seconds it took."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=_FETCH_WAIT_MS,
        max_partition_fetch_bytes=1 << 20,
    )
    await consumer.start()
    producers = {}
    try:
        consumer.assign([TopicPartition(source, partition) for partition in counts])
        for partition in counts:
            name = f"copy-{source}-{partition}"
            producers[partition] = bare_producer(bootstrap, name, max_batch_size=BATCH_BYTES)
            await producers[partition].start()
        started = time.perf_counter()
        await asyncio.gather(
            *[
                _copy_partition(
                    consumer,
                    TopicPartition(source, partition),
                    producers[partition],
                    (decisions, state),
                    count,
                    shape,
                )
                for partition, count in counts.items()
            ]
        )
        return time.perf_counter() - started
    finally:
        for producer in producers.values():
            await producer.stop()
        await consumer.stop()


async def _copy_partition(
    consumer: AIOKafkaConsumer,
    source: TopicPartition,
    producer: AIOKafkaProducer,
    targets: tuple[str, str],
    count: int,
    shape: Shape,
) -> None:
    filler = b"." * shape.decision_bytes
    row = b"." * shape.row_bytes
    copied = 0
    while copied < count:
        got = await consumer.getmany(source, timeout_ms=200, max_records=shape.batch)
        records = got.get(source, [])
        if not records:
            continue
        await producer.begin_transaction()
        sent = []
        rows = [(record.key, row) for record in records[: shape.rows]]
        for topic, pairs in (
            (targets[0], [(r.key, r.value + filler[len(r.value) :]) for r in records]),
            (targets[1], rows),
        ):
            batches = [producer.create_batch()]
            for key, value in pairs:
                if batches[-1].append(key=key, value=value, timestamp=None) is None:
                    batches.append(producer.create_batch())
                    batches[-1].append(key=key, value=value, timestamp=None)
            sent += [
                await producer.send_batch(b, topic, partition=source.partition) for b in batches
            ]
        for future in sent:
            await future
        await producer.commit_transaction()
        copied += len(records)
