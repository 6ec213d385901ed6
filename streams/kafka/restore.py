"""Write an exported decision log back into its topic, byte for byte.

Nothing is written before everything has been compared: what the topic holds already must be the
beginning of the copy. So a restore that was interrupted goes on where it ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from aiokafka import TopicPartition

from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS, Genesis, decode_decision
from accountant.replay.refold import GenesisDiffers, check_genesis
from accountant.times import from_iso
from streams.errors import Fenced, JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.membership import SESSION_S
from streams.kafka.topics import check_all, create_missing
from streams.kafka.wire.admin import admin_of, members_of
from streams.kafka.wire.batches import Record
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.reader import StableReader

_MOST: Final = 500  # decisions of a transaction, as a worker's default
_MOST_BYTES: Final = 8 << 20
_DECISIONS: Final = ("decisions",)
_PAUSE_S: Final = 0.2
_GONE_S: Final = SESSION_S + 2  # for a session, a group keeps the place of who left it
_ANEW: Final = (
    "nothing was written. If the file is the right one, delete that topic and run this again, "
    "without `topics create` before it"
)

Parts = Callable[[], Iterable[tuple[int, Iterator[bytes]]]]
"""Gives the copy anew: each partition's number and decisions, the latter to be read first."""

Progress = Callable[[int, int], None]
"""Told a partition, and how many of its decisions the topic is known to hold."""


