"""A curator ends soon after its stop, whatever it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import duckdb
import pytest
from msgspec import UNSET

from accountant.questions import CheckedQuestion, Schema
from accountant.questions.parts import Vector
from streams.answers import SqliteAnswers
from streams.answers.granted import GrantedQuestion, granted_question
from streams.answers.store import StepKind
from streams.clock import SystemClock
from streams.curator import log_follower
from streams.curator.answering import Answering, OpenQuestion
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.data_answering import DataAnswering
from streams.curator.draw_guard import DrawGuard, NotDrawn
from streams.curator.metrics import CuratorMetrics
from streams.errors import Refused, Unavailable
from streams.server.monitoring import with_answers
from streams.sources import DataSources
from streams.sources.source_access import SourceAccess
from streams.sources.source_settings import DuckdbSource
from streams.testing.answer_heads import MemoryAnswerHeads
from tests.faults.ledger import until
from tests.nightly import rounds
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import (
    SCHEMA,
    CuratedLedger,
    comes_true,
    member,
    opened,
    question,
    session,
)
from tests.threads import threads_named

STARTS = ()

_SHORT: Final = CuratorOptions(tick=0.05, stop_seconds=0.2)
_LONG: Final = CuratorOptions(tick=0.05, stop_seconds=PATIENCE_S)
_ATTEMPTS: Final[tuple[StepKind, ...]] = ("attempt_1", "attempt_2", "attempt_3")


class Reading:
    """An `Answering` whose questions read until they are released, or interrupted.

    Args:
        draws_first: it reads after the draw: what it returns is drawn, and stored by nobody.
    """

    def __init__(self, answering: Answering, *, draws_first: bool = False) -> None:
        self._answering = answering
        self._draws_first = draws_first
        self.reads, self.released, self.ended = (threading.Event() for _ in range(3))
        self.refused = list[str]()
        self.failed, self.is_failed = answering.failed, answering.is_failed
        self.shown = answering.shown

    def interrupt(self) -> None:
        """Have the thread go on, and try to draw."""
        self.released.set()

    def open(self, question: GrantedQuestion, schema: Schema, guard: DrawGuard) -> OpenQuestion:
        opened = self._answering.open(question, schema, guard)
        return HeldQuestion(self, question, opened, guard)

    def draw(self, question: GrantedQuestion, opened: OpenQuestion, guard: DrawGuard) -> bytes:
        try:
            if self._draws_first:
                value = opened.draw()
            guard.read_by(self)
            self.reads.set()
            assert self.released.wait(PATIENCE_S)
            return value if self._draws_first else opened.draw()
        except (NotDrawn, Refused):  # the second where its source was closed meanwhile
            self.refused.append(question.grant)
            raise
        finally:
            self.ended.set()


class HeldQuestion:
    """An `OpenQuestion` whose draw is held."""

    def __init__(
        self, held: Reading, question: GrantedQuestion, opened: OpenQuestion, guard: DrawGuard
    ) -> None:
        self._held, self._question = held, question
        self._opened, self._guard = opened, guard
        self.close = opened.close

    def draw(self) -> bytes:
        return self._held.draw(self._question, self._opened, self._guard)


class Hangs:
    """Does what another object does, but for one method, which never returns."""

    def __init__(self, other: object, method: str) -> None:
        self._other, self._method = other, method
        self.called = asyncio.Event()
        self.trouble: str | None = None

    def __getattr__(self, name: str) -> Any:
        return self._hang if name == self._method else getattr(self._other, name)

    async def _hang(self, *_: object, **__: object) -> NoReturn:
        self.called.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    made = CuratedLedger(tmp_path)
    async with made.open():
        await made.send(opened("census"), "admin")
        await made.send(member("curator", "curator"), "admin")
        await made.store.open_log(0, await made.id(), 0)
        yield made


def curator_of(
    ledger: CuratedLedger,
    options: CuratorOptions,
    *,
    answering: Answering | None = None,
    service: object = None,
    store: object = None,
) -> Curator:
    return Curator(
        cast("Any", service or ledger.service),
        cast("Any", store or ledger.store),
        answering or ledger.answering,
        options,
        access=ledger.access,
    )


async def becomes(holds: Callable[[], bool]) -> bool:
    """Tell whether something becomes true that a bug would delay for ever."""

    async def now() -> bool:
        return holds()

    return await comes_true(now)


@contextlib.asynccontextmanager
async def stopped(curator: Curator) -> AsyncIterator[None]:
    """Run a curator for the block, then stop it, and wait until it has ended by itself."""
    await curator.open()
    task = asyncio.create_task(curator.run())
    try:
        yield
        curator.stop()
        ended, _ = await asyncio.wait({task}, timeout=PATIENCE_S)
        assert ended, "the curator has not ended"
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})


def attempts(ledger: CuratedLedger, grant: str) -> list[str]:
    """Return the attempts at a question that count."""
    tables = ledger.store._writer
    return [kind for kind in _ATTEMPTS if tables.step(grant, kind) is not None]


@pytest.mark.parametrize(
    ("part", "method", "body"),
    [
        ("service", "dataset", question),
        ("service", "submit", session),
        ("store", "get", question),
        ("store", "put_step", question),
        ("store", "put_step", session),
        ("store", "put_first", question),
        ("store", "take_back", question),
    ],
)
async def test_it_ends_whatever_it_waits_for(
    ledger: CuratedLedger, part: str, method: str, body: Callable[[], bytes]
) -> None:
    parts = {"service": ledger.service, "store": ledger.store}
    reading = Reading(ledger.answering)
    hangs = Hangs(parts[part], method)
    curator = curator_of(ledger, _SHORT, answering=reading, **{part: hangs})
    await ledger.ask(body())
    if method != "take_back":
        reading.released.set()
    async with stopped(curator):
        if method == "take_back":
            await until(reading.reads.is_set, "the question reads")
        else:
            await asyncio.wait_for(hangs.called.wait(), PATIENCE_S)
    assert hangs.called.is_set()


async def test_it_ends_while_more_is_granted_than_it_takes_at_once(
    ledger: CuratedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "_MAX_OPEN", 2)
    reading = Reading(ledger.answering)
    for _ in range(5):
        await ledger.ask(question())
    curator = curator_of(ledger, CuratorOptions(tick=0.05, at_once=1), answering=reading)
    async with stopped(curator):
        await until(reading.reads.is_set, "the first one reads")
        reading.released.set()
        curator.stop()


async def test_what_runs_at_the_stop_is_answered_and_nothing_else_runs(
    ledger: CuratedLedger,
) -> None:
    reading = Reading(ledger.answering)
    grants = [await ledger.ask(body) for body in (question(), question(), session())]
    options = CuratorOptions(tick=0.05, stop_seconds=PATIENCE_S, at_once=1)
    curator = curator_of(ledger, options, answering=reading)
    async with stopped(curator):
        await until(reading.reads.is_set, "the first one reads")
        curator.stop()
        reading.released.set()
    assert [await ledger.store.get(each) is not None for each in grants] == [True, False, False]
    assert [attempts(ledger, each) for each in grants] == [["attempt_1"], [], []]
    assert (await ledger.service.dataset("census")) is not None
    found = ledger.service.open_reservation("census", grants[2])
    assert found is not None
    assert found.stage == "reserved"


async def test_an_attempt_that_has_not_drawn_is_taken_back_however_often(
    ledger: CuratedLedger,
) -> None:
    grant = await ledger.ask(question())
    for _ in range(4):  # more than the lives that try a question
        reading = Reading(ledger.answering)
        async with stopped(curator_of(ledger, _SHORT, answering=reading)):
            await until(reading.reads.is_set, "the question reads")
            assert attempts(ledger, grant) == ["attempt_1"]
        assert attempts(ledger, grant) == []
        assert await ledger.store.get(grant) is None
        # Its thread goes on after the end, and draws nothing.
        await until(reading.ended.is_set, "its thread ends")
        assert reading.refused == [grant]
    async with stopped(curator_of(ledger, _LONG)):
        assert (await ledger.answer(grant)).outcome == "answered"
    assert ledger.answering.draws == [grant] * 5


async def test_the_attempt_of_another_life_is_not_taken_back(ledger: CuratedLedger) -> None:
    grant = await ledger.ask(question())
    await ledger.store.put_step(0, grant, "attempt_1", b"another life")
    reading = Reading(ledger.answering)
    async with stopped(curator_of(ledger, _SHORT, answering=reading)):
        await until(reading.reads.is_set, "it reads")
        assert attempts(ledger, grant) == ["attempt_1", "attempt_2"]
    assert attempts(ledger, grant) == ["attempt_1"]


async def test_an_attempt_that_was_stored_and_never_ran_is_taken_back(
    ledger: CuratedLedger,
) -> None:
    grant = await ledger.ask(question())

    class Cancelled(Hangs):
        """Stores an attempt, and never says so."""

        async def _hang(self, *args: Any, **_: object) -> NoReturn:
            await getattr(self._other, self._method)(*args)
            return await super()._hang()

    store = Cancelled(ledger.store, "put_step")
    async with stopped(curator_of(ledger, _SHORT, store=store)):
        await asyncio.wait_for(store.called.wait(), PATIENCE_S)
        assert attempts(ledger, grant) == ["attempt_1"]
    assert attempts(ledger, grant) == []


async def test_an_attempt_that_has_drawn_is_not_taken_back(ledger: CuratedLedger) -> None:
    grant = await ledger.ask(question())
    reading = Reading(ledger.answering, draws_first=True)
    async with stopped(curator_of(ledger, _SHORT, answering=reading)):
        await until(reading.reads.is_set, "the answer is drawn")
    assert attempts(ledger, grant) == ["attempt_1"]
    assert await ledger.store.get(grant) is None, "what was not stored is discarded"


async def test_an_answer_that_cannot_be_stored_keeps_its_attempt(ledger: CuratedLedger) -> None:
    grant = await ledger.ask(question())
    store = Full(ledger.store)
    async with stopped(curator_of(ledger, _SHORT, store=store)):
        await until(lambda: store.refused > 1, "its answer is not stored")
    assert attempts(ledger, grant) == ["attempt_1"]


class Full(Hangs):
    """A store whose disk is full."""

    def __init__(self, store: object, method: str = "put_first") -> None:
        super().__init__(store, method)
        self.refused = 0
        self.has_room = False

    async def _hang(self, *args: Any, **_: object) -> Any:  # type: ignore[override]
        if self.has_room:
            return await getattr(self._other, self._method)(*args)
        self.refused += 1
        raise Unavailable("the disk is full")


async def test_a_session_that_is_cut_fails_and_is_charged_in_full(
    ledger: CuratedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    grant = await ledger.ask(session())
    reading = Reading(ledger.answering)
    curator = curator_of(ledger, _LONG, answering=reading)
    async with stopped(curator):
        await until(reading.reads.is_set, "the session reads")
        curator.stop()
        curator._runner.cut()  # as after the seconds of a stop
        answer = await ledger.answer(grant)
    assert (answer.outcome, answer.shown) == ("failed", None)
    assert ledger.service.open_reservation("census", grant) is None, "it is settled"
    assert reading.refused == [grant]
    assert "question_cut" in caplog.text
    assert "charged in full" in caplog.text


async def test_a_reading_ends_with_its_curator(ledger: CuratedLedger, tmp_path: Path) -> None:
    path = tmp_path / "slow.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute(
            "CREATE VIEW slow AS SELECT a.range AS age, 'north' AS region "
            "FROM range(10000000) a, range(10000000) b"
        )
    settings = DuckdbSource(path=str(path), table="slow")
    ledger.access = SourceAccess({"slow": settings}, "population")
    schema = {**SCHEMA, "source": {"kind": "duckdb", "name": "slow"}}
    await ledger.send(opened("other", schema=schema), "admin")
    answering = DataAnswering(DataSources({"slow": settings}), b"k" * 32)
    grant = await ledger.ask(question("other"))
    before = threads_named("question")
    async with stopped(curator_of(ledger, _SHORT, answering=answering)):
        await until(lambda: attempts(ledger, grant) == ["attempt_1"], "it runs")
    assert attempts(ledger, grant) == []
    assert threads_named("question") <= before


async def test_data_that_are_read_after_the_cut_give_no_draw(ledger: CuratedLedger) -> None:
    guard, read = DrawGuard(), list[CheckedQuestion]()

    class Cut:
        """Sources, whose question is cut while they are read."""

        zone_rules = UNSET

        def open(self, schema: Schema, **_: object) -> Cut:
            return self

        def close(self) -> None:
            """Nothing is open."""

        def statistics(self, checked: CheckedQuestion, **_: object) -> tuple[Vector, ...]:
            assert guard.cut()
            read.append(checked)
            return ((Fraction(400),),)

    decision = (await ledger.service.submit("requests", question(), wait=PATIENCE_S)).decision
    view = await ledger.service.dataset("census")
    assert decision is not None
    assert view is not None
    assert view.schema is not UNSET
    asked = granted_question(0, decision)
    assert asked is not None
    with pytest.raises(NotDrawn):
        DataAnswering(Cut(), b"k").open(asked, view.schema, guard).draw()
    assert read


def test_either_the_draw_or_its_end_comes_first() -> None:
    for _ in range(rounds(200, 20_000)):
        guard, drawn = DrawGuard(), list[bool]()

        def draw(guard: DrawGuard = guard, drawn: list[bool] = drawn) -> None:
            with contextlib.suppress(NotDrawn):
                guard.draw()
                drawn.append(True)

        thread = threading.Thread(target=draw)
        thread.start()
        is_cut = guard.cut()
        thread.join()
        assert is_cut is not bool(drawn)
        assert guard.cut() is is_cut


def full(ledger: CuratedLedger) -> Callable[[], object]:
    """Fill the store's disk; return what frees it."""
    db = ledger.store._writer.connection
    before = db.pragma("max_page_count")
    db.pragma("max_page_count", 1)  # as many as it has
    return lambda: db.pragma("max_page_count", before)


