"""Write an exported decision log back into its topic, byte for byte.

A restore compares everything before it writes: the topic's decisions must be the beginning of the
copy. So an interrupted restore can be run again and continues at the end of the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from aiokafka import TopicPartition

from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, Genesis, decode_decision
from accountant.replay.replay import GenesisDiffers, check_genesis
from accountant.times import from_iso
from streams.clock import steady
from streams.errors import Fenced, JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log.membership import SESSION_S
from streams.kafka.log.topics import check_all, create_missing
from streams.kafka.wire.admin import admin_of, members_of
from streams.kafka.wire.batches import Record
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.reader import StableReader

_MAX_DECISIONS: Final = 500  # decisions in a transaction
_MAX_BYTES: Final = 8 << 20
_DECISIONS: Final = ("decisions",)
_PAUSE_S: Final = 0.2
_MEMBER_EXPIRY_S: Final = SESSION_S + 2  # a group drops an ended member after one session
_RETRY_HINT: Final = (
    "nothing was written. If the file is the right one, delete that topic and run this again; "
    "do not run `topics create` before it"
)

Parts = Callable[[], Iterable[tuple[int, Iterator[bytes]]]]
"""Reads the copy from its start: the number and the decisions of each partition.

The caller must read the decisions that it needs before it takes the next partition."""

Progress = Callable[[int, int], None]
"""Called with a partition and the number of its decisions known to be in the topic."""


class Copy(NamedTuple):
    """One partition of a copy that an audit has found sound.

    Attributes:
        genesis: the genesis in its decision 0.
        total: number of decisions.
        head: hash of the last one.
    """

    genesis: Genesis
    total: int
    head: str


class RestoredPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one partition.

    Attributes:
        found: number of decisions that the topic existing before.
        written: number of decisions written.
        sequence, head: number and hash of the topic's last decision.
    """

    partition: int
    found: int
    written: int
    sequence: int
    head: str


class _ExistingPartition(NamedTuple):
    """The part of a partition's copy that the topic holds.

    Attributes:
        known: number of the copy's decisions in the topic.
        end: the offset after them.
        genesis: hash of the topic's genesis, if it differs from the copy's and neither side has
            more decisions.
    """

    known: int
    end: int
    genesis: str | None = None


def check_settings(deployment: Deployment, copies: Sequence[Copy]) -> None:
    """Check that a copy holds this ledger, and every partition of it once.

    Raises: Refused: a setting differs from a genesis, or the copy has a partition twice or not at
        all: `topics create` would then write a genesis for it, and its budgets would be full again.
    """
    numbers = set()
    for genesis, *_ in copies:
        number = genesis.partition
        try:
            check_genesis(genesis, deployment.genesis(number))
        except GenesisDiffers as error:
            raise Refused(f"partition {number} of the file: {error}") from error
        if not 0 <= number < deployment.partitions:
            raise Refused(f"the file has a partition {number} of {deployment.partitions}")
        if number in numbers:
            raise Refused(f"the file has partition {number} twice: give one export")
        numbers.add(number)
    missing = sorted({*range(deployment.partitions)} - numbers)
    if missing:
        raise Refused(
            f"the file lacks partitions {missing} of {deployment.partitions}; a complete export "
            "has all of them. Restore another file. Nothing was written"
        )


async def restore(
    deployment: Deployment, copies: Sequence[Copy], parts: Parts, *, progress: Progress
) -> list[RestoredPartition]:
    """Write the rest of a copy into the topic `decisions`; make the topic if it is missing.

    Args:
        copies: the audit's results, in the order of the parts.
        parts: reads the same copy, unchanged since the audit.
    Raises: Refused: the topic holds another log, or workers run; nothing is written.
        JournalFault: run the same again; the restore then continues.
    """
    check_settings(deployment, copies)
    await _make_topic(deployment)
    existing = []
    for copy, (number, values) in zip(copies, parts(), strict=True):
        existing.append(await _compare(deployment, number, copy, values, progress))
    todo = [each.known < copy.total for each, copy in zip(existing, copies, strict=True)]
    if any(todo):
        await check_no_workers(deployment)
        for copy, each, (number, values) in zip(copies, existing, parts(), strict=True):
            if each.known < copy.total:
                await _write(deployment, number, copy, each, values, progress)
    return [
        RestoredPartition(
            partition=copy.genesis.partition,
            found=each.known,
            written=copy.total - each.known,
            sequence=copy.total - 1,
            head=each.genesis or copy.head,
        )
        for copy, each in zip(copies, existing, strict=True)
    ]


