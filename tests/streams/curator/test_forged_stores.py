"""Stores that were changed, cut, added to or replaced, and curators that crash at each step.

Each forgery is tried with the head in the ledger's file, with a signed head alone, and with both.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import msgspec
import pytest

from accountant.answers import decode_answer, encode_answer
from streams.answers import SqliteAnswers, StoredAnswer
from streams.answers.answer_file import open_answers
from streams.answers.chain import add_entries, entry_after, first_head
from streams.answers.heads import ChainHead, StoredHead
from streams.answers.tables import answers_in_order, insert_first
from streams.audit.answer_comparison import AnswerComparison
from streams.embedded.answer_heads import LedgerAnswerHeads, heads_of
from streams.embedded.checkpointing import ledger_id
from streams.embedded.sqlite_log import SqliteLog
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from streams.testing.answer_heads import MemoryAnswerHeads
from tests.nightly import NIGHTLY
from tests.streams.curator.curated import CuratedLedger, opened, question
from tests.streams.test_answers_contract import LEDGER, answer

BEGINS: Final = 100
NOTHING: Final = "sha256:" + 64 * "a"


class Base(NamedTuple):
    """A closed ledger with five answers, and an older copy of them.

    Attributes:
        older: its store when it had three.
        notes: the folder of its checkpoints.
    """

    directory: Path
    older: Path
    ledger: str
    notes: Path


async def _answered(directory: Path, notes: Path) -> Base:
    ledger = CuratedLedger(directory, settings=Settings(checkpoints=notes))
    older = directory / "older"
    for number in range(5):
        async with ledger.open():
            if number == 0:
                await ledger.send(opened("census"), "admin")
            async with ledger.curated():
                await ledger.answer(await ledger.ask(question()))
        if number == 2:
            _copy(ledger.store_path, older)
    return Base(directory, older, ledger_id(directory / "ledger.db"), notes)


def _copy(source: Path, target: Path) -> None:
    with (
        contextlib.closing(apsw.Connection(str(source))) as old,
        contextlib.closing(apsw.Connection(str(target))) as new,
        new.backup("main", old, "main") as backup,
    ):
        backup.step()
    target.chmod(0o600)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    directory = tmp_path_factory.mktemp("answered")
    return asyncio.run(_answered(directory, tmp_path_factory.mktemp("notes")))


class Forged(NamedTuple):
    """A copy of the base that a forgery changes."""

    db: apsw.Connection
    path: Path
    base: Base

    def answers(self) -> list[StoredAnswer]:
        return list(answers_in_order(self.db, 0))


Forgery = Callable[[Forged], None]


def sql(*statements: str) -> Forgery:
    def forge(forged: Forged) -> None:
        for each in statements:
            forged.db.execute(each)

    return forge


def redrawn(number: int) -> Forgery:
    """Put another draw of a count in an answer's place, with its interval: no other check tells."""

    def forge(forged: Forged) -> None:
        found = decode_answer(forged.answers()[number - 1].value)
        moved = {
            name: tuple(str(int(each) + 1) for each in getattr(found, name))
            for name in ("values", "low", "high")
        }
        value = encode_answer(msgspec.structs.replace(found, **moved))
        forged.db.execute("UPDATE answers SET value = ? WHERE number = ?", (value, number))

    return forge


def chained_again(number: int) -> Forgery:
    """Draw an answer again, and make its entry and all later ones again."""
    first = number

    def forge(forged: Forged) -> None:
        db = forged.db
        redrawn(number)(forged)
        query = "SELECT number, hash FROM chain WHERE number = ?"
        before = (
            ChainHead(*db.execute(query, (first - 1,)).fetchone())
            if first > 1
            else first_head(forged.base.ledger, 0)
        )
        rows = db.execute("SELECT number, batch, random FROM chain WHERE number >= ?", (first,))
        entries = {number: (batch, random) for number, batch, random in rows}
        for each in forged.answers()[first - 1 :]:
            entry = entry_after(before, each, *entries[before.number + 1])
            db.execute("UPDATE chain SET hash = ? WHERE number = ?", (entry.hash, entry.number))
            before = ChainHead(entry.number, entry.hash)

    return forge


