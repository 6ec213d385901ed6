"""Decision 0 of each partition, written only where a new ledger starts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

import msgspec
from aiokafka import TopicPartition

from accountant.errors import LogDamaged, MadeByOtherVersion
from accountant.partition import hash_of
from accountant.partition.draft import genesis_decision
from accountant.records import DECODE_ERRORS, decode_decision
from accountant.replay.replay import GenesisDiffers, check_genesis
from streams.clock import SystemClock
from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.log.decision_reader import KafkaDecisionReader
from streams.kafka.wire.batches import Record
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.reader import StableReader, consumer, stop

_PATIENCE_S: Final = 15.0


async def ledger_id(deployment: Deployment) -> str | msgspec.UnsetType:
    """Return the id in partition 0, which the others share; legacy ledgers have none."""
    with contextlib.suppress(*DECODE_ERRORS):  # workers and `audit` report damage
        genesis = decode_decision(await _first(deployment)).genesis
        return msgspec.UNSET if genesis is None else genesis.ledger
    return msgspec.UNSET


async def checkpoints_name(deployment: Deployment) -> str:
    """Return the ledger's name in checkpoints: its id, or the hash of partition 0's decision 0."""
    found = await ledger_id(deployment)
    return hash_of(await _first(deployment)) if found is msgspec.UNSET else found


async def _first(deployment: Deployment) -> bytes:
    """Return partition 0's decision 0, nothing if it is not there."""
    decisions = TopicPartition(deployment.topics.decisions, 0)
    async with StableReader(deployment.cluster, [decisions]) as reader:
        async for record in reader.read(decisions, reader.spans[decisions].begin):
            return record.value or b""
    return b""


async def check_placement(deployment: Deployment) -> None:
    """Verify only the placement, which says where every dataset is.

    Raises: Refused: the ledger was created with the other one; JournalFault.
    """
    genesis = None
    with (
        contextlib.suppress(LogDamaged, *DECODE_ERRORS),  # workers and `audit` report damage
        contextlib.closing(KafkaDecisionReader(deployment)) as reader,
    ):
        for first in await reader.read(0, 0, 1):
            genesis = decode_decision(first).genesis
    if genesis is not None:
        try:
            check_genesis(genesis, msgspec.structs.replace(genesis, placement=deployment.placement))
        except GenesisDiffers as error:
            raise Refused(f"{deployment.topics.decisions}: {error}") from error


async def write_genesis(
    deployment: Deployment,
    partition: int,
    inputs: Sequence[str],
    ledger: str | msgspec.UnsetType = msgspec.UNSET,
) -> bool:
    """Write decision 0 of a partition if it is missing. Return whether it was written.

    Args:
        deployment, partition: the partition's log.
        inputs: names of the input topics that existed before this call.
        ledger: its id.
    Raises: Refused: decision 0 is missing although the inputs took records, or has other settings.
    """
    if await _end_if_empty(deployment, partition) is None:
        return False
    await _refuse_taken(deployment, partition, inputs)
    producer = TransactionalProducer(deployment.cluster, f"{deployment.application}-{partition}")
    try:
        await producer.start()
        # This producer owns the log now: no other process can write, so an empty log stays empty.
        # Check again: another `create` may have written between the first check and the start.
        end = await _end_if_empty(deployment, partition)
        if end is None:
            return False
        producer.expect_at(deployment.topics.decisions, end)
        genesis = msgspec.structs.replace(deployment.genesis(partition), ledger=ledger)
        first = genesis_decision(genesis, SystemClock().now())
        record = Record(first.key, first.value, first.decided_at)
        await producer.transact(partition, {deployment.topics.decisions: [record]})
    finally:
        producer.drop()
    return True


async def _end_if_empty(deployment: Deployment, partition: int) -> int | None:
    """Return the end offset of a partition's decisions if they hold no committed record.

    Raises: Refused: the decisions are gone while `state` still holds rows, or they began with
        other settings than these.
    """
    decisions = TopicPartition(deployment.topics.decisions, partition)
    state = TopicPartition(deployment.topics.state, partition)
    async with StableReader(deployment.cluster, [decisions, state]) as reader:
        if reader.spans[decisions].begin > 0:
            return None
        async for record in reader.read(decisions, 0):
            _check_settings(deployment, partition, record.value or b"")
            return None
        async for _ in reader.read(state, reader.spans[state].begin):
            raise Refused(
                f"{decisions.topic}, partition {partition}, is empty, but {state.topic} is not: "
                "the ledger was lost. Restore the decisions; nothing can be decided without them"
            )
        return reader.spans[decisions].end


def _check_settings(deployment: Deployment, partition: int, first: bytes) -> None:
    """Refuse settings that would make every worker halt.

    A damaged log does not prevent the creation of topics: workers and `audit` report it.
    """
    try:
        check_genesis(decode_decision(first).genesis, deployment.genesis(partition))
    except GenesisDiffers as error:
        topic = deployment.topics.decisions
        raise Refused(f"{topic}, partition {partition}: {error}") from error
    except MadeByOtherVersion:
        raise
    except (LogDamaged, *DECODE_ERRORS):
        return


async def _refuse_taken(deployment: Deployment, partition: int, inputs: Sequence[str]) -> None:
    """Refuse to start a new log if its inputs ever took records: budgets would be full again."""
    tps = [TopicPartition(topic, partition) for topic in inputs]
    probe = consumer(deployment.cluster, committed=False)
    try:
        with translate_errors():
            async with asyncio.timeout(_PATIENCE_S):
                await probe.start()
                ends = await probe.end_offsets(tps) if tps else {}
    finally:
        await stop(probe)
    taken = [tp.topic for tp, end in ends.items() if end > 0]
    if taken:
        raise Refused(
            f"{deployment.topics.decisions}, partition {partition}, is empty, but "
            f"{' and '.join(taken)} took records: the ledger was lost. Restore the decisions; a "
            "new ledger needs another ACCOUNTANT_TOPIC_PREFIX and ACCOUNTANT_APPLICATION, or its "
            "topics deleted first"
        )
