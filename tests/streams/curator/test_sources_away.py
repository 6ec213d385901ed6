"""A question whose source is away waits for it, in nobody's way; then it fails."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from accountant.questions import Schema
from accountant.records.outcomes import Outcome
from streams.answers.granted import GrantedQuestion
from streams.curator.answering import Answering, OpenQuestion
from streams.curator.curator import CuratorOptions
from streams.curator.draw_guard import DrawGuard
from streams.curator.source_retries import SourceRetries
from streams.sources.source_access import SourceAccess, Unlisted
from streams.sources.source_settings import CsvSource, DuckdbSource
from tests.faults.ledger import new_id, until
from tests.nightly import NIGHTLY
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import (
    ROWS,
    SCHEMA,
    Counting,
    CuratedLedger,
    comes_true,
    member,
    opened,
    question,
    session,
    write_data,
)

STARTS = ()

_BRIEF: Final = CuratorOptions(tick=0.05, turn_seconds=1)
_SOON: Final = CuratorOptions(tick=0.05, turn_seconds=10)
"""Of a question that would be tried again for ever by a defect."""
_ONE: Final = CuratorOptions(tick=0.05, at_once=1)
EXACT: Final = "200"
"""An epsilon for noise that is 0 but for one answer in e^200."""

_WRITER: Final = """
import sys, duckdb
with duckdb.connect(sys.argv[1]) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS more (x INTEGER)")
    print("open", flush=True)
    sys.stdin.read()
