"""A store of answers that was lost, restored or exchanged: no question is drawn a second time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import msgspec
import pytest

from accountant.answers import FAILED
from streams.answers import SqliteAnswers
from streams.answers.answer_file import open_answers
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.start import run_curator
from streams.embedded.answer_heads import accept_answers, heads_of
from streams.embedded.checkpointing import ledger_id
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from streams.testing.answer_heads import MemoryAnswerHeads
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import CuratedLedger, opened, question
from tests.streams.test_answers_contract import LEDGER, answer


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
async def test_an_older_copy_is_refused_until_it_is_accepted(
    ledger: CuratedLedger, in_place: bool
) -> None:
    old = await start(ledger)
    copy = copy_of(ledger.store_path)
    later = [await answered(ledger) for _ in range(2)]
    draws = list(ledger.answering.draws)
    put_back(copy, ledger.store_path, in_place=in_place)
    for _ in range(2):
        why = await refusal(ledger)
        assert "older copy of the answers: it has 1, and the ledger's file names 3" in why
        assert "accountant accept-answers" in why
    assert ledger.answering.draws == draws
    ledger.accept_answers()
    await nothing_is_drawn_again(ledger, old, later)


async def test_a_lost_store_is_refused_until_that_is_accepted(ledger: CuratedLedger) -> None:
    old = await start(ledger)
    later = await answered(ledger)
    ledger.store_path.rename(ledger.directory / "elsewhere")
    assert "it has 0, and the ledger's file names 2" in await refusal(ledger)
    ledger.store_path.unlink()
    (ledger.directory / "elsewhere").rename(ledger.store_path)
    async with running(ledger):
        assert (await ledger.answer(old)).outcome == "answered"
        assert (await ledger.answer(later)).outcome == "answered"


async def test_a_ledger_that_was_put_back_with_its_answers_is_refused_by_signed_heads(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Ledger and answers agree, and are as old as one another: only a signed head is newer."""
    signs = Settings(checkpoints=tmp_path_factory.mktemp("notes"))
    ledger = CuratedLedger(tmp_path, settings=signs)
    await start(ledger)
    async with ledger.open():
        pending = await ledger.ask(question())
    there = tmp_path_factory.mktemp("restored")
    shutil.copytree(ledger.directory, there, dirs_exist_ok=True)
    async with running(ledger):
        assert (await ledger.answer(pending)).outcome == "answered"
    # Checkpoints are off here: the log's own comparison would refuse the start before.
    restored = CuratedLedger(there)
    heads = heads_of(there / "ledger.db", signs)
    store = SqliteAnswers.open(restored.store_path, heads)
    with pytest.raises(Refused, match="older copy of the answers: it has 1, and a signed head"):
        await store.open_log(0, ledger_id(there / "ledger.db"), 9)
    await store.close()
    accept_answers(there / "ledger.db", restored.store_path, heads)
    async with running(restored):
        assert (await restored.answer(pending)).outcome == "failed"
    assert restored.answering.draws == []


async def test_answers_of_a_log_that_was_rolled_back_are_not_drawn_again(tmp_path: Path) -> None:
    """The accepted loss of decisions accepts that of answers: both are older."""
    heads = MemoryAnswerHeads()
    path = tmp_path / "answers"
    store = SqliteAnswers.open(path, heads)
    assert await store.open_log(0, LEDGER, 1) == 1
    await store.put_first([answer(1)])
    await store.close()
    copy = copy_of(path)
    store = SqliteAnswers.open(path, heads)
    assert await store.open_log(0, LEDGER, 5) == 1
    await store.put_first([answer(2)])
    await store.close()
    put_back(copy, path, in_place=True)
    with pytest.raises(Refused, match="older copy"):
        await opened_at(path, heads, 5)
    heads.log_branch = 1
    assert await opened_at(path, heads, 5) == 5
    assert heads.heads[0].order == (1, 0, 1)
    assert await opened_at(path, heads, 9) == 5