def read_only(ledger: CuratedLedger) -> Callable[[], object]:
    """Have the store's disk be read-only; return what ends that."""
    db = ledger.store._writer.connection
    db.pragma("query_only", True)
    return lambda: db.pragma("query_only", False)


def away(ledger: CuratedLedger) -> Callable[[], object]:
    """Put a file in the place of the store's directory; return what puts it back."""
    there, elsewhere = ledger.store_path.parent, ledger.store_path.parent.with_name("elsewhere")
    there.rename(elsewhere)
    there.touch()

    def back() -> None:
        there.unlink()
        elsewhere.rename(there)

    return back


@pytest.mark.parametrize("break_store", [full, away, read_only][: rounds(2, 3)])
async def test_a_store_that_cannot_be_written_is_noted_until_it_can(
    tmp_path: Path, break_store: Callable[[CuratedLedger], Callable[[], object]]
) -> None:
    ledger = CuratedLedger(tmp_path)
    (tmp_path / "answers").mkdir()
    ledger.store_path = tmp_path / "answers" / "store"
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        await ledger.store.open_log(0, await ledger.id(), 0)
        curator = curator_of(ledger, _LONG)
        collected = CuratorMetrics(curator.counts, SystemClock())

        def seconds() -> float:
            name = "privacy_answers_not_stored_seconds"
            (found,) = [each for each in collected.collect() if each.name == name]
            return float(found.samples[0].value)

        readiness = with_answers(ledger.service.readiness, ledger.store, curator.queue())
        async with stopped(curator):
            repair = break_store(ledger)
            many = 8 if break_store is full else 2  # more than the store's pages have room for
            grants = [await ledger.ask(question(purpose="x" * 200)) for _ in range(many)]
            assert await becomes(lambda: seconds() > 0), "nothing says what is not stored"
            assert readiness().ready
            assert "Free the disk" in readiness().notes[-1]
            repair()
            for each in grants:
                assert (await ledger.answer(each)).outcome == "answered"
            assert await becomes(lambda: seconds() == 0), (
                "it still says that something is not stored"
            )
            assert readiness().notes == ledger.service.readiness().notes


