"""A store of answers that was lost, restored or exchanged: no question is drawn a second time."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import msgspec
import pytest

from accountant.answers import FAILED
from streams.answers import SqliteAnswers
from streams.curator.curator import Curator, CuratorOptions
from streams.errors import Refused
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import CuratedLedger, opened, question


@pytest.fixture
def ledger(tmp_path: Path) -> CuratedLedger:
    return CuratedLedger(tmp_path)


@contextlib.asynccontextmanager
async def running(ledger: CuratedLedger) -> AsyncIterator[None]:
    async with ledger.open(), ledger.curated():
        yield


async def refusal(ledger: CuratedLedger) -> str:
    """Return why a curator does not start, "" if it does."""
    try:
        async with running(ledger):
            return ""
    except Refused as error:
        return str(error)


async def start(ledger: CuratedLedger) -> str:
    """Open the dataset and have one question answered; return its grant."""
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        async with ledger.curated():
            grant = await ledger.ask(question())
            assert (await ledger.answer(grant)).outcome == "answered"
    return grant


async def answered(ledger: CuratedLedger) -> str:
    """Have one more question answered; return its grant."""
    async with running(ledger):
        grant = await ledger.ask(question())
        assert (await ledger.answer(grant)).outcome == "answered"
    return grant


def copy_of(store: Path) -> Path:
    """Copy a store as the page about backups has it."""
    copy = store.with_name("copy.db")
    source, target = apsw.Connection(str(store)), apsw.Connection(str(copy))
    with source, target, target.backup("main", source, "main") as backup:
        backup.step()
    source.close()
    target.close()
    copy.chmod(0o600)
    return copy


def put_back(copy: Path, store: Path, *, in_place: bool) -> None:
    """Put a copy in a store's place, into the same file or as another one."""
    for end in "-wal", "-shm":
        store.with_name(store.name + end).unlink(missing_ok=True)
    if in_place:
        store.write_bytes(copy.read_bytes())
    else:
        copy.rename(store)


async def nothing_is_drawn_again(ledger: CuratedLedger, old: str, later: list[str]) -> None:
    """Run a curator on a store that has no answers to `later`, which were published."""
    draws = list(ledger.answering.draws)
    async with running(ledger):
        new = await ledger.ask(question())
        assert (await ledger.answer(new)).outcome == "answered"
        for grant in later:
            answer = await ledger.answer(grant)
            assert (answer.outcome, answer.reason) == ("failed", FAILED)
        assert (await ledger.answer(old)).outcome == "answered"
    assert ledger.answering.draws == [*draws, new]


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "another file"])
async def test_an_older_copy_is_refused_until_its_mark_is_removed(
    ledger: CuratedLedger, in_place: bool
) -> None:
    old = await start(ledger)
    copy = copy_of(ledger.store_path)
    later = [await answered(ledger) for _ in range(2)]
    draws = list(ledger.answering.draws)
    put_back(copy, ledger.store_path, in_place=in_place)
    words = "older copy of the answers: it has 1, and 3 or more" if in_place else "stored last"
    for _ in range(2):
        why = await refusal(ledger)
        assert words in why
        assert f"remove {ledger.mark}" in why
    assert ledger.answering.draws == draws
    ledger.mark.unlink()
    await nothing_is_drawn_again(ledger, old, later)


async def test_a_lost_store_is_refused_until_its_mark_is_removed(ledger: CuratedLedger) -> None:
    old = await start(ledger)
    later = await answered(ledger)
    ledger.store_path.rename(ledger.directory / "elsewhere")
    assert "Put that file back" in await refusal(ledger)
    ledger.store_path.unlink()
    (ledger.directory / "elsewhere").rename(ledger.store_path)
    async with running(ledger):
        assert (await ledger.answer(old)).outcome == "answered"
        assert (await ledger.answer(later)).outcome == "answered"


