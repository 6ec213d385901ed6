"""One contract for what reads a log: in a ledger's file, in exported lines, and on Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accountant.errors import LogDamaged
from accountant.partition import hash_of
from streams.errors import Unavailable
from streams.log.decision_log import Part
from streams.log.single_decisions import decisions_at, has_decision
from tests.streams.log.stored_logs import COUNT, PLACES, StoredLog, decisions, stored_log


@pytest.fixture(params=PLACES)
async def stored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoredLog]:
    async with stored_log(request, request.param, tmp_path) as made:
        yield made


async def read(stored: StoredLog, partition: int, first: int, limit: int) -> list[bytes]:
    return await asyncio.to_thread(stored.log.read, partition, first, limit)


async def all_parts(stored: StoredLog, **only: int) -> list[tuple[int, list[bytes]]]:
    def found() -> Iterator[tuple[int, list[bytes]]]:
        for part in stored.log.parts(**only):
            yield part.number, list(part.values)

    return await asyncio.to_thread(lambda: list(found()))


async def test_decisions_are_read_from_any_number_on(stored: StoredLog) -> None:
    for partition, values in enumerate(stored.values):
        assert len(values) == COUNT
        for first in (0, 1, 7, COUNT - 2, COUNT - 1):
            for limit in (1, 2, COUNT - first, COUNT):
                found = await read(stored, partition, first, limit)
                assert found == values[first : first + limit]
        for first in (COUNT, 10**15):
            assert await read(stored, partition, first, 5) == []


async def test_a_page_that_ends_with_the_log_is_followed_by_an_empty_one(stored: StoredLog) -> None:
    values = stored.values[0]
    found = list[bytes]()
    while some := await read(stored, 0, len(found), COUNT // 4):
        assert len(some) == COUNT // 4
        found += some
    assert found == values


async def test_the_last_decision_comes_with_its_number(stored: StoredLog) -> None:
    for partition, values in enumerate(stored.values):
        found = await asyncio.to_thread(stored.log.last, partition)
        assert found == (len(values) - 1, values[-1])


async def test_a_log_that_grows_is_read_on(stored: StoredLog) -> None:
    more = decisions(1, 0, batch=1).log[-3:]
    assert await read(stored, 0, COUNT, 9) == []
    for count, value in enumerate(renumbered(more), 1):
        await stored.append(0, [value])
        assert await read(stored, 0, COUNT - 1, 9) == stored.values[0][COUNT - 1 :]
        last = await asyncio.to_thread(stored.log.last, 0)
        assert last == (COUNT + count - 1, value)


def renumbered(values: list[bytes], first: int = COUNT) -> list[bytes]:
    """Return decisions with the numbers from `first` on."""
    pattern = re.compile(rb'"partition_sequence":\d+')
    return [
        pattern.sub(b'"partition_sequence":%d' % number, value, count=1)
        for number, value in enumerate(values, first)
    ]


async def test_single_decisions_are_read_in_the_requested_order(stored: StoredLog) -> None:
    values, some = stored.values[0], [COUNT - 1, 3, 4, 0, 6, 5]
    found = await asyncio.to_thread(decisions_at, stored.log, 0, some)
    assert found == [values[number] for number in some]
    with pytest.raises(LogDamaged, match=f"has no decision {COUNT}"):
        await asyncio.to_thread(decisions_at, stored.log, 0, [0, COUNT])
    with pytest.raises(LogDamaged, match=f"has no decision {COUNT}"):
        await asyncio.to_thread(decisions_at, stored.log, 0, [COUNT - 2, COUNT - 1, COUNT])


async def test_a_log_has_the_decisions_with_its_hashes_alone(stored: StoredLog) -> None:
    head = hash_of(stored.values[0][5])
    for number, expected in ((5, True), (4, False), (COUNT, False)):
        found = await asyncio.to_thread(has_decision, stored.log, 0, number, head)
        assert found is expected


async def test_the_parts_are_the_whole_log(stored: StoredLog) -> None:
    expected = list(enumerate(stored.values))
    assert await all_parts(stored) == expected
    for place in range(len(expected)):
        assert await all_parts(stored, only=place) == expected[place : place + 1]
    assert not (await all_parts(stored, only=2) if len(expected) == 1 else [])


async def test_a_part_numbers_its_decisions_and_is_read_from_the_end(stored: StoredLog) -> None:
    def checked() -> int:
        for part in stored.log.parts():
            assert isinstance(part, Part)
            assert (part.first, part.sealed, part.archived) == (0, None, None)
            values = stored.values[part.number]
            pairs = list(zip(part.numbers(), part.values, strict=False))
            assert pairs == list(enumerate(values))
            if part.newest_first is not None:
                assert list(part.newest_first()) == values[::-1]
        return part.number

    assert await asyncio.to_thread(checked) == len(stored.values) - 1


async def test_sizes_are_of_the_partitions_or_none(stored: StoredLog) -> None:
    sizes = await asyncio.to_thread(stored.log.sizes)
    assert [size.number for size in sizes] == list(range(len(stored.values)))
    for size, values in zip(sizes, stored.values, strict=True):
        assert len(values) <= size.records <= 2 * len(values)


async def test_a_log_without_archives_has_no_seal(stored: StoredLog) -> None:
    for partition in range(len(stored.values)):
        assert await asyncio.to_thread(stored.log.seal, partition) is None


async def test_an_unreadable_record_hides_none(stored: StoredLog) -> None:
    await stored.replace(0, [*stored.values[0][:9], b"{oops", *stored.values[0][10:]])
    assert (await all_parts(stored))[0] == (0, stored.values[0])
    for first in (8, 9, 10):
        found = list[bytes]()
        with contextlib.nullcontext() if first == 8 else contextlib.suppress(LogDamaged):
            found = await read(stored, 0, first, 3)
        assert found in ([], stored.values[0][first : first + 3])
        assert found or first > 8


async def test_a_missing_decision_is_no_other_one(stored: StoredLog) -> None:
    await stored.remove(0, 9)
    await forget(stored)
    assert len((await all_parts(stored))[0][1]) == COUNT - 1
    with pytest.raises(LogDamaged, match="9"):
        await read(stored, 0, 9, 1)


async def forget(stored: StoredLog) -> None:
    await asyncio.to_thread(stored.log.forget, 0)


async def test_a_log_that_was_rolled_back_is_read_as_it_is(stored: StoredLog) -> None:
    assert await read(stored, 0, 0, 99) == stored.values[0]
    begin = stored.values[0][:1]
    other = [*begin, *decisions(1, 0, epsilon="3").log[1:9]]
    await stored.replace(0, other)
    for first in (9, COUNT - 1):  # a reader may refuse to go on, and never shows what is gone
        with contextlib.suppress(Unavailable):
            assert await read(stored, 0, first, 5) == []
    await forget(stored)
    assert await read(stored, 0, 0, 99) == other
    assert await asyncio.to_thread(stored.log.last, 0) == (8, other[-1])


async def test_a_closed_log_is_opened_by_the_next_read(stored: StoredLog) -> None:
    for _ in range(2):
        assert await read(stored, 0, 3, 2) == stored.values[0][3:5]
        await asyncio.to_thread(stored.log.close)
