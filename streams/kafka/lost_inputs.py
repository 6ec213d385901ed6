"""Go on where inputs were lost before they were decided, at an owner's word.

A partition whose next input is not there decides nothing, so that no loss goes unnoticed. Where
the inputs cannot be restored, this lets it go on without ever going back: the offset that
comes next only rises, so whatever was decided is never read again, and nothing is charged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition

from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import Source
from accountant.records.inputs import MOST_PURPOSE, Input
from accountant.records.outcomes import Outcome
from accountant.replay.refold import Refold
from streams.clock import CheckedClock, SystemClock
from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.journal import KafkaJournal
from streams.kafka.wire.connecting import with_short_connect
from streams.kafka.wire.errors import translating
from streams.kafka.wire.reader import Span, StableReader, bounds, consumer, stop
from streams.processing.journal import Commit, DeadLetter

_PATIENCE_S: Final = 15.0
_FILLERS: Final = 5_000  # appended at a time

Progress = Callable[[int, int], None]
"""Told how many records were appended, and of how many."""


def _untold(_done: int, _of: int) -> None:
    """Tell nobody."""


async def accept_lost_inputs(
    deployment: Deployment,
    source: Source,
    partition: int,
    *,
    first: int,
    reason: str,
    progress: Progress = _untold,
) -> str:
    """Let a partition go on behind inputs that are lost for good; return what was done.

    Where the topic begins behind the next input, one decision is appended: the last of the
    lost offsets is `invalid`, `undecodable`, with the reason in its dead letter. Where the
    topic ends before it, because it was made anew, empty records are appended to the
    topic until it does not; what stands before them is never decided.

    Args:
        first: the offset that is next to be decided, as the halted worker names it.
        reason: for people, at most 200 characters.
        progress: called from time to time where a topic is filled up.
    Raises: Refused: nothing is lost, or `first` is not next; nothing was done. LogDamaged.
        JournalFault: try again; what was done already is not done twice.
    """
    if len(reason) > MOST_PURPOSE:
        raise Refused(f"the reason must be at most {MOST_PURPOSE} characters, got {len(reason)}")
    if not 0 <= partition < deployment.partitions:
        raise Refused(f"there is no partition {partition} of {deployment.partitions}")
    place = TopicPartition(deployment.topics.of(source), partition)
    # Without owning the partition: a worker that serves it is not to be disturbed.
    found = (await _read_log(deployment, partition)).next[source]
    if found != first:
        raise Refused(f"{place.topic}, partition {partition}: the next is {found}, not {first}")
    span = await _span(deployment, place)
    if span.begin <= first <= span.end:
        raise Refused(
            f"{place.topic}, partition {partition}, holds offsets {span.begin} up to but not "
            f"including {span.end}, and {first} is the next to be decided: nothing is lost"
        )
    if span.begin > first:
        note = f"lost: offsets {first} to {span.begin - 1} of {place.topic}: {reason}"
        number = await _decide_lost(deployment, source, partition, first, span.begin, note)
        return (
            f"{place.topic}, partition {partition}: offsets {first} to {span.begin - 1} are given "
            f"up by decision {number}; {span.begin} is next. Restart the worker"
        )
    await _fill_up(deployment, place, first, progress)
    return (
        f"{place.topic}, partition {partition}: filled up from offset {span.end} to {first}; what "
        f"stands before {first} is never decided ({span.end - span.begin} records stood there). "
        "Restart the worker, then send those again with their ids"
    )


async def _read_log(deployment: Deployment, partition: int) -> Partition:
    """Return the state that the committed decisions come down to."""
    place = TopicPartition(deployment.topics.decisions, partition)
    async with StableReader(deployment.bootstrap, [place]) as reader:
        records = reader.read(place, reader.spans[place].begin)
        return await _folded(deployment, partition, (bytes(r.value) async for r in records))


async def _folded(
    deployment: Deployment, partition: int, decisions: AsyncIterator[bytes]
) -> Partition:
    # Without rows: this runs once in years, and the log alone is beyond doubt.
    refold = Refold(deployment.genesis(partition))
    async for value in decisions:
        refold.take_decision(value)
    return refold.finish()


async def _span(deployment: Deployment, place: TopicPartition) -> Span:
    probe = consumer(deployment.bootstrap, committed=False)
    try:
        with translating():
            async with asyncio.timeout(_PATIENCE_S):
                await probe.start()
                return (await bounds(probe, [place]))[place]
    finally:
        await stop(probe)


class _NoInputs:
    """Stands where a journal that is never read from needs its inputs."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"inputs are not read here: {name}")


async def _decide_lost(
    deployment: Deployment, source: Source, partition: int, first: int, begin: int, note: str
) -> int:
    """Decide the offset before `begin` as its partition's owner; return the decision's number.

    Offsets of an input may skip: markers of transactions take some, too. One decision, on the
    last of those lost, therefore moves the partition past all of them.
    """
    journal = KafkaJournal(
        deployment.bootstrap, deployment.application, deployment.topics, partition, _NoInputs()
    )
    try:
        await journal.own()
        state = await _folded(deployment, partition, journal.decisions(None))
        if state.next[source] != first:
            raise Refused(f"{source}: the next is {state.next[source]} by now, not {first}")
        now = CheckedClock(SystemClock()).now(state.decided_at)
        draft = Draft(state)
        record = Input(source, begin - 1, None, note.encode(), now)
        encoded = decide(draft, record, now)
        assert encoded.outcome is Outcome.INVALID
        dead = [DeadLetter(record, str(encoded.reason))]
        await journal.commit(Commit([encoded], draft.rows(), dead, draft.next, draft.decided_at))
    finally:
        await journal.drop()
    return encoded.partition_sequence


async def _fill_up(
    deployment: Deployment, place: TopicPartition, first: int, progress: Progress
) -> None:
    """Append empty records until `first` is within the topic, or its end."""
    begun = end = (await _span(deployment, place)).end
    producer = with_short_connect(
        AIOKafkaProducer(
            bootstrap_servers=deployment.bootstrap, enable_idempotence=True, linger_ms=5
        )
    )
    try:
        with translating():
            async with asyncio.timeout(_PATIENCE_S):
                await producer.start()
            while end < first:
                sent = [
                    await producer.send(place.topic, b"", partition=place.partition)
                    for _ in range(min(first - end, _FILLERS))
                ]
                # Others may append meanwhile: what counts is how far the topic reaches.
                end = 1 + max([metadata.offset for metadata in await asyncio.gather(*sent)])
                progress(min(end, first) - begun, first - begun)
    finally:
        await stop(producer)