"""


class Opening(Counting):
    """Counts what is opened, and what comes of it."""

    def __init__(
        self,
        answering: Answering,
        breaks: Callable[[GrantedQuestion], None] = lambda _: None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(answering, breaks)
        self._before = before
        self.opens = list[str]()
        self.away = 0

    def open(self, question: GrantedQuestion, schema: Schema, guard: DrawGuard) -> OpenQuestion:
        self.opens.append(question.grant)
        self._before()
        try:
            return super().open(question, schema, guard)
        except Exception:
            self.away += 1
            raise


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    made = CuratedLedger(tmp_path)
    async with made.open():
        await made.send(opened("census"), "admin")
        await made.send(member("curator", "curator"), "admin")
        await made.store.open_log(0, await made.id(), 0)
        yield made


async def stage(ledger: CuratedLedger, grant: str) -> str | None:
    found = ledger.service.open_reservation("census", grant)
    return None if found is None else found.stage


async def has_no_attempt(ledger: CuratedLedger, grant: str) -> bool:
    return ledger.store._writer.step(grant, "attempt_1") is None


async def begins(ledger: CuratedLedger) -> int:
    """Return how many `begin` the log has."""
    values = await ledger.service.log.read(0, 0, 1_000)
    return sum(json.loads(each)["outcome"] == Outcome.BEGUN for each in values)


def rows(answer: Any) -> int:
    assert answer.outcome == "answered"
    return int(answer.values[0])


# -- what is away


async def test_a_question_waits_for_a_file_that_is_away(ledger: CuratedLedger) -> None:
    ledger.data.unlink()
    answering = Opening(ledger.answering)
    async with ledger.curated(answering):
        grants = [await ledger.ask(question(epsilon=EXACT)), await ledger.ask(session())]
        await until(lambda: set(grants) <= set(answering.opens), "both were tried")
        assert [await ledger.store.get(each) for each in grants] == [None, None]
        assert await stage(ledger, grants[1]) == "reserved"
        write_data(ledger.data)
        assert rows(await ledger.answer(grants[0])) == ROWS
        assert (await ledger.answer(grants[1])).outcome == "answered"
    assert sorted(answering.draws) == sorted(grants)
    assert await begins(ledger) == 1


async def test_a_question_whose_source_stays_away_fails_once_its_time_is_over(
    ledger: CuratedLedger,
) -> None:
    ledger.data.unlink()
    answering = Opening(ledger.answering)
    async with ledger.curated(answering, _BRIEF):
        grants = [await ledger.ask(question()), await ledger.ask(session())]
        assert [(await ledger.answer(each)).outcome for each in grants] == ["failed"] * 2
    assert all(answering.opens.count(each) >= 1 for each in grants)
    assert len(answering.opens) > len(grants), "one of them was tried again"
    assert answering.draws == []
    # The session cost nothing: its holder may void it, or it ends by itself.
    assert await stage(ledger, grants[1]) == "reserved"
    assert await begins(ledger) == 0


async def test_a_question_waits_while_another_process_writes_to_its_database(
    ledger: CuratedLedger,
) -> None:
    path = ledger.directory / "census.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE people AS SELECT 30 AS age, 'north' AS region")
    ledger.use({"base": DuckdbSource(path=str(path), table="people"), **ledger.sources})
    schema = SCHEMA | {"source": {"kind": "duckdb", "name": "base"}}
    await ledger.send(opened("base", schema=schema), "admin")
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WRITER, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    try:
        assert await writer.stdout.readline() == b"open\n"
        answering = Opening(ledger.answering)

        async def each_was_tried() -> bool:
            return answering.away >= 3

        async with ledger.curated(answering, _ONE):
            waiting = [await ledger.ask(question("base", epsilon=EXACT)) for _ in range(3)]
            assert await comes_true(each_was_tried)
            # It waits in nobody's place, nor in that of the same analyst.
            for analyst in ("bob", "ana"):
                grant = await ledger.ask(question(epsilon=EXACT, analyst=analyst))
                assert await comes_true(lambda grant=grant: ledger.store.get(grant))
                assert rows(await ledger.answer(grant)) == ROWS
            assert [await ledger.store.get(each) for each in waiting] == [None] * 3
            writer.stdin.close()
            assert [rows(await ledger.answer(each)) for each in waiting] == [1] * 3
    finally:
        if writer.returncode is None:
            writer.stdin.close()
            await writer.wait()
    assert sorted(set(answering.draws)) == sorted(answering.draws), "each was drawn once"


async def test_a_session_may_be_voided_while_its_source_is_away(ledger: CuratedLedger) -> None:
    ledger.data.unlink()
    answering = Opening(ledger.answering)
    async with ledger.curated(answering):
        grant = await ledger.ask(session())
        await until(lambda: answering.away > 0, "it was tried")
        body = {"version": 1, "type": "void", "request_id": new_id(), "analyst": "ana"}
        void = json.dumps(body | {"dataset": "census", "grant": grant}).encode()
        assert (await ledger.send(void))["outcome"] == "voided"
        write_data(ledger.data)
        assert (await ledger.answer(grant)).outcome == "failed"
    assert answering.draws == []


async def test_an_owner_ends_a_question_that_waits_for_its_source(ledger: CuratedLedger) -> None:
    ledger.data.unlink()
    answering = Opening(ledger.answering)
    async with ledger.curated(answering) as curator:
        grants = [await ledger.ask(question()), await ledger.ask(session())]
        await until(lambda: answering.away >= 2, "they were tried")

        async def ended() -> bool:
            # One that is tried at this moment runs, and does not wait.
            curator.end_questions("census")
            return None not in [await ledger.store.get(each) for each in grants]

        assert await comes_true(ended, seconds=PATIENCE_S)
        assert [(await ledger.answer(each)).outcome for each in grants] == ["failed"] * 2
    assert await stage(ledger, grants[1]) == "reserved"


async def test_a_stop_while_a_question_waits_for_its_source_costs_no_attempt(
    ledger: CuratedLedger,
) -> None:
    ledger.data.unlink()
    grant = await ledger.ask(question(epsilon=EXACT))
    for _ in range(4):
        answering = Opening(ledger.answering)
        async with ledger.curated(answering) as curator:
            counts = curator.counts
            await until(lambda: answering.away + counts.failed, "it was tried")  # noqa: B023
            assert (len(counts.waiting), counts.failed) == (1, 0)
            # A kill would cost none either: an attempt is stored while a try is under way.
            assert await comes_true(lambda: has_no_attempt(ledger, grant), seconds=30)
    write_data(ledger.data)
    async with ledger.curated():
        assert rows(await ledger.answer(grant)) == ROWS


async def test_a_question_of_earlier_lives_waits_in_no_others_way(ledger: CuratedLedger) -> None:
    ledger.use({"other": CsvSource(path=str(ledger.directory / "other.csv")), **ledger.sources})
    other = SCHEMA | {"source": {"kind": "csv", "name": "other"}}
    await ledger.send(opened("other", schema=other), "admin")
    grants = [await ledger.ask(question(each, epsilon=EXACT)) for each in ("other", "census")]
    for each in grants:
        await ledger.store.put_step(0, each, "attempt_1", b"another life")
    answering = Opening(ledger.answering)
    async with ledger.curated(answering):
        await until(lambda: answering.away > 0, "the first one was tried")
        assert rows(await ledger.answer(grants[1])) == ROWS
        write_data(ledger.directory / "other.csv", rows=7)
        assert rows(await ledger.answer(grants[0])) == 7


def test_a_thousand_questions_on_one_source_are_no_thousand_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, schema = [0.0], Schema(**_fields())
    monkeypatch.setattr("streams.curator.source_retries.steady", lambda: now[0])
    retries = SourceRetries()
    assert [retries.seconds_left(schema) for _ in range(3)] == [0, 0, 0]
    tries = list[float]()
    for _ in range(1_000):
        retries.note_away(schema)
    while now[0] < 60:
        for _ in range(1_000):
            if not retries.seconds_left(schema):
                tries.append(now[0])
                retries.note_away(schema)
        now[0] += 0.25
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert pauses == sorted(pauses), "they grow"
    assert 1 < max(pauses) <= 5.25
    assert tries[0] <= 0.5
    retries.note_there(schema)
    assert [retries.seconds_left(schema) for _ in range(3)] == [0, 0, 0], "all may"


def _fields() -> dict[str, Any]:
    from accountant.records.schema_file import read_schema_file

    parsed = read_schema_file(json.dumps(SCHEMA).encode())
    return {name: getattr(parsed, name) for name in parsed.__struct_fields__}


# -- what has a verdict


async def test_a_version_that_cannot_be_read_is_not_tried_again(ledger: CuratedLedger) -> None:
    path = ledger.directory / "census.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE people AS SELECT 0 AS visits, 'north' AS region")
        connection.execute(
            "CREATE VIEW v AS SELECT 100 // visits AS age, error('no') AS region FROM people"
        )
    ledger.use({"views": DuckdbSource(path=str(path), table="v")})
    schema = SCHEMA | {"source": {"kind": "duckdb", "name": "views"}}
    await ledger.send(opened("views", schema=schema), "admin")
    await ledger.send(member("curator", "curator", dataset="views"), "admin")
    answering = Opening(ledger.answering)
    async with ledger.curated(answering, _SOON):
        grants = [await ledger.ask(question("views")), await ledger.ask(session("views"))]
        assert [(await ledger.answer(each)).outcome for each in grants] == ["failed"] * 2
    assert sorted(answering.opens) == sorted(grants)
    found = ledger.service.open_reservation("views", grants[1])
    assert found is not None
    assert found.stage == "reserved", "a session has its verdict before it begins"


@pytest.mark.parametrize("error", [duckdb.OutOfMemoryException("no"), duckdb.IOException("no")])
async def test_what_a_filter_decides_is_not_tried_again(
    ledger: CuratedLedger, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How much memory a statistic takes may tell of the rows that it touches.
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("streams.sources.data_sources.statistics", fails)
    answering = Opening(ledger.answering)
    async with ledger.curated(answering, _SOON):
        grants = [await ledger.ask(question()), await ledger.ask(session())]
        assert [(await ledger.answer(each)).outcome for each in grants] == ["failed"] * 2

        async def is_settled() -> bool:
            return ledger.service.open_reservation("census", grants[1]) is None

        assert await comes_true(is_settled), "it is settled in full"
    assert sorted(answering.opens) == sorted(grants)
    assert await begins(ledger) == 1, "the session had begun: what fails by rows is charged"


# -- what is replaced


def rename(path: Path) -> None:
    write_data(path.with_name("new"), rows=7)
    path.with_name("new").rename(path)


def write_in_place(path: Path) -> None:
    write_data(path, rows=7)


CHANGES: Final = [rename, write_in_place, Path.touch]


MOMENTS: Final = [
    pytest.param(kind, when, change, id=f"{kind}-{when}-{change.__name__}")
    for kind in ("plain", "session")
    for when in ("opening", "asking")
    for change in CHANGES
    if NIGHTLY
    or (change is rename and (kind, when) != ("session", "opening"))
    or (kind, when, change) == ("plain", "asking", Path.touch)
]


@pytest.mark.parametrize(("kind", "when", "change"), MOMENTS)
async def test_a_file_that_changes_while_it_is_read_is_read_again_from_the_start(
    ledger: CuratedLedger, change: Callable[[Path], None], when: str, kind: str, monkeypatch: Any
) -> None:
    changed = threading.Event()

    def once(*_: object) -> None:
        if not changed.is_set():
            changed.set()
            change(ledger.data)

    from streams.sources.first_reading import read_in_full

    def reading(*arguments: Any) -> None:
        once()
        read_in_full(*arguments)

    if when == "opening":
        monkeypatch.setattr("streams.sources.first_reading.read_in_full", reading)
    answering = Opening(ledger.answering, once if when == "asking" else lambda _: None)
    async with ledger.curated(answering):
        grant = await ledger.ask(session() if kind == "session" else question(epsilon=EXACT))
        answer = await ledger.answer(grant)
        await until(lambda: ledger.service.open_reservation("census", grant) is None, "settled")
    assert answer.outcome == "answered"
    if kind == "plain":
        assert rows(answer) == (ROWS if change is Path.touch else 7)
    assert answering.opens == [grant] * 2
    assert await begins(ledger) == (kind == "session")


async def test_a_file_that_changes_after_the_draw_changes_nothing(
    ledger: CuratedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streams.curator.data_answering import run_question

    def run(*arguments: Any) -> Any:
        rename(ledger.data)
        return run_question(*arguments)

    monkeypatch.setattr("streams.curator.data_answering.run_question", run)
    answering = Opening(ledger.answering)
    async with ledger.curated(answering):
        assert rows(await ledger.answer(await ledger.ask(question(epsilon=EXACT)))) == ROWS
    assert len(answering.opens) == len(answering.draws) == 1


async def test_an_error_after_the_reading_is_not_tried_again(
    ledger: CuratedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("streams.curator.data_answering.run_question", run)
    answering = Opening(ledger.answering)
    async with ledger.curated(answering, _SOON):
        assert (await ledger.answer(await ledger.ask(question()))).outcome == "failed"
    assert len(answering.opens) == len(answering.draws) == 1


# -- what the file of sources says meanwhile


@pytest.mark.parametrize("unlisted", ["nobody", "population"])
async def test_a_source_that_is_added_is_read_by_who_may(
    ledger: CuratedLedger, unlisted: Unlisted, caplog: pytest.LogCaptureFixture
) -> None:
    await ledger.send(opened("mine", population="another"), "admin")
    ledger.use({})
    ledger.access = SourceAccess({}, unlisted)
    async with ledger.curated():
        grant, mine = [
            await ledger.ask(question(each, epsilon=EXACT)) for each in ("census", "mine")
        ]
        await until(lambda: caplog.text.count("question_waits_for_its_source") == 2, "both wait")
        ledger.use_now({"census": CsvSource(path=str(ledger.data), datasets=("census",))})
        assert rows(await ledger.answer(grant)) == ROWS
        assert (await ledger.answer(mine)).outcome == "failed"
    assert ledger.answering.draws == [grant]


async def test_a_right_that_ends_while_a_source_is_opened_reads_nothing(
    ledger: CuratedLedger,
) -> None:
    loop = asyncio.get_running_loop()
    others = {"census": CsvSource(path=str(ledger.data), datasets=("other",))}

    def before() -> None:
        async def change() -> None:
            ledger.use_now(others)

        asyncio.run_coroutine_threadsafe(change(), loop).result()

    answering = Opening(ledger.answering, before=before)
    async with ledger.curated(answering, _SOON):
        assert (await ledger.answer(await ledger.ask(question()))).outcome == "failed"
    assert answering.draws == []
    assert len(answering.opens) == 1