async def opened_at(path: Path, heads: MemoryAnswerHeads, begins: int) -> int:
    """Open a store's log, close it, and return where it begins."""
    store = SqliteAnswers.open(path, heads)
    try:
        return await store.open_log(0, LEDGER, begins)
    finally:
        await store.close()


def test_what_is_no_file_in_the_place_of_a_store_is_named_first(tmp_path: Path) -> None:
    path, pipe = tmp_path / "answers", tmp_path / "pipe"
    path.mkdir()
    os.mkfifo(pipe)
    for found, words in ((path, "is a directory"), (pipe, "is no regular file")):
        with pytest.raises(Refused) as error:
            SqliteAnswers.open(found, MemoryAnswerHeads())
        assert str(error.value).startswith(f"{found} {words}, and not the store of answers. ")
        assert f"move {found} away and run `accountant accept-answers --url sqlite:///" in str(
            error.value
        )


async def test_a_second_store_of_one_ledger_and_then_the_first_are_refused(
    ledger: CuratedLedger,
) -> None:
    await start(ledger)
    first, second = ledger.store_path, ledger.directory / "second"
    for store, words in (second, "it has 0"), (first, "it has 1"):
        ledger.store_path = store
        assert words in await refusal(ledger)
        ledger.accept_answers()
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


async def test_a_store_that_is_damaged_while_it_runs_says_what_to_do(
    ledger: CuratedLedger,
) -> None:
    await start(ledger)
    async with ledger.open():
        curator = Curator(
            ledger.service,
            ledger.store,
            ledger.answering,
            CuratorOptions(tick=0.05),
            access=ledger.access,
        )
        await curator.open()
        os.truncate(ledger.store_path, 2_000)
        os.truncate(f"{ledger.store_path}-wal", 0)
        with pytest.raises(Unavailable):
            await ledger.store.find("census", "ana", "an-id")
        shown = ledger.store.trouble or ""
        assert "put the newest copy of the answers back" in shown, "for those who only read, too"
        ledger.store.trouble = None
        await ledger.ask(question())
        running = asyncio.create_task(run_curator(curator, ledger.store))
        await asyncio.wait({running}, timeout=20)
        curator.stop()
        await running
        note = ledger.store.trouble or ""
        assert "put the newest copy of the answers back" in note
        assert (
            f"remove {ledger.store_path} and run `accountant accept-answers --url sqlite:///"
            in note
        )


async def test_a_file_that_was_renamed_over_a_running_store_takes_nothing(tmp_path: Path) -> None:
    path, heads = tmp_path / "answers", MemoryAnswerHeads()
    store = SqliteAnswers.open(path, heads)
    await store.open_log(0, LEDGER, 0)
    await store.put_first([answer(1)])
    copy_of(path).rename(path)
    refused = False
    try:
        await store.put_first([answer(2)])
    except Refused:
        refused = True
    assert refused
    assert heads.heads[0].head.number == 1
    await store.close()


async def test_a_store_with_a_trigger_is_refused(tmp_path: Path) -> None:
    path, heads = tmp_path / "answers", MemoryAnswerHeads()
    await opened_at(path, heads, 0)
    forged = "UPDATE answers SET value = x'5b5d' WHERE number = new.number"
    edit(path, f"CREATE TRIGGER better AFTER INSERT ON answers BEGIN {forged}; END")
    with pytest.raises(Refused, match="better is missing, or is not as a store has it"):
        await opened_at(path, heads, 0)
    with pytest.raises(Refused, match="no sound store of answers"), open_answers(path):
        pass


async def test_rows_that_are_deleted_from_a_running_store_are_noticed(tmp_path: Path) -> None:
    path, heads = tmp_path / "answers", MemoryAnswerHeads()
    store = SqliteAnswers.open(path, heads)
    await store.open_log(0, LEDGER, 0)
    await store.put_first([answer(1)])
    await store.put_first([answer(2)])
    edit(path, "DELETE FROM answers WHERE number = 2", "DELETE FROM chain WHERE number = 2")
    with pytest.raises(Refused, match="replaced while it was in use"):
        await store.put_first([answer(3)])
    assert await store.get(answer(3).grant) is None
    await store.close()