async def _make_topic(deployment: Deployment) -> None:
    """Make the topic if it is missing, without a genesis, since the copy has its own."""
    async with admin_of(deployment.cluster) as admin:
        made = await create_missing(admin, deployment, _DECISIONS)
        await check_all(admin, deployment, _DECISIONS, created=bool(made))


async def _compare(
    deployment: Deployment, number: int, copy: Copy, values: Iterator[bytes], progress: Progress
) -> _ExistingPartition:
    """Return how much of a partition's copy the topic holds.

    Raises: Refused: the topic holds other decisions.
    """
    place = TopicPartition(deployment.topics.decisions, number)
    where = f"{place.topic}, partition {number}"
    async with StableReader(deployment.cluster, [place]) as reader:
        begin, end = reader.spans[place]
        if begin > 0:
            raise Refused(f"{where}, begins at offset {begin}: {_RETRY_HINT}")
        count, genesis = 0, None
        async for record in reader.read(place, begin):
            if count == copy.total:
                raise Refused(
                    f"{where}, has decisions after {count - 1}, the file's last. Restore a newer "
                    "export"
                )
            if next(values, None) != record.value:
                if copy.total > 1 or not _is_same_genesis(record.value or b"", copy.genesis):
                    raise Refused(
                        f"{where}, holds another decision {count} than the file: {_RETRY_HINT}"
                    )
                genesis = hash_of(record.value or b"")
            count += 1
            progress(number, count)
    return _ExistingPartition(count, end, genesis)


def _is_same_genesis(value: bytes, genesis: Genesis) -> bool:
    """Return whether a decision is a genesis of the same ledger, perhaps at another time.

    `topics create` writes one into an empty log. If the copy holds only its own genesis, there is
    nothing to restore.
    """
    try:
        found = decode_decision(value).genesis
        return found is not None and found.settings == genesis.settings
    except DECODE_ERRORS:
        return False


async def check_no_workers(deployment: Deployment) -> None:
    """Refuse while workers run: a worker that read half a log would grant spent budget again."""
    group = deployment.application
    deadline = steady() + _MEMBER_EXPIRY_S
    async with admin_of(deployment.cluster) as admin:
        while members := await _members(admin, group, deadline):
            if steady() > deadline:
                raise Refused(
                    f"workers of the group {group} run ({members}): stop them, then run this "
                    "again; nothing was written"
                )
            await asyncio.sleep(_PAUSE_S)


async def _members(admin: Any, group: str, deadline: float) -> int:
    """Return the number of a group's members; a new broker may need several tries to answer."""
    while True:
        try:
            return len(await members_of(admin, group))
        except Unavailable:
            if steady() > deadline:
                raise
            await asyncio.sleep(_PAUSE_S)


async def _write(
    deployment: Deployment,
    number: int,
    copy: Copy,
    existing: _ExistingPartition,
    values: Iterator[bytes],
    progress: Progress,
) -> None:
    topic = deployment.topics.decisions
    rest = islice(values, existing.known, copy.total)
    producer = TransactionalProducer(deployment.cluster, f"{deployment.application}-{number}")
    try:
        await producer.start()
        # This producer owns the log now. The check of the log's end notices any other write since
        # `_compare`, also one of an open transaction.
        producer.expect_at(topic, existing.end)
        done = existing.known
        for records in _transactions(deployment, rest):
            await producer.transact(number, {topic: records})
            done += len(records)
            progress(number, done)
    except Fenced as error:
        raise JournalFault(f"a worker took partition {number}: stop it, run this again") from error
    finally:
        producer.drop()


def _transactions(deployment: Deployment, values: Iterator[bytes]) -> Iterator[list[Record]]:
    """Yield the records of each transaction, with the timestamps that the worker gave them.

    The worker took each key from the input. No decision holds that key, so the dataset's own key
    replaces it.
    """
    records: list[Record] = []
    size = 0
    for value in values:
        if records and (len(records) == _MAX_DECISIONS or size + len(value) > _MAX_BYTES):
            yield records
            records, size = [], 0
        decision = decode_decision(value)
        key = None if decision.dataset is None else deployment.key_of(decision.dataset)
        records.append(Record(key, value, from_iso(decision.decided_at)))
        size += len(value)
    if records:
        yield records
