"""One contract for every journal: what the processor relies on, adapter by adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accountant.records.inputs import Input
from accountant.replay.replay import state_rows
from streams.errors import CommitUnknown, Fenced, JournalFault, Unavailable
from streams.processing.journal import Commit
from tests.streams.bodies import asking, opening
from tests.streams.processing.contract import AT, Harness, MemoryHarness, Player, SqliteHarness


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    made: Harness
    if request.param == "memory":
        made = MemoryHarness()
    elif request.param == "sqlite":
        made = SqliteHarness(tmp_path)
    else:
        from tests.streams.processing.kafka_harness import KafkaHarness

        broker = request.getfixturevalue("broker")
        made = KafkaHarness(broker.bootstrap, request.getfixturevalue("application"))
        await made.start()
    yield made
    await made.close()


async def player(harness: Harness) -> Player:
    return Player(await harness.make(), harness.genesis)


async def start(harness: Harness) -> Player:
    started = await player(harness)
    await started.start()
    return started


def now(playing: Player) -> int:
    """Return a time to decide at: Kafka's genesis is dated by the machine's clock."""
    return max(AT, playing.partition.decided_at)


async def feed(harness: Harness, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        await harness.feed("requests", asking("census", AT, number))


async def read_decisions_since(harness: Harness, since: int | None) -> list[bytes]:
    """Return the decisions that an owner reads from a time on."""
    journal = await harness.make()
    await journal.own()
    values = [value async for value in journal.decisions(since)]
    await journal.drop()
    return values


async def test_a_new_log_contains_only_its_genesis(harness: Harness) -> None:
    first = await start(harness)
    assert (first.partition.sequence, first.partition.ledgers) == (0, {})
    visible = await harness.visible()
    assert len(visible.decisions) == 1
    assert visible.rows == {}


async def test_a_commit_is_visible_whole_and_in_order(harness: Harness) -> None:
    playing = await start(harness)
    genesis = (await harness.visible()).decisions
    await harness.feed("admin", opening("census", AT, 1))
    await feed(harness, 5)
    await harness.feed("requests", b"nonsense")
    decided = await playing.decide(1, now(playing)) + await playing.decide(6, now(playing))
    visible = await harness.visible()
    assert visible.decisions == genesis + decided
    assert visible.rows == dict(state_rows(playing.partition))
    assert visible.dead_letters == [b"nonsense"]


async def test_reopening_gives_equal_bytes(harness: Harness) -> None:
    playing = await start(harness)
    await harness.feed("admin", opening("census", AT, 1))
    await playing.decide(1, now(playing))
    for i in range(3):
        await feed(harness, 4, first=4 * i)
        await playing.decide(4, now(playing))
    live = state_rows(playing.partition)
    await playing.journal.drop()
    before = await harness.visible()
    for _ in range(2):
        again = await start(harness)
        assert state_rows(again.partition) == live
        await again.journal.drop()
    assert await harness.visible() == before
    assert await read_decisions_since(harness, None) == before.decisions


async def test_owning_fences_the_predecessor(harness: Harness) -> None:
    old = await start(harness)
    await harness.feed("admin", opening("census", AT, 1))
    await old.decide(1, now(old))  # so that what it knows of the log is its own last commit
    await feed(harness, 2)
    draft, commit = old.draft(await old.read(2), now(old))
    await start(harness)
    before = await harness.visible()
    with pytest.raises((Fenced, CommitUnknown)):
        await old.journal.commit(commit)
    await old.journal.drop()
    assert await harness.visible() == before
    assert draft.partition.sequence == 1


async def test_an_owner_that_owned_twice_is_fenced(harness: Harness) -> None:
    old = await start(harness)
    await harness.feed("admin", opening("census", AT, 1))
    await old.decide(1, now(old))
    await old.journal.drop()
    await old.start()
    await feed(harness, 2)
    _, commit = old.draft(await old.read(2), now(old))
    await start(harness)
    with pytest.raises((Fenced, CommitUnknown)):
        await old.journal.commit(commit)
    await old.journal.drop()


async def test_a_fenced_owner_stays_fenced_after_its_successor_commits(harness: Harness) -> None:
    await feed(harness, 1)
    old = await start(harness)
    _, commit = old.draft(await old.read(1), now(old))
    new = await start(harness)
    await harness.feed("admin", opening("census", AT, 1))
    await new.decide(1, now(new))
    before = await harness.visible()
    with pytest.raises((Fenced, CommitUnknown)):
        await old.journal.commit(commit)
    await old.journal.drop()
    assert await harness.visible() == before
    await harness.feed("admin", opening("other", AT, 2))
    decided = await new.decide(1, now(new))
    assert (await harness.visible()).decisions == before.decisions + decided


async def test_a_fenced_owner_can_own_again(harness: Harness) -> None:
    old = await start(harness)
    new = await start(harness)
    await old.journal.drop()
    await old.start()
    await harness.feed("admin", opening("census", AT, 1))
    await old.decide(1, now(old))
    with pytest.raises(JournalFault):
        await new.journal.commit(Commit([], [(b"key", b"value")], [], {}, 0))
    assert b"key" not in (await harness.visible()).rows


async def test_decisions_since_a_time_hold_all_from_then_and_the_last(harness: Harness) -> None:
    playing = await start(harness)
    begin = now(playing)
    for i in range(6):
        await harness.feed("admin", opening(f"d{i}", AT, i))
        await playing.decide(1, begin + 1000 * i)
    everything = (await harness.visible()).decisions
    await playing.journal.drop()
    times = {json.loads(value)["decided_at"]: value for value in everything}
    assert len(times) == 6  # the genesis and the first opening have the same time
    for since in (0, begin, begin + 1, begin + 2500, begin + 5000, begin + 5001, begin + 90_000):
        values = await read_decisions_since(harness, since)
        assert values == everything[len(everything) - len(values) :]
        assert values[-1] == everything[-1]
        wanted = sum(begin + 1000 * i >= since for i in range(6))
        assert len(values) >= max(wanted, 1)


async def test_rows_are_replaced_and_deleted(harness: Harness) -> None:
    playing = await start(harness)
    for rows in (
        [(b"a", b"1"), (b"b", b"1")],
        [(b"a", b"2"), (b"c", b"1")],
        [(b"b", None), (b"never", None), (b"c", b"3")],
    ):
        await playing.journal.commit(Commit([], rows, [], {}, 0))
    await playing.journal.drop()
    assert (await harness.visible()).rows == {b"a": b"2", b"c": b"3"}
    again = await harness.make()
    await again.own()
    found = {key: value async for key, value in again.rows()}
    assert {key: value for key, value in found.items() if value} == {b"a": b"2", b"c": b"3"}
    await again.drop()


async def test_inputs_are_read_in_order_from_the_requested_offset(harness: Harness) -> None:
    await feed(harness, 5)
    playing = await start(harness)
    records = await playing.read(2)
    assert [(r.source, r.offset) for r in records] == [("requests", 0), ("requests", 1)]
    assert [r.value for r in records] == [asking("census", AT, number) for number in (0, 1)]
    draft, commit = playing.draft(records, now(playing))
    await playing.journal.commit(commit)
    draft.absorb()
    await playing.journal.drop()
    await playing.start()
    assert playing.partition.next == {"requests": 2, "admin": 0}
    records = await playing.read(3)
    assert [r.offset for r in records] == [2, 3, 4]
    assert [r.value for r in records] == [asking("census", AT, number) for number in (2, 3, 4)]


async def test_a_read_waits_for_input_and_at_most_the_given_time(harness: Harness) -> None:
    playing = await start(harness)
    assert await playing.journal.read(10, 0.01) == []
    await feed(harness, 1)
    assert [record.offset for record in await playing.read(1)] == [0]


async def test_a_log_longer_than_a_page_is_read_in_order(harness: Harness) -> None:
    playing = await start(harness)
    inputs = [
        Input("requests", i, b"census", asking("census", AT, i, epsilon="0.0001"), AT)
        for i in range(2_500)
    ]
    for i in range(0, len(inputs), 500):
        draft, commit = playing.draft(inputs[i : i + 500], now(playing))
        rows = [(b"row-%05d" % (i + j), b"x") for j in range(500)]
        await playing.journal.commit(commit._replace(rows=rows))
        draft.absorb()
    await playing.journal.drop()
    values = await read_decisions_since(harness, None)
    assert values == (await harness.visible()).decisions
    assert len(values) == 2_501
    again = await harness.make()
    await again.own()
    keys = {key async for key, value in again.rows() if value}
    assert keys == {b"row-%05d" % i for i in range(2_500)}
    await again.drop()


async def test_a_dropped_commit_is_never_visible(harness: Harness) -> None:
    await feed(harness, 1)
    playing = await start(harness)
    before = await harness.visible()
    _, commit = playing.draft(await playing.read(1), now(playing))
    await playing.journal.drop()
    with pytest.raises((Fenced, Unavailable)):
        await playing.journal.commit(commit)
    await playing.journal.drop()
    assert await harness.visible() == before


async def test_a_drop_in_the_middle_of_anything_leaves_a_sound_log(harness: Harness) -> None:
    await harness.feed("admin", opening("census", AT, 0))
    playing = await player(harness)
    await playing.journal.drop()  # before it was ever owned
    await playing.start()
    await playing.decide(1, now(playing))
    before = await harness.visible()
    await playing.journal.drop()
    await playing.journal.own()
    await playing.journal.drop()
    await playing.journal.own()
    async for _ in playing.journal.rows():
        await playing.journal.drop()
        break
    await playing.journal.own()
    async for _ in playing.journal.decisions(None):
        await playing.journal.drop()
        break
    await playing.start()
    reading = asyncio.create_task(playing.journal.read(10, 5.0))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await playing.journal.drop()
    await playing.journal.drop()
    assert await harness.visible() == before
    await playing.start()
    await harness.feed("admin", opening("other", AT, 1))
    decided = await playing.decide(1, now(playing))
    assert (await harness.visible()).decisions == before.decisions + decided


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
async def test_a_cancelled_commit_is_visible_whole_or_not_at_all(
    harness: Harness, turns: int
) -> None:
    await harness.feed("admin", opening("census", AT, 0))
    playing = await start(harness)
    before = await harness.visible()
    draft, commit = playing.draft(await playing.read(1), now(playing))
    committing = asyncio.create_task(playing.journal.commit(commit))
    for _ in range(turns):
        await asyncio.sleep(0.001)
    committing.cancel()
    await asyncio.gather(committing, return_exceptions=True)
    await playing.journal.drop()
    again = await start(harness)  # from here on it is decided which of the two it is
    visible = await harness.visible()
    if visible != before:
        draft.absorb()
        assert visible.decisions == before.decisions + [e.value for e in commit.decisions]
        assert visible.rows == dict(state_rows(draft.partition))
    assert again.partition.sequence == len(visible.decisions) - 1
    assert dict(state_rows(again.partition)) == (visible.rows or dict(state_rows(again.partition)))
