"""A curator and sessions: begun once, settled at what the stored answer shows, whatever happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import pytest

from accountant.records import Source
from accountant.records.requests import VERSION, Begin
from accountant.reservations.reservation import Reservation
from streams.answers import SqliteAnswers
from streams.answers.granted import GrantedQuestion, granted_question
from streams.answers.store import StepKind
from streams.clock import SystemClock
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.sessions import SessionSteps, Stopping
from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.service.ledger_service import Submission
from tests.faults.ledger import new_id, until
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import (
    Counting,
    CuratedLedger,
    brake,
    member,
    opened,
    question,
    session,
)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    made = CuratedLedger(tmp_path)
    async with made.open():
        await made.send(opened("census"), "admin")
        await made.send(member("curator", "curator"), "admin")
        yield made


async def steps(ledger: CuratedLedger, grant: str) -> list[dict[str, Any]]:
    """Return the decisions on the steps of a grant, in the order of the log."""
    values = await ledger.service.log.read(0, 0, 1_000)
    found = [json.loads(value) for value in values]
    return [each for each in found if each.get("request", {}).get("grant") == grant]


async def settled(ledger: CuratedLedger, grant: str) -> dict[str, Any]:
    """Wait until a reservation is not open any more; return its settlement."""
    find = ledger.service.open_reservation
    await until(lambda: find("census", grant) is None, "it is settled")
    (settlement,) = [each for each in await steps(ledger, grant) if each["outcome"] == "settled"]
    return settlement


async def test_a_session_is_settled_at_the_last_level_that_its_answer_shows(
    ledger: CuratedLedger,
) -> None:
    async with ledger.curated():
        grant = await ledger.ask(session())
        answer = await ledger.answer(grant)
        assert (answer.outcome, answer.stopped) == ("answered", True)
        settlement = await settled(ledger, grant)
    assert settlement["request"]["shown"] == answer.shown
    assert settlement["request"]["via"] == "curator"
    assert float(settlement["reservation"]["returned"]["epsilon"]) > 0
    assert [each["outcome"] for each in await steps(ledger, grant)] == ["begun", "settled"]


async def test_nothing_is_drawn_before_the_reservation_is_begun(ledger: CuratedLedger) -> None:
    stages = list[str]()

    def breaks(question: GrantedQuestion) -> None:
        found = ledger.service.open_reservation("census", question.grant)
        assert found is not None
        stages.append(found.stage)

    async with ledger.curated(Counting(ledger.answering, breaks)):
        await ledger.answer(await ledger.ask(session()))
    assert stages == ["begun"]


async def test_a_session_that_an_earlier_life_has_begun_fails_and_settles_in_full(
    ledger: CuratedLedger,
) -> None:
    grant = await ledger.ask(session())
    begin = Begin(VERSION, new_id(), "ana", "census", grant, "curator")
    body = await ledger.store.put_step(0, grant, "begin", msgspec.json.encode(begin))
    await ledger.store.open_log(0, await ledger.id(), 0)
    assert (await ledger.send(body))["outcome"] == "begun"
    async with ledger.curated():
        assert (await ledger.answer(grant)).outcome == "failed"
        settlement = await settled(ledger, grant)
    assert "shown" not in settlement["request"]
    assert "returned" not in settlement["reservation"]
    assert ledger.answering.draws == []


async def test_a_begin_that_was_stored_and_never_sent_is_sent_as_it_is(
    ledger: CuratedLedger,
) -> None:
    grant = await ledger.ask(session())
    begin = Begin(VERSION, new_id(), "ana", "census", grant, "curator")
    body = await ledger.store.put_step(0, grant, "begin", msgspec.json.encode(begin))
    await ledger.store.open_log(0, await ledger.id(), 0)
    async with ledger.curated():
        assert (await ledger.answer(grant)).outcome == "answered"
        await settled(ledger, grant)
    (begun, _) = await steps(ledger, grant)
    assert begun["request"] == json.loads(body)


async def test_a_session_that_breaks_the_code_is_settled_in_full(ledger: CuratedLedger) -> None:
    def breaks(_: GrantedQuestion) -> None:
        raise ArithmeticError

    async with ledger.curated(Counting(ledger.answering, breaks)):
        grant = await ledger.ask(session())
        assert (await ledger.answer(grant)).outcome == "failed"
        assert "shown" not in (await settled(ledger, grant))["request"]


async def test_a_session_that_may_not_begin_fails(ledger: CuratedLedger) -> None:
    grant = await ledger.ask(session())
    await ledger.store.open_log(0, await ledger.id(), 0)
    await ledger.send(member("curator"), "admin")
    async with ledger.curated():
        assert (await ledger.answer(grant)).outcome == "failed"
    outcomes = [each["outcome"] for each in await steps(ledger, grant)]
    assert outcomes == ["refused", "refused"]  # the begin, and the settlement of what never began
    assert ledger.answering.draws == []


async def test_a_session_that_was_voided_fails(ledger: CuratedLedger) -> None:
    grant = await ledger.ask(session())
    body = {"version": 1, "type": "void", "request_id": new_id(), "analyst": "ana"}
    void = json.dumps(body | {"dataset": "census", "grant": grant}).encode()
    assert (await ledger.send(void))["outcome"] == "voided"
    await ledger.store.open_log(0, await ledger.id(), 0)
    async with ledger.curated():
        assert (await ledger.answer(grant)).outcome == "failed"
    assert ledger.answering.draws == []


async def test_a_stored_session_is_settled_after_a_restart(ledger: CuratedLedger) -> None:
    class Interrupted(SqliteAnswers):
        async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
            if kind == "settle":
                raise OSError
            return await super().put_step(partition, grant, kind, body)

    sound = ledger.store
    ledger.store = Interrupted.open(ledger.store_path, ledger.heads)
    async with ledger.curated():
        grant = await ledger.ask(session())
        answer = await ledger.answer(grant)
    assert [each["outcome"] for each in await steps(ledger, grant)] == ["begun"]
    await ledger.store.close()
    ledger.store = sound
    async with ledger.curated():
        assert (await settled(ledger, grant))["request"]["shown"] == answer.shown
    assert len(ledger.answering.draws) == 1


@pytest.mark.parametrize("shown", [None, "1"])
async def test_a_settlement_that_was_changed_in_the_store_is_not_sent(
    ledger: CuratedLedger, shown: str | None
) -> None:
    class Changed(SqliteAnswers):
        async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
            if kind == "settle":
                fields = json.loads(body) | {"shown": shown}
                kept = {name: value for name, value in fields.items() if value is not None}
                body = json.dumps(kept).encode()
            return await super().put_step(partition, grant, kind, body)

    await ledger.store.close()
    ledger.store = Changed.open(ledger.store_path, ledger.heads)
    options = CuratorOptions(tick=0.05)
    curator = Curator(ledger.service, ledger.store, ledger.answering, options, access=ledger.access)
    await curator.open()
    grant = await ledger.ask(session())
    why = ""
    try:
        async with asyncio.timeout(5):
            await curator.run()
    except* Refused as group:
        why = str(group.exceptions)
    except* TimeoutError:
        why = "it went on"
    assert "is another one than this session takes" in why
    assert [each["outcome"] for each in await steps(ledger, grant)] == ["begun"]


async def test_two_curators_at_once_show_one_answer(ledger: CuratedLedger) -> None:
    async with ledger.curated(), ledger.curated():
        grants = [await ledger.ask(session()) for _ in range(4)]
        grants += [await ledger.ask(question()) for _ in range(4)]
        answers = [await ledger.answer(each) for each in grants]
        for grant, answer in zip(grants[:4], answers[:4], strict=True):
            settlement = await settled(ledger, grant)
            assert settlement["request"].get("shown") == answer.shown
    assert len(await ledger.store.page("census", after=0, limit=100)) == 8
    assert all(each.outcome == "answered" for each in answers[4:])


class BehindService(EmbeddedService):
    """A ledger whose readers know nothing of its reservations yet, while its log has them."""

    def open_reservation(self, dataset: str, grant: str) -> None:
        return None

    def decided_at(self, dataset: str) -> int:
        return 0


class BeforeBegin(EmbeddedService):
    """A ledger whose readers know of no `begin` yet, while its log has them."""

    def open_reservation(self, dataset: str, grant: str) -> Reservation | None:
        found = super().open_reservation(dataset, grant)
        return None if found is None else msgspec.structs.replace(found, stage="reserved")


@pytest.mark.parametrize("service", [BehindService, BeforeBegin])
async def test_a_session_is_answered_and_settled_whatever_readers_know_yet(
    service: type[EmbeddedService], tmp_path: Path
) -> None:
    behind = CuratedLedger(tmp_path, service)
    async with behind.open():
        await behind.send(opened("census"), "admin")
        await behind.send(member("curator", "curator"), "admin")
        async with behind.curated():
            grant = await behind.ask(session())
            answer = await behind.answer(grant)
            assert answer.outcome == "answered"
            find = EmbeddedService.open_reservation
            await until(lambda: find(behind.service, "census", grant) is None, "it is settled")
        assert [each["outcome"] for each in await steps(behind, grant)] == ["begun", "settled"]
        assert (await steps(behind, grant))[1]["request"]["shown"] == answer.shown


async def test_a_settlement_before_another_life_begins_leaves_its_own_to_that_life(
    ledger: CuratedLedger,
) -> None:
    await ledger.store.open_log(0, await ledger.id(), 0)
    answer = await ledger.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    asked = granted_question(0, answer.decision)
    assert asked is not None
    early, late = (
        SessionSteps(ledger.service, ledger.store, "curator", SystemClock()) for _ in range(2)
    )
    await early.settle(asked, None)
    assert await late.begin(asked)
    await late.settle(asked, None)
    outcomes = [each["outcome"] for each in await steps(ledger, asked.grant)]
    assert outcomes == ["refused", "begun", "repeated", "settled"]


async def test_a_settled_session_is_not_sent_again_by_a_later_life(ledger: CuratedLedger) -> None:
    await ledger.store.open_log(0, await ledger.id(), 0)
    answer = await ledger.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    asked = granted_question(0, answer.decision)
    assert asked is not None
    await asyncio.sleep(0.005)  # its steps are decided later than it
    first, later = (
        SessionSteps(ledger.service, ledger.store, "curator", SystemClock()) for _ in range(2)
    )
    assert await first.begin(asked)
    await first.settle(asked, None)
    await later.settle(asked, None)
    assert [each["outcome"] for each in await steps(ledger, asked.grant)] == ["begun", "settled"]


class LosesFirstAnswers(EmbeddedService):
    """A ledger whose first answer to each begin comes after the wait for it is over."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._lost = set[bytes]()

    async def submit(self, source: Source, body: bytes, **more: Any) -> Submission:
        answer = await super().submit(source, body, **more)
        if b'"type":"begin"' in body and body not in self._lost:
            self._lost.add(body)
            return Submission(decision=None, partition=0)
        return answer


