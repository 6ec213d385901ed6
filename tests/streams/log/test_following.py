"""A follower of a log gets each decision once and in order, whatever is announced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from streams.embedded.sqlite_log import SqliteLog
from streams.errors import Gone, Refused
from streams.log.appended import Appended
from streams.log.async_log import AsyncLog
from streams.tasks.broadcast import Broadcast
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill
from tests.streams.log.stored_logs import COUNT, PLACES, StoredLog, decisions, stored_log
from tests.streams.log.test_decision_log import renumbered

MORE = renumbered(decisions(1, 0, batch=1).log[-8:])


class Followed:
    """A follower of partition 0 and what it has got."""

    def __init__(self, stored: StoredLog, begin: int, *, reread_s: float = PATIENCE_S) -> None:
        self.announcements = Broadcast[Appended](2)  # few: a slow follower loses some
        self.log = AsyncLog(stored.log, self.announcements.subscribe)
        self.stored = stored
        self.found: list[bytes] = []
        self._begin = begin
        self._slices = self.log.follow({0: begin}, reread_s=reread_s)

    async def more(self) -> Appended:
        """Take the next slice; it follows the one before."""
        async with asyncio.timeout(PATIENCE_S):
            each = await anext(self._slices)
        assert (each.partition, each.first) == (0, self._begin + len(self.found))
        self.found += each.values
        return each

    async def until_end(self) -> None:
        """Take slices until the log was read to its end."""
        while (await self.more()).values:
            pass

    def announce(self, first: int, count: int, partition: int = 0) -> None:
        values = self.stored.values[partition][first : first + count]
        self.announcements.send([Appended(partition, first, values)])

    async def close(self) -> None:
        await self._slices.aclose()
        self.log.close()


@pytest.fixture(params=PLACES)
async def stored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoredLog]:
    async with stored_log(request, request.param, tmp_path) as made:
        yield made


async def test_a_follower_gets_the_rest_of_the_log_and_what_is_announced(stored: StoredLog) -> None:
    followed = Followed(stored, COUNT - 3)
    await followed.until_end()
    assert followed.found == stored.values[0][-3:]
    await stored.append(0, MORE)
    followed.announce(COUNT, 2)
    assert (await followed.more()).values == MORE[:2]
    followed.announce(COUNT + 1, 3)  # one of them again
    assert (await followed.more()).values == MORE[2:4]
    followed.announce(COUNT, 4)  # all of them again
    followed.announce(COUNT + 6, 1)  # two were not announced
    await followed.until_end()
    assert followed.found == [*stored.values[0][COUNT - 3 : COUNT], *MORE]
    await followed.close()
    assert not followed.announcements.has_readers


async def test_announcements_that_were_lost_are_read_from_the_log(stored: StoredLog) -> None:
    followed = Followed(stored, 0)
    await followed.until_end()
    await stored.append(0, MORE)
    for number in range(COUNT, COUNT + len(MORE)):
        followed.announce(number, 1)
    await followed.until_end()
    assert followed.found == stored.values[0]
    await followed.close()


async def test_decisions_that_nobody_announces_are_found(stored: StoredLog) -> None:
    followed = Followed(stored, COUNT, reread_s=0.05)
    await followed.until_end()
    await stored.append(0, MORE)
    while len(followed.found) < len(MORE):
        await followed.more()
    assert followed.found == MORE
    await followed.close()


async def test_an_announcement_before_the_log_shows_it_is_not_passed_over(
    stored: StoredLog,
) -> None:
    followed = Followed(stored, COUNT, reread_s=0.05)
    await followed.until_end()
    followed.announcements.send([Appended(0, COUNT + 4, MORE[4:6])])
    assert (await followed.more()).values in ((), [])
    await stored.append(0, MORE)
    while len(followed.found) < len(MORE):
        await followed.more()
    assert followed.found == MORE
    await followed.close()


async def test_other_partitions_are_left_out(stored: StoredLog) -> None:
    followed = Followed(stored, COUNT)
    await followed.until_end()
    followed.announcements.send([Appended(1, COUNT, MORE)])
    await stored.append(0, MORE)
    followed.announce(COUNT, 1)
    assert (await followed.more()).values == MORE[:1]
    await followed.close()


async def test_a_follower_ends_with_its_ledger(stored: StoredLog) -> None:
    followed = Followed(stored, COUNT)
    await followed.until_end()
    followed.announcements.end()
    with pytest.raises(StopAsyncIteration):
        await followed.more()
    await followed.close()


async def test_archived_decisions_are_passed_over(tmp_path: Path, clock: TestClock) -> None:
    file = tmp_path / "ledger.db"
    fill(file, clock)
    await asyncio.to_thread(archive_file, file, clock, tmp_path / "archive.jsonl")
    store = SqliteLog(file)
    first, announcements = store.first_unarchived(), Broadcast[Appended]()
    log = AsyncLog(store, announcements.subscribe)
    async with contextlib.aclosing(log.follow({0: 3}, reread_s=PATIENCE_S)) as slices:
        each = await anext(slices)
        assert (each.first, each.values) == (first, store.read(0, first, 1_000))
        assert each.values
    with pytest.raises(Gone) as gone:
        await log.read(0, first - 1, 1)
    assert gone.value.first == first
    log.close()
    store.close()


async def test_a_log_without_announcements_cannot_be_followed(stored: StoredLog) -> None:
    log = AsyncLog(stored.log)
    with pytest.raises(Refused, match="cannot follow"):
        await anext(log.follow({0: 0}, reread_s=1))
    log.close()