async def test_a_directory_that_was_copied_elsewhere_is_refused(
    ledger: CuratedLedger, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The copy of ledger, answers and mark agree, and are as old as one another."""
    await start(ledger)
    async with ledger.open():
        pending = await ledger.ask(question())
    there = tmp_path_factory.mktemp("restored")
    shutil.copytree(ledger.directory, there, dirs_exist_ok=True)
    async with running(ledger):
        assert (await ledger.answer(pending)).outcome == "answered"
    restored = CuratedLedger(there)
    assert "stored last" in await refusal(restored)
    restored.mark.unlink()
    async with running(restored):
        assert (await restored.answer(pending)).outcome == "failed"
    assert restored.answering.draws == []


async def test_a_second_store_of_one_ledger_and_then_the_first_are_refused(
    ledger: CuratedLedger,
) -> None:
    await start(ledger)
    first, second = ledger.store_path, ledger.directory / "second"
    for store in second, first:
        ledger.store_path = store
        assert "stored last" in await refusal(ledger)
        ledger.mark.unlink()
        later = await answered(ledger)
    draws = ledger.answering.draws
    assert len(draws) == len({*draws}) == 3
    assert draws[-1] == later


async def test_a_store_that_is_replaced_while_it_runs_stores_nothing_more(
    ledger: CuratedLedger,
) -> None:
    await start(ledger)
    copy = copy_of(ledger.store_path)
    async with ledger.open():
        async with ledger.curated():
            await ledger.answer(await ledger.ask(question()))
        options = CuratorOptions(tick=0.05)
        curator = Curator(
            ledger.service, ledger.store, ledger.answering, options, access=ledger.access
        )
        await curator.open()
        copy.rename(ledger.store_path)
        grant = await ledger.ask(question())
        with pytest.raises(BaseExceptionGroup) as ended:
            async with asyncio.timeout(PATIENCE_S):
                await curator.run()
        assert ended.group_contains(Refused, match="replaced while it was in use")
        assert await ledger.store.get(grant) is None


async def test_at_most_one_commit_is_ahead_of_a_mark_that_cannot_be_written(
    ledger: CuratedLedger,
) -> None:
    await start(ledger)
    async with running(ledger):
        mark = ledger.mark.read_bytes()
        ledger.mark.unlink()
        ledger.mark.mkdir()
        ahead = await ledger.ask(question())
        assert (await ledger.answer(ahead)).outcome == "answered"
        grant = await ledger.ask(question())
        await asyncio.sleep(0.5)  # ten ticks
        assert await ledger.store.get(grant) is None
        ledger.mark.rmdir()
        assert (await ledger.answer(grant)).outcome == "answered"
    assert msgspec.json.decode(ledger.mark.read_bytes())["answers"] == 3
    # As after a crash before the mark: a store that is ahead of it is complete.
    ledger.mark.write_bytes(mark)
    await answered(ledger)
    assert len(ledger.answering.draws) == len({*ledger.answering.draws}) == 4


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"inode":1,"answers":"3"}'])
async def test_a_damaged_mark_is_refused(ledger: CuratedLedger, content: bytes) -> None:
    await start(ledger)
    ledger.mark.write_bytes(content)
    assert "is no mark of answers" in await refusal(ledger)


async def test_where_a_restored_store_begins_is_stored(ledger: CuratedLedger) -> None:
    for begins, wanted in (5, 5), (9, 5), (20, 20), (30, 20):
        if begins == 20:
            ledger.mark.unlink()
        store = SqliteAnswers.open(ledger.store_path)
        assert await store.open_log(0, "a ledger", begins) == wanted
        await store.close()


async def test_a_reader_needs_no_mark(ledger: CuratedLedger) -> None:
    old = await start(ledger)
    ledger.mark.unlink()
    store = SqliteAnswers.open(ledger.store_path)
    assert await store.get(old) is not None
    await store.close()
    assert not ledger.mark.exists()