class Copy(NamedTuple):
    """One partition of a copy that an audit has found sound.

    Attributes:
        genesis: what its decision 0 says.
        total: how many decisions.
        head: hash of the last one.
    """

    genesis: Genesis
    total: int
    head: str


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one partition.

    Attributes:
        found: how many decisions the topic held already.
        written: how many were written.
        sequence, head: number and hash of the last one of the topic.
    """

    partition: int
    found: int
    written: int
    sequence: int
    head: str


class _Held(NamedTuple):
    """What the topic holds of a partition.

    Attributes:
        known: so many decisions of the copy.
        end: the offset behind them.
        genesis: hash of its genesis, if that is another one and neither has more decisions.
    """

    known: int
    end: int
    genesis: str | None = None


def check_settings(deployment: Deployment, copies: Sequence[Copy]) -> None:
    """Check that a copy is of this very ledger, and of all of it.

    Raises: Refused: a setting is not what a genesis says, or a partition is there twice or not
        at all: its budgets would begin anew with the genesis that `topics create` then writes.
    """
    seen = set()
    for genesis, *_ in copies:
        number = genesis.partition
        try:
            check_genesis(genesis, deployment.genesis(number))
        except GenesisDiffers as error:
            raise Refused(f"partition {number} of the file: {error}") from error
        if not 0 <= number < deployment.partitions:
            raise Refused(f"the file has a partition {number} of {deployment.partitions}")
        if number in seen:
            raise Refused(f"the file has partition {number} twice: give one export")
        seen.add(number)
    missing = sorted({*range(deployment.partitions)} - seen)
    if missing:
        raise Refused(
            f"the file lacks partitions {missing} of {deployment.partitions}, and an export that "
            "ended well has all: restore another one. Nothing was written"
        )


async def restore(
    deployment: Deployment, copies: Sequence[Copy], parts: Parts, *, progress: Progress
) -> list[Restored]:
    """Bring the topic `decisions`, which is made if it is missing, to where a copy ends.

    Args:
        copies: what the audit found, in the order of the parts.
        parts: the same copy, unchanged since.
    Raises: Refused: the topic holds another log, or workers run; nothing was written.
        JournalFault: run the same again, it goes on.
    """
    check_settings(deployment, copies)
    await _make_topic(deployment)
    held = []
    for copy, (number, values) in zip(copies, parts(), strict=True):
        held.append(await _compare(deployment, number, copy, values, progress))
    todo = [each.known < copy.total for each, copy in zip(held, copies, strict=True)]
    if any(todo):
        await _check_no_workers(deployment)
        for copy, each, (number, values) in zip(copies, held, parts(), strict=True):
            if each.known < copy.total:
                await _write(deployment, number, copy, each, values, progress)
    return [
        Restored(
            partition=copy.genesis.partition,
            found=each.known,
            written=copy.total - each.known,
            sequence=copy.total - 1,
            head=each.genesis or copy.head,
        )
        for copy, each in zip(copies, held, strict=True)
    ]


async def _make_topic(deployment: Deployment) -> None:
    """Make the topic if it is missing: without a genesis, the copy has its own."""
    async with admin_of(deployment.bootstrap) as admin:
        made = await create_missing(admin, deployment, _DECISIONS)
        await check_all(admin, deployment, _DECISIONS, created=bool(made))


async def _compare(
    deployment: Deployment, number: int, copy: Copy, values: Iterator[bytes], progress: Progress
) -> _Held:
    """Return how much of a partition's copy the topic holds.

    Raises: Refused: it holds something else.
    """
    place = TopicPartition(deployment.topics.decisions, number)
    where = f"{place.topic}, partition {number}"
    async with StableReader(deployment.bootstrap, [place]) as reader:
        begin, end = reader.spans[place]
        if begin > 0:
            raise Refused(f"{where}, begins at offset {begin}: {_ANEW}")
        count, genesis = 0, None
        async for record in reader.read(place, begin):
            if count == copy.total:
                raise Refused(f"{where}, goes on after decision {count - 1}, the file's last")
            if next(values, None) != record.value:
                if copy.total > 1 or not _begins(record.value or b"", copy.genesis):
                    raise Refused(f"{where}, holds another decision {count} than the file: {_ANEW}")
                genesis = hash_of(record.value or b"")
            count += 1
            progress(number, count)
    return _Held(count, end, genesis)


def _begins(value: bytes, genesis: Genesis) -> bool:
    """Tell whether a decision is a genesis of the same ledger, only at another time.

    `topics create` writes one where nothing was ever asked. Beside a copy that has nothing but
    its own there is nothing to restore.
    """
    try:
        return decode_decision(value).genesis == genesis
    except DECODE_ERRORS:
        return False


async def _check_no_workers(deployment: Deployment) -> None:
    """Refuse while workers run: one that took half a log for the whole would grant again."""
    group = deployment.application
    deadline = time.monotonic() + _GONE_S
    async with admin_of(deployment.bootstrap) as admin:
        while members := await _members(admin, group, deadline):
            if time.monotonic() > deadline:
                raise Refused(
                    f"workers of the group {group} run ({members}): stop them, then run this "
                    "again; nothing was written"
                )
            await asyncio.sleep(_PAUSE_S)


async def _members(admin: Any, group: str, deadline: float) -> int:
    """Return how many members a group has; a new broker begins to know of groups when asked."""
    while True:
        try:
            return len(await members_of(admin, group))
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_PAUSE_S)


async def _write(
    deployment: Deployment,
    number: int,
    copy: Copy,
    held: _Held,
    values: Iterator[bytes],
    progress: Progress,
) -> None:
    topic = deployment.topics.decisions
    rest = islice(values, held.known, copy.total)
    producer = TransactionalProducer(deployment.bootstrap, f"{deployment.application}-{number}")
    try:
        await producer.start()
        # Owned now. What somebody wrote since the comparison, or had begun to write, shows here.
        producer.expect_at(topic, held.end)
        done = held.known
        for records in _transactions(rest):
            await producer.transact(number, {topic: records})
            done += len(records)
            progress(number, done)
    except Fenced as error:
        raise JournalFault(f"a worker took partition {number}: stop it, run this again") from error
    finally:
        producer.drop()


def _transactions(values: Iterator[bytes]) -> Iterator[list[Record]]:
    """Yield the records of each transaction, dated as the worker dated them.

    The worker took each key from the input. No decision holds it: the dataset stands for it.
    """
    records: list[Record] = []
    size = 0
    for value in values:
        if records and (len(records) == _MOST or size + len(value) > _MOST_BYTES):
            yield records
            records, size = [], 0
        decision = decode_decision(value)
        key = None if decision.dataset is None else decision.dataset.encode()
        records.append(Record(key, value, from_iso(decision.decided_at)))
        size += len(value)
    if records:
        yield records