def made_again(forged: Forged) -> None:
    """Make the whole chain again, with other random bytes."""
    forged.db.execute("DELETE FROM chain")
    for each in forged.answers():
        last = forged.db.execute("SELECT number, hash FROM chain ORDER BY number DESC").fetchone()
        before = ChainHead(*last) if last else first_head(forged.base.ledger, 0)
        add_entries(forged.db, before, [each])


def added(batches: int) -> Forgery:
    """Add an answer with its entry, so many times."""

    def forge(forged: Forged) -> None:
        for number in range(batches):
            query = "SELECT number, hash FROM chain ORDER BY number DESC LIMIT 1"
            before = ChainHead(*forged.db.execute(query).fetchone())
            _, new = insert_first(forged.db, [answer(number)])
            add_entries(forged.db, before, new)

    return forge


def as_a_new_store(forged: Forged) -> None:
    sql("DELETE FROM answers", "DELETE FROM chain", "DELETE FROM steps", "DELETE FROM logs")(forged)


def older(forged: Forged) -> None:
    """Put the older copy's content into the same file."""
    old = apsw.Connection(str(forged.base.older))
    with contextlib.closing(old), forged.db.backup("main", old, "main") as backup:
        backup.step()


FORGERIES: Final[dict[str, Forgery]] = {
    "a value": redrawn(3),
    "the last value": redrawn(5),
    "a value with its entry and later ones": chained_again(3),
    "the last value with its entry": chained_again(5),
    "every entry": chained_again(1),
    "the random bytes of every entry": made_again,
    "the random bytes of an entry": sql("UPDATE chain SET random = zeroblob(32) WHERE number = 2"),
    "the hash of an entry": sql(f"UPDATE chain SET hash = '{NOTHING}' WHERE number = 2"),
    "the batch of an entry": sql("UPDATE chain SET batch = 2 WHERE number = 3"),
    "its grant": sql(f"UPDATE answers SET grant_hash = '{NOTHING}' WHERE number = 2"),
    "its analyst": sql("UPDATE answers SET analyst = 'zed' WHERE number = 4"),
    "its dataset": sql("UPDATE answers SET dataset = 'wages' WHERE number = 4"),
    "its request": sql("UPDATE answers SET request_id = 'another' WHERE number = 1"),
    "the last is cut": sql("DELETE FROM answers WHERE number = 5"),
    "the last is cut with its entry": sql(
        "DELETE FROM answers WHERE number = 5", "DELETE FROM chain WHERE number = 5"
    ),
    "the first is cut": sql("DELETE FROM answers WHERE number = 1"),
    "the first is cut with its entry": sql(
        "DELETE FROM answers WHERE number = 1", "DELETE FROM chain WHERE number = 1"
    ),
    "one in the middle is cut": sql(
        "DELETE FROM answers WHERE number = 3", "DELETE FROM chain WHERE number = 3"
    ),
    "all are cut": as_a_new_store,
    "the entries are cut": sql("DELETE FROM chain"),
    "two are exchanged": sql(
        "UPDATE answers SET number = 99 WHERE number = 2",
        "UPDATE answers SET number = 2 WHERE number = 3",
        "UPDATE answers SET number = 3 WHERE number = 99",
    ),
    "one is added without an entry": sql(
        f"INSERT INTO answers SELECT 0, 6, '{NOTHING}', dataset, analyst, 'x', value "
        "FROM answers WHERE number = 1"
    ),
    "an entry is added without an answer": sql(
        "INSERT INTO chain SELECT partition, 6, 6, random, hash FROM chain WHERE number = 5"
    ),
    "an older copy": older,
    "an older copy that went on": lambda forged: (older(forged), added(2)(forged))[0],
    "two batches are added": added(2),
}
ONLY_WITH_THE_LEDGERS_HEAD: Final = {"two batches are added"}
"""A store that continues a signed head may be right: heads are signed at ticks."""


@pytest.fixture(params=["the ledger's head", "a signed head", "both heads"])
def heads(request: pytest.FixtureRequest, base: Base, tmp_path: Path) -> str:
    """A copy of the base in `tmp_path`, with one head or both."""
    for each in base.directory.iterdir():
        if each.is_file():
            shutil.copy(each, tmp_path)
    if request.param == "a signed head":
        with contextlib.closing(apsw.Connection(str(tmp_path / "ledger.db"))) as db:
            db.execute("DROP TABLE answer_heads")
    return str(request.param)