def edit(path: Path, *statements: str) -> None:
    """Run SQL on a store."""
    with contextlib.closing(apsw.Connection(str(path))) as db:
        for each in statements:
            db.execute(each)


async def test_where_a_restored_store_begins_is_stored(tmp_path: Path) -> None:
    path, heads = tmp_path / "answers", MemoryAnswerHeads()
    for begins, wanted in (5, 5), (9, 5), (20, 20), (30, 20):
        if begins == 20:
            heads.heads.clear()  # as after a restore of a ledger that had no head
        assert await opened_at(path, heads, begins) == wanted
    edit(path, "UPDATE logs SET begins = 1")
    assert await opened_at(path, heads, 40) == 20


async def test_a_server_without_data_names_a_difference(ledger: CuratedLedger) -> None:
    await start(ledger)
    copy = copy_of(ledger.store_path)
    await answered(ledger)
    async with ledger.open():
        await ledger.store.check(0, await ledger.id())
    put_back(copy, ledger.store_path, in_place=True)
    async with ledger.open():
        with pytest.raises(Refused, match="older copy"):
            await ledger.store.check(0, await ledger.id())


# A store of an earlier version, and its mark.


def as_before_chains(ledger: CuratedLedger) -> None:
    """Make the store and the ledger's file those of a version that wrote a mark."""
    edit(ledger.store_path, "DROP TABLE chain", "PRAGMA user_version = 1")
    edit(ledger.directory / "ledger.db", "DROP TABLE answer_heads")
    (number,) = numbers_of(ledger.store_path)
    content = {"inode": ledger.store_path.stat().st_ino, "answers": number}
    ledger.mark.write_bytes(msgspec.json.encode(content))
    ledger.mark.chmod(0o600)


def numbers_of(path: Path) -> list[int]:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        return [number for (number,) in db.execute("SELECT count(*) FROM answers")]


async def test_a_store_without_a_chain_is_carried_over_by_its_mark(ledger: CuratedLedger) -> None:
    old = await start(ledger)
    async with ledger.open():
        pending = await ledger.ask(question())
    as_before_chains(ledger)
    async with running(ledger):
        assert (await ledger.answer(old)).outcome == "answered"
        assert (await ledger.answer(pending)).outcome == "answered"
    assert not ledger.mark.exists()
    assert len(ledger.answering.draws) == len({*ledger.answering.draws}) == 2
    copy = copy_of(ledger.store_path)
    await answered(ledger)
    put_back(copy, ledger.store_path, in_place=True)
    assert "older copy of the answers: it has 2" in await refusal(ledger)


async def test_a_store_without_a_chain_and_without_its_mark_runs_nothing_old(
    ledger: CuratedLedger,
) -> None:
    old = await start(ledger)
    async with ledger.open():
        pending = await ledger.ask(question())
    as_before_chains(ledger)
    ledger.mark.unlink()
    await nothing_is_drawn_again(ledger, old, [pending])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no mark of answers"),
        (b"[1]", "is no mark of answers"),
        (b'{"inode":1,"answers":1}', "stored last"),
        (b"more", "older copy of the answers: it has 1, and 9 or more"),
    ],
)
async def test_a_store_without_a_chain_must_fit_its_mark(
    ledger: CuratedLedger, content: bytes, words: str
) -> None:
    await start(ledger)
    as_before_chains(ledger)
    if content == b"more":
        inode = ledger.store_path.stat().st_ino
        content = msgspec.json.encode({"inode": inode, "answers": 9})
    ledger.mark.write_bytes(content)
    assert words in await refusal(ledger)


async def test_a_reader_needs_no_head(ledger: CuratedLedger) -> None:
    old = await start(ledger)
    as_before_chains(ledger)
    async with ledger.open():
        assert await ledger.store.get(old) is not None