@pytest.mark.parametrize("method", ["put_first", "put_step", "move"])
async def test_what_cannot_be_stored_is_noted_until_it_is(
    ledger: CuratedLedger, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "_MOVE_S", 0.0)
    store = Full(ledger.store, method)
    curator = curator_of(ledger, _LONG, store=store)
    note, seconds = curator.queue().note, curator.counts.not_stored.seconds
    assert (note(), seconds()) == (None, 0)
    grant = await ledger.ask(question())
    async with stopped(curator):
        await until(lambda: store.refused > 0, "it is not stored")
        said = note()
        assert said is not None
        assert "the disk is full. Free the disk" in said
        assert seconds() > 0
        store.has_room = True
        await ledger.ask(question())  # the log grows, so its place moves
        assert await becomes(lambda: note() is None), "the note stays though there is room"
        assert seconds() == 0
        assert (await ledger.answer(grant)).outcome == "answered"


def test_a_store_that_a_disk_does_not_open_is_not_to_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    SqliteAnswers.open(path, MemoryAnswerHeads()).close_now()
    (tmp_path / "answers-wal").mkdir()  # as if no file could be made
    with pytest.raises(Refused) as refused:
        SqliteAnswers.open(path, MemoryAnswerHeads())
    assert "Free the disk, or make them readable and writable" in str(refused.value)
    assert "remove" not in str(refused.value)