def settings_of(base: Base, kind: str) -> Settings:
    return Settings(checkpoints="off" if kind == "the ledger's head" else base.notes)


async def open_log(directory: Path, settings: Settings) -> int:
    ledger = directory / "ledger.db"
    store = SqliteAnswers.open(directory / "ledger.db.answers", heads_of(ledger, settings))
    try:
        return await store.open_log(0, ledger_id(ledger), BEGINS)
    finally:
        await store.close()


async def opens(directory: Path, settings: Settings) -> int | None:
    """Return where a store's log begins, None if it is refused."""
    try:
        return await open_log(directory, settings)
    except Refused:
        return None


def audited(directory: Path, ledger: str) -> set[str]:
    """Return the fields in which an audit finds differences, with the ledger's head."""
    (part,) = SqliteLog(directory / "ledger.db").parts()
    read_head = LedgerAnswerHeads(directory / "ledger.db").read
    with open_answers(directory / "ledger.db.answers") as store:
        comparison = AnswerComparison(store, lambda: read_head(0))
        for _ in comparison.watch(part).values:
            pass
        return {each.what for each in comparison.report({0: ledger}).disagreements}


async def test_each_forged_store_is_refused_and_named(
    heads: str, base: Base, tmp_path: Path
) -> None:
    settings, passed = settings_of(base, heads), list[str]()
    store = tmp_path / "ledger.db.answers"
    for name, forge in FORGERIES.items():
        if heads == "both heads" and "older copy" not in name and not NIGHTLY:
            continue  # one head alone finds these, and by day is tried alone
        for each in base.directory.glob("ledger.db.answers*"):
            shutil.copy(each, tmp_path)
        with contextlib.closing(apsw.Connection(str(store))) as db:
            forge(Forged(db, store, base))
        if heads != "a signed head" and not audited(tmp_path, base.ledger):
            passed.append(f"audit: {name}")
        begins = await opens(tmp_path, settings)
        if begins is None:
            continue
        if heads == "a signed head" and name in ONLY_WITH_THE_LEDGERS_HEAD:
            assert begins == BEGINS  # and nothing old is run
            with contextlib.closing(apsw.Connection(str(tmp_path / "ledger.db"))) as db:
                db.execute("DROP TABLE answer_heads")
        else:
            passed.append(f"start: {name}")
    assert not passed, passed


async def test_the_store_before_it_was_forged_is_accepted(
    heads: str, base: Base, tmp_path: Path
) -> None:
    if heads != "a signed head":
        assert audited(tmp_path, base.ledger) == set()
    first = await open_log(tmp_path, settings_of(base, heads))
    # Without a head in the ledger's file nobody knows which answers were read.
    assert (first == BEGINS) is (heads == "a signed head")


# Crashes: between the draw and the store nothing has happened yet, so the steps are these.


class Killed(BaseException):
    """The process ends here."""


class CrashingHeads(MemoryAnswerHeads):
    """Heads whose next `write` ends the process, before or after it has written."""

    def __init__(self) -> None:
        super().__init__()
        self.crash: str | None = None

    def write(self, partition: int, head: StoredHead) -> None:
        crash, self.crash = self.crash, None
        if crash != "before the head":
            super().write(partition, head)
        if crash is not None:
            raise Killed


async def reopened(path: Path, heads: MemoryAnswerHeads) -> SqliteAnswers:
    store = SqliteAnswers.open(path, heads)
    await store.open_log(0, LEDGER, 9)
    return store