@pytest.fixture
async def losing(tmp_path: Path) -> AsyncIterator[CuratedLedger]:
    made = CuratedLedger(tmp_path, LosesFirstAnswers)
    async with made.open():
        await made.send(opened("census"), "admin")
        await made.send(member("curator", "curator"), "admin")
        yield made


async def test_a_begin_that_is_decided_after_the_wait_lets_its_own_life_draw(
    losing: CuratedLedger,
) -> None:
    async with losing.curated():
        grant = await losing.ask(session())
        assert (await losing.answer(grant)).outcome == "answered"
        await settled(losing, grant)
    assert [each["outcome"] for each in await steps(losing, grant)] == [
        *("begun", "repeated", "settled")
    ]
    assert losing.answering.draws == [grant]


async def test_a_begin_that_was_refused_after_the_wait_lets_nobody_draw(
    losing: CuratedLedger,
) -> None:
    grant = await losing.ask(session())
    await losing.store.open_log(0, await losing.id(), 0)
    await losing.send(member("curator"), "admin")
    async with losing.curated():
        assert (await losing.answer(grant)).outcome == "failed"
    outcomes = [each["outcome"] for each in await steps(losing, grant)]
    assert outcomes == ["refused", "repeated", "refused"]
    assert losing.answering.draws == []


