"""Let a partition continue after undecided inputs were lost, when an operator accepts the loss.

A partition whose next input is missing decides nothing, so that every loss is noticed. If the
inputs cannot be restored, this moves the partition forward. The next offset only rises, so no
decided input is read again, and nothing is charged.
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
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome
from accountant.records.rule_checks import MAX_PURPOSE
from accountant.records.texts import check_text
from accountant.replay.replay import Replay
from streams.clock import CheckedClock, Clock, SystemClock
from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.log.broker_clock import compare_clock
from streams.kafka.log.journal import KafkaJournal
from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.reader import Span, StableReader, bounds, consumer, stop
from streams.processing.journal import Commit, DeadLetter
from streams.processing.recovery import Compare

_PATIENCE_S: Final = 15.0
_FILLERS: Final = 5_000  # empty records appended at a time

Progress = Callable[[int, int], None]
"""Called with the number of appended records, and the number to append."""


def _no_progress(_done: int, _of: int) -> None:
    """Report nothing."""


async def accept_lost_inputs(
    deployment: Deployment,
    source: Source,
    partition: int,
    *,
    first: int,
    reason: str,
    progress: Progress = _no_progress,
    clock: Clock | None = None,
    compare: Compare,
) -> str:
    """Let a partition continue after inputs that are lost for good; return the result in words.

    If the topic begins after the next input, this appends one decision: the last of the lost
    offsets is `invalid`, `undecodable`, with the reason in its dead letter. If the topic ends
    before the next input, because it was recreated, this appends empty records to the topic up to
    there; the partition never decides the records before that offset.

    Args:
        first: the next offset to decide, as the halted worker names it.
        reason: for people, at most 200 characters.
        progress: called from time to time while this appends empty records.
        clock: dates the decision; default the machine's.
        compare: called with the state before anything is written.
    Raises: Refused: nothing is lost, or `first` is not next; nothing is written. LogDamaged, and
        the errors of `compare`.
        ClockOutOfRange: the clock is ahead of the broker's, or disagrees with the log.
        RequestInvalid: of the reason.
        JournalFault: try again; completed steps are not repeated.
    """
    if len(reason) > MAX_PURPOSE:
        raise Refused(f"the reason must be at most {MAX_PURPOSE} characters, got {len(reason)}")
    check_text("reason", reason)
    if not 0 <= partition < deployment.partitions:
        raise Refused(f"there is no partition {partition} of {deployment.partitions}")
    place = TopicPartition(deployment.topics.of(source), partition)
    # Read without owning the partition, so as not to fence a worker that serves it.
    state = await _read_log(deployment, partition)
    await compare(state)
    found = state.next[source]
    if found != first:
        raise Refused(
            f"{place.topic}, partition {partition}: the next offset to decide is {found}, "
            f"not {first}"
        )
    span = await _span(deployment, place)
    if span.begin <= first <= span.end:
        raise Refused(
            f"{place.topic}, partition {partition}, holds offsets {span.begin} up to but not "
            f"including {span.end}, and {first} is the next to be decided: nothing is lost"
        )
    if span.begin > first:
        note = f"lost: offsets {first} to {span.begin - 1} of {place.topic}: {reason}"
        clock = clock or SystemClock()
        await compare_clock(deployment, clock, "command")
        number = await _decide_lost(deployment, source, partition, first, span.begin, note, clock)
        return (
            f"{place.topic}, partition {partition}: decision {number} gives up offsets {first} to "
            f"{span.begin - 1}; {span.begin} is next. Restart the worker"
        )
    await _fill_up(deployment, place, first, progress)
    return (
        f"{place.topic}, partition {partition}: filled up from offset {span.end} to {first}. "
        f"Records before {first} are never decided ({span.end - span.begin} existed). "
        "Restart the worker, then send those again with their ids"
    )


async def _read_log(deployment: Deployment, partition: int) -> Partition:
    """Return the state after the committed decisions."""
    place = TopicPartition(deployment.topics.decisions, partition)
    async with StableReader(deployment.cluster, [place]) as reader:
        records = reader.read(place, reader.spans[place].begin)
        return await _replay(deployment, partition, (bytes(r.value) async for r in records))


async def _replay(
    deployment: Deployment, partition: int, decisions: AsyncIterator[bytes]
) -> Partition:
    # Without rows: this runs once in years, so it can afford to replay the whole log.
    replay = Replay(deployment.genesis(partition))
    async for value in decisions:
        replay.take_decision(value)
    return replay.finish()


async def _span(deployment: Deployment, place: TopicPartition) -> Span:
    probe = consumer(deployment.cluster, committed=False)
    try:
        with translate_errors():
            async with asyncio.timeout(_PATIENCE_S):
                await probe.start()
                return (await bounds(probe, [place]))[place]
    finally:
        await stop(probe)


class NoInputs:
    """The inputs of a journal that never reads any."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"this journal must not read inputs: {name}")


async def _decide_lost(
    deployment: Deployment,
    source: Source,
    partition: int,
    first: int,
    begin: int,
    note: str,
    clock: Clock,
) -> int:
    """Decide the offset before `begin` as the partition's owner; return the decision's number.

    An input's offsets may have gaps, since markers of transactions take offsets, too. So one
    decision on the last lost offset moves the partition past all of them.
    """
    journal = KafkaJournal(
        deployment.cluster, deployment.application, deployment.topics, partition, NoInputs()
    )
    try:
        await journal.own()
        state = await _replay(deployment, partition, journal.decisions(None))
        if state.next[source] != first:
            raise Refused(
                f"{source}: the next offset to decide is {state.next[source]} by now, not {first}"
            )
        now = CheckedClock(clock).now(state.decided_at)
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
    """Append empty records until the topic reaches offset `first`."""
    begun = end = (await _span(deployment, place)).end
    producer = with_short_connect(
        AIOKafkaProducer(**deployment.cluster.options(), enable_idempotence=True, linger_ms=5)
    )
    try:
        with translate_errors():
            async with asyncio.timeout(_PATIENCE_S):
                await producer.start()
            while end < first:
                sent = [
                    await producer.send(place.topic, b"", partition=place.partition)
                    for _ in range(min(first - end, _FILLERS))
                ]
                # Other clients may append meanwhile: compute the end from the offsets.
                end = 1 + max([metadata.offset for metadata in await asyncio.gather(*sent)])
                progress(min(end, first) - begun, first - begun)
    finally:
        await stop(producer)