@pytest.mark.parametrize("crash", ["before the head", "after the head"])
async def test_a_crash_at_the_head_gives_no_grant_a_second_answer(
    tmp_path: Path, crash: str
) -> None:
    path, heads = tmp_path / "answers", CrashingHeads()
    store = SqliteAnswers.open(path, heads)
    await store.open_log(0, LEDGER, 0)
    await store.put_first([answer(1, b'["first"]')])
    _copy(path, tmp_path / "older")
    before = dict(heads.heads)
    heads.crash = crash
    with pytest.raises(Killed):
        await store.put_first([answer(2, b'["first"]'), answer(3, b'["first"]')])
    # Nobody has read an answer that no head names, in this process or in another.
    assert (await store.get(answer(2).grant) is None) is (crash == "before the head")
    assert len(await store.page("census", after=0, limit=9)) == (1 if "before" in crash else 3)
    await store.close()
    after = dict(heads.heads)
    assert (after == before) is (crash == "before the head")

    # As the disk has it: the stored answers win.
    store = await reopened(path, heads)
    (again,) = await store.put_first([answer(2, b'["second"]')])
    assert again.value == b'["first"]'
    assert await store.get(answer(3).grant) is not None
    await store.close()

    # With an older copy: drawn again only if nobody can have read the first draw.
    heads.heads = after
    shutil.copy(tmp_path / "older", path)
    for end in "-wal", "-shm":
        path.with_name(path.name + end).unlink(missing_ok=True)
    if crash == "before the head":
        store = await reopened(path, heads)
        (second,) = await store.put_first([answer(2, b'["second"]')])
        assert second.value == b'["second"]'
        await store.close()
    else:
        with pytest.raises(Refused, match="older copy"):
            await reopened(path, heads)


async def test_one_batch_at_most_is_ahead_of_a_head_that_cannot_be_written(tmp_path: Path) -> None:
    path, heads = tmp_path / "answers", MemoryAnswerHeads()
    store = SqliteAnswers.open(path, heads)
    await store.open_log(0, LEDGER, 0)
    coming = store.subscribe()
    for _ in range(2):
        heads.fails = Unavailable("the disk is full")
        with pytest.raises(Unavailable):
            await store.put_first([answer(1)])
    assert await store.get(answer(1).grant) is None
    heads.fails = Unavailable("the disk is full")
    with pytest.raises(Unavailable):  # the earlier batch comes first
        await store.put_first([answer(2)])
    with contextlib.closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT count(*) FROM answers").get == 1
    (stored,) = await store.put_first([answer(2)])
    assert heads.heads[0].head.number == 2
    assert [(await anext(coming)).grant for _ in range(2)] == [answer(1).grant, stored.grant]
    coming.close()
    await store.close()


async def test_two_curators_store_one_answer_of_each_grant_in_one_chain(tmp_path: Path) -> None:
    path, heads = tmp_path / "answers", MemoryAnswerHeads()
    stores = [SqliteAnswers.open(path, heads) for _ in range(2)]
    for each in stores:
        await each.open_log(0, LEDGER, 0)

    async def put(store: SqliteAnswers, draw: bytes) -> Sequence[StoredAnswer]:
        return [(await store.put_first([answer(n, draw)]))[0] for n in range(20)]

    one, two = await asyncio.gather(put(stores[0], b'["one"]'), put(stores[1], b'["two"]'))
    assert [each.value for each in one] == [each.value for each in two]
    for each in stores:
        assert len(await each.page("census", after=0, limit=99)) == 20
        await each.close()
    assert heads.heads[0].head.number == 20
    store = await reopened(path, heads)
    await store.close()


async def test_a_second_curator_finishes_the_batch_of_a_first_that_was_killed(
    tmp_path: Path,
) -> None:
    path, heads = tmp_path / "answers", CrashingHeads()
    first, second = (SqliteAnswers.open(path, heads) for _ in range(2))
    for each in (first, second):
        await each.open_log(0, LEDGER, 0)
    heads.crash = "before the head"
    with pytest.raises(Killed):
        await first.put_first([answer(1)])
    await second.put_first([answer(2)])
    assert heads.heads[0].head.number == 2
    assert await second.get(answer(1).grant) is not None
    for each in (first, second):
        await each.close()


async def test_two_equal_answers_have_entries_that_nobody_can_guess(tmp_path: Path) -> None:
    hashes = set[str]()
    for number in range(2):
        heads = MemoryAnswerHeads()
        store = SqliteAnswers.open(tmp_path / str(number), heads)
        await store.open_log(0, LEDGER, 0)
        await store.put_first([answer(1)])
        hashes.add(heads.heads[0].head.hash)
        await store.close()
    assert len(hashes) == 2