async def test_a_life_may_draw_a_session_once(losing: CuratedLedger) -> None:
    await losing.store.open_log(0, await losing.id(), 0)
    answer = await losing.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    question = granted_question(0, answer.decision)
    assert question is not None
    life = SessionSteps(losing.service, losing.store, "curator", SystemClock())
    assert await life.begin(question)
    assert not await life.begin(question)
    another = SessionSteps(losing.service, losing.store, "curator", SystemClock())
    assert not await another.begin(question)


async def test_a_session_of_a_paused_dataset_waits_until_it_is_resumed(
    ledger: CuratedLedger,
) -> None:
    grant = await ledger.ask(session())
    await ledger.store.open_log(0, await ledger.id(), 0)
    await ledger.send(brake("pause"), "admin")
    begin = Begin(VERSION, new_id(), "ana", "census", grant, "curator")
    body = await ledger.store.put_step(0, grant, "begin", msgspec.json.encode(begin))
    assert (await ledger.send(body))["reason"] == "paused"
    async with ledger.curated():
        await asyncio.sleep(1)
        assert await ledger.store.get(grant) is None
        await ledger.send(brake("resume"), "admin")
        assert (await ledger.answer(grant)).outcome == "answered"
        await settled(ledger, grant)
    outcomes = [each["outcome"] for each in await steps(ledger, grant)]
    assert outcomes == ["refused", "repeated", "begun", "settled"]


async def test_a_session_of_a_paused_analyst_waits_without_a_decision(
    ledger: CuratedLedger,
) -> None:
    await ledger.store.open_log(0, await ledger.id(), 0)
    answer = await ledger.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    waiting = granted_question(0, answer.decision)
    assert waiting is not None
    steps_of = SessionSteps(ledger.service, ledger.store, "curator", SystemClock())
    for target in ("ana", "curator"):
        await ledger.send(brake("pause_member", member=target, reason="a loop"), "admin")
        with pytest.raises(Unavailable, match="or its analyst is: the session waits"):
            await steps_of.begin(waiting)
        assert await steps(ledger, waiting.grant) == []
        await ledger.send(brake("resume_member", member=target), "admin")
    assert await steps_of.begin(waiting)


async def test_sessions_that_wait_hold_up_no_other_question(ledger: CuratedLedger) -> None:
    grants = [await ledger.ask(session()) for _ in range(3)]
    await ledger.store.open_log(0, await ledger.id(), 0)
    await ledger.send(brake("pause"), "admin")
    await ledger.send(opened("survey"), "admin")
    async with ledger.curated():
        answer = await ledger.answer(await ledger.ask(question("survey")))
        assert answer.dataset == "survey"
        assert [await ledger.store.get(each) for each in grants] == [None] * 3
        assert not [each for grant in grants for each in await steps(ledger, grant)]


async def test_a_session_waits_no_longer_than_its_deadline(ledger: CuratedLedger) -> None:
    class LaterClock(SystemClock):
        def now(self) -> int:
            return super().now() + 2 * 3_600_000

    await ledger.store.open_log(0, await ledger.id(), 0)
    answer = await ledger.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    waiting = granted_question(0, answer.decision)
    assert waiting is not None
    await ledger.send(brake("pause"), "admin")
    now, later = (
        SessionSteps(ledger.service, ledger.store, "curator", clock)
        for clock in (SystemClock(), LaterClock())
    )
    with pytest.raises(Unavailable, match="census is paused"):
        await now.begin(waiting)
    assert not await later.begin(waiting)
    assert await steps(ledger, waiting.grant) == []


async def test_a_begin_that_is_stored_as_the_curator_stops_is_not_sent(
    ledger: CuratedLedger,
) -> None:
    stopping = asyncio.Event()

    class Stopped(SqliteAnswers):
        async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
            stopping.set()
            return await super().put_step(partition, grant, kind, body)

    await ledger.store.close()
    ledger.store = Stopped.open(ledger.store_path, ledger.heads)
    await ledger.store.open_log(0, await ledger.id(), 0)
    answer = await ledger.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    waiting = granted_question(0, answer.decision)
    assert waiting is not None
    clock = SystemClock()
    stopped = SessionSteps(ledger.service, ledger.store, "curator", clock, stopping=stopping)
    with pytest.raises(Stopping):
        await stopped.begin(waiting)
    assert await steps(ledger, waiting.grant) == []
    # The next life sends the same bytes, and draws.
    assert await SessionSteps(ledger.service, ledger.store, "curator", clock).begin(waiting)


async def test_a_step_that_is_refused_again_and_again_ends_with_the_curator(
    ledger: CuratedLedger,
) -> None:
    stopping = asyncio.Event()

    class Away:
        """The ledger's service, whose broker is away."""

        def __getattr__(self, name: str) -> Any:
            return getattr(ledger.service, name)

        async def submit(self, *_: object, **__: object) -> NoReturn:
            stopping.set()
            raise Unavailable("the broker does not answer")

    await ledger.store.open_log(0, await ledger.id(), 0)
    answer = await ledger.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    waiting = granted_question(0, answer.decision)
    assert waiting is not None
    away = cast("Any", Away())
    steps_of_one = SessionSteps(away, ledger.store, "curator", SystemClock(), stopping=stopping)
    with pytest.raises(Stopping):
        await asyncio.wait_for(steps_of_one.begin(waiting), PATIENCE_S)


async def test_a_step_that_nobody_decides_ends_with_the_curator(ledger: CuratedLedger) -> None:
    class Undecided:
        """The ledger's service, which never decides."""

        def __init__(self) -> None:
            self.sent = asyncio.Event()

        def __getattr__(self, name: str) -> Any:
            return getattr(ledger.service, name)

        async def submit(self, *_: object, **__: object) -> NoReturn:
            self.sent.set()
            await asyncio.Event().wait()
            raise AssertionError

    await ledger.store.open_log(0, await ledger.id(), 0)
    answer = await ledger.service.submit("requests", session(), wait=60)
    assert answer.decision is not None
    waiting = granted_question(0, answer.decision)
    assert waiting is not None
    stopping, undecided = asyncio.Event(), Undecided()
    steps_of_one: Any = SessionSteps(
        cast("Any", undecided), ledger.store, "curator", SystemClock(), stopping=stopping
    )
    begun = asyncio.create_task(steps_of_one.begin(waiting))
    await undecided.sent.wait()
    stopping.set()
    ended, _ = await asyncio.wait({begun}, timeout=PATIENCE_S)
    begun.cancel()
    assert ended, "the session still waits for the ledger"
    with pytest.raises(Stopping):
        await begun
    # The stored step never reached the ledger, so the next life begins with it.
    another = SessionSteps(ledger.service, ledger.store, "curator", SystemClock())
    assert await another.begin(waiting)
    assert [each["outcome"] for each in await steps(ledger, waiting.grant)] == ["begun"]
