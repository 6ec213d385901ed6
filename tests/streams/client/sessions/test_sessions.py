"""A session is charged what it has shown, or its maximum, whatever its program does wrong."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from streams.client import (
    Accountant,
    AccountantWarning,
    AsyncAccountant,
    MechanismSession,
    NameTaken,
    NotGranted,
    OutOfOrder,
    Reply,
    ResultMissing,
    ResultStore,
    StillRunning,
    Unanswered,
    UsedAfterFork,
)
from streams.client.releases.grants import TAGGED_JSON
from streams.client.releases.store import ResultName
from streams.client.requests.request_notes import OPEN_SESSION
from streams.client.sessions.session_record import SessionRecord
from streams.clock import SystemClock
from streams.settings import Settings
from tests.nightly import NIGHTLY, rounds
from tests.patience import PATIENCE_S
from tests.streams.cli.exits import HELD, Proxy
from tests.streams.client.sessions import session_crashes
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

OPENS = ()
STARTS = ("tests.streams.client.sessions.session_crashes",)

ROOT = Path(__file__).parents[4]
CLAIM = "brownian:variance=400,sensitivity=1,first=10000"
WHOLE, FIRST, SECOND = "0.00125", "0.00005", "0.0002"  # rho at 400, 10000 and 2500
PLAIN = "zcdp:0.001"
NAME = "cases"
RHO = {"filter": "zcdp", "rho": "1"}


class Draws:
    """A mechanism of a session, which never draws the same answer twice and counts."""

    def __init__(self) -> None:
        self.runs = 0
        self.count = 0

    def __call__(self) -> Callable[[str], str]:
        self.runs += 1
        return self.draw

    def draw(self, level: str) -> str:
        self.count += 1
        return f"answer {self.count} at {level}"


@pytest.fixture
def draws() -> Draws:
    return Draws()


@pytest.fixture(autouse=True)
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "answers.db"))
    return tmp_path / "answers.db"


@pytest.fixture(params=["in process", "http"])
def ledger(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Iterator[Accountant]:
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{file}"
        if request.param == "http":
            url = stack.enter_context(LocalServer(file, clock)).url
        client = stack.enter_context(Accountant(url, clock=clock, analyst="ana"))
        client.as_owner("owner").open("census", RHO, as_given=True)
        yield client


@pytest.fixture
def embedded(file: Path, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as client:
        client.as_owner("owner").open("census", RHO, as_given=True)
        yield client


def spent(ledger: Accountant) -> str:
    return str(ledger.dataset("census").totals["rho"])


def has_open(ledger: Accountant, dataset: str = "census") -> bool:
    """Whether a dataset has an open reservation."""
    held = list(ledger.requests(dataset))[-1].held
    return held is not None and held.count > 0


def steps(ledger: Accountant, dataset: str = "census") -> list[str]:
    """Return what was decided on a dataset after its opening, with the levels of settlements."""
    found = []
    for decision in list(ledger.requests(dataset))[1:]:
        shown = decision.reservation.shown if decision.reservation is not None else None
        found.append(f"{decision.outcome} {shown}" if shown else f"{decision.outcome}")
    return found


FULL = ["reserved", "begun", "settled"]


def reserve(ledger: Accountant, **more: Any) -> MechanismSession:
    return ledger.reserve("census", CLAIM, until="PT30M", **more)


def test_a_session_settles_at_the_last_level_shown_and_shows_it_to_every_retry(
    ledger: Accountant, clock: TestClock, draws: Draws
) -> None:
    with reserve(ledger, once=NAME) as session:
        assert session.reply is not None
        assert (session.reply.outcome, session.reply.granted) == ("reserved", False)
        assert (spent(ledger), session.shown) == (WHOLE, None)
        assert session.run(draws) is None
        assert session.show("10000") == "answer 1 at 10000"
        assert session.show(Decimal(2500)) == "answer 2 at 2500"
        assert session.shown == "2500"
    assert (spent(ledger), steps(ledger)) == (SECOND, ["reserved", "begun", "settled 2500"])
    for later in (0, 7200):  # within the window of ids, and after it
        clock.pass_(seconds=later)
        with reserve(ledger, once=NAME) as session:
            session.run(draws)
            assert session.show("2500.0") == "answer 2 at 2500"
            assert session.show("10000") == "answer 1 at 10000"
            with pytest.raises(ResultMissing, match=r"400 was not shown\. .* 10000, 2500"):
                session.show("400")
    assert (draws.runs, draws.count, spent(ledger), len(steps(ledger))) == (1, 2, SECOND, 3)


def test_a_claim_of_one_answer_settles_in_full(ledger: Accountant) -> None:
    for _ in range(2):
        with ledger.reserve("census", PLAIN, until="P1D", once=NAME) as session:
            assert session.run(lambda: [7]) == [7]
            with pytest.raises(OutOfOrder, match="one answer"):
                session.show("1")
    assert (spent(ledger), steps(ledger)) == ("0.001", FULL)


def test_laplace_noise_reduction_settles_at_its_last_scale(embedded: Accountant) -> None:
    ledger = embedded
    ledger.as_owner("owner").open("survey", {"filter": "basic", "epsilon": "1"}, as_given=True)
    claim = "ex_post:epsilon=0.5,sensitivity=1,first=100,least=2"
    with ledger.reserve("survey", claim, until="P1D") as session:
        session.run(lambda: lambda scale: scale)
        for scale in ("100", "8", "4"):
            session.show(scale)
    assert str(ledger.dataset("survey").totals["epsilon"]) == "0.25"


def test_a_session_that_never_ran_is_voided_and_frees_its_name(
    ledger: Accountant, draws: Draws
) -> None:
    with reserve(ledger, once=NAME):
        assert spent(ledger) == WHOLE
    with pytest.raises(ZeroDivisionError) as raised, reserve(ledger, once=NAME) as session:
        raise ZeroDivisionError
    assert raised.value.__notes__ == [
        f"request_id {session.request_id}: voided, nothing stays charged"
    ]
    assert (spent(ledger), steps(ledger)) == ("0", ["reserved", "voided"] * 2)
    with reserve(ledger, once=NAME) as session:
        session.run(draws)
        session.show("10000")
    assert (spent(ledger), draws.runs) == (FIRST, 1)


def test_a_session_may_be_closed_before_its_block_ends(embedded: Accountant, draws: Draws) -> None:
    for show, charge in ((False, "0"), (True, FIRST)):
        with reserve(embedded) as session:
            if show:
                session.run(draws)
                session.show("10000")
            session.close()
            assert spent(embedded) == charge
            session.close()
        session.close()
    assert steps(embedded) == ["reserved", "voided", "reserved", "begun", "settled 10000"]


def test_nothing_shown_settles_in_full(embedded: Accountant, draws: Draws) -> None:
    ledger = embedded
    with reserve(ledger) as session:
        session.run(draws)
    assert (spent(ledger), steps(ledger)) == (WHOLE, FULL)


def test_an_error_settles_in_full(ledger: Accountant, draws: Draws) -> None:
    fails = pytest.raises(ZeroDivisionError)
    with fails as raised, reserve(ledger, once=NAME) as session:
        session.run(draws)
        session.show("10000")
        raise ZeroDivisionError
    assert raised.value.__notes__[-1].endswith(": settled in full")
    assert (spent(ledger), steps(ledger)) == (WHOLE, FULL)
    with reserve(ledger, once=NAME) as session:
        session.run(draws)
        assert session.show("10000") == "answer 1 at 10000"
    assert (spent(ledger), draws.runs) == (WHOLE, 1)


@pytest.mark.parametrize("where", ["mechanism", "draw"])
def test_an_error_of_the_mechanism_that_the_program_hides_settles_in_full(
    embedded: Accountant, where: str
) -> None:
    ledger = embedded

    def fails_below(level: str) -> int:
        return 1 // (level == "10000")

    def mechanism() -> Callable[[str], int]:
        return fails_below if where == "draw" else fails_below("0")  # type: ignore[return-value]

    with reserve(ledger) as session:
        with contextlib.suppress(ZeroDivisionError):
            session.run(mechanism)
            assert session.show("10000") == 1
            session.show("2500")
        with pytest.raises(OutOfOrder):
            session.show("1600")
    assert (spent(ledger), steps(ledger)) == (WHOLE, FULL)


def run_twice(session: MechanismSession, draws: Draws) -> None:
    session.run(draws)
    session.run(draws)


def show_first(session: MechanismSession, draws: Draws) -> None:
    session.show("10000")


def show_twice(session: MechanismSession, draws: Draws) -> None:
    session.run(draws)
    session.show("2500")
    session.show("2500")


def show_more_noise(session: MechanismSession, draws: Draws) -> None:
    session.run(draws)
    session.show("2500")
    session.show("10000")


def show_above_the_first(session: MechanismSession, draws: Draws) -> None:
    session.run(draws)
    session.show("10001")


def show_below_the_least(session: MechanismSession, draws: Draws) -> None:
    session.run(draws)
    session.show("399.9")


def show_an_inexact_level(session: MechanismSession, draws: Draws) -> None:
    session.run(draws)
    session.show(400.1)


def nest_in_itself(session: MechanismSession, draws: Draws) -> None:
    session.run(lambda: session.run(draws))


def show_within_the_mechanism(session: MechanismSession, draws: Draws) -> None:
    session.run(lambda: lambda level: session.show("400"))
    session.show("10000")


def enter_again(session: MechanismSession, draws: Draws) -> None:
    with session:
        pass


def show_after_closing(session: MechanismSession, draws: Draws) -> None:
    session.run(draws)
    session.show("2500")
    session.close()
    session.show("400")


def run_after_closing(session: MechanismSession, draws: Draws) -> None:
    session.close()
    session.run(draws)


def run_no_function(session: MechanismSession, draws: Draws) -> None:
    session.run(7)  # type: ignore[arg-type]


def return_a_number(session: MechanismSession, draws: Draws) -> None:
    session.run(lambda: 7)


def draw_what_cannot_be_stored(session: MechanismSession, draws: Draws) -> None:
    session.run(lambda: lambda level: object())
    session.show("10000")


WRONG: list[tuple[Callable[[MechanismSession, Draws], None], type[Exception], str, str]] = [
    (run_twice, OutOfOrder, "runs once", WHOLE),
    (show_first, OutOfOrder, "call `run` with the mechanism first", "0"),
    (show_twice, RequestInvalid, "must be below 2500", WHOLE),
    (show_more_noise, RequestInvalid, "must be below 2500", WHOLE),
    (show_above_the_first, RequestInvalid, "between 10000 and 400", WHOLE),
    (show_below_the_least, RequestInvalid, "between 10000 and 400", WHOLE),
    (show_an_inexact_level, RequestInvalid, 'write "400.1"', WHOLE),
    (nest_in_itself, OutOfOrder, "one step at a time", WHOLE),
    (show_within_the_mechanism, OutOfOrder, "one step at a time", WHOLE),
    (enter_again, OutOfOrder, "entered once", "0"),
    (show_after_closing, OutOfOrder, "settled or voided, and shows no more", SECOND),
    (run_after_closing, OutOfOrder, "settled or voided", "0"),
    (run_no_function, RequestInvalid, "must be a function", "0"),
    (return_a_number, TypeError, "must return the function that draws", WHOLE),
    (draw_what_cannot_be_stored, TypeError, "cannot be stored", WHOLE),
]


@pytest.mark.parametrize(
    ("use", "error", "words", "charge"), WRONG, ids=[each[0].__name__ for each in WRONG]
)
def test_a_wrong_program_gets_an_error_and_is_not_charged_too_little(
    embedded: Accountant,
    draws: Draws,
    use: Callable[[MechanismSession, Draws], None],
    error: type[Exception],
    words: str,
    charge: str,
) -> None:
    ledger = embedded
    with pytest.raises(error, match=words), reserve(ledger) as session:
        use(session, draws)
    assert spent(ledger) == charge
    assert not has_open(ledger)
    with pytest.raises(OutOfOrder):
        session.show("400")


def test_a_session_that_is_not_entered_reserves_and_runs_nothing(
    embedded: Accountant, draws: Draws
) -> None:
    ledger = embedded
    session = reserve(ledger)
    for use in (lambda: session.run(draws), lambda: session.show("400"), session.close):
        with pytest.raises(OutOfOrder, match="`with` block"):
            use()
    assert (steps(ledger), draws.runs) == ([], 0)
    for wrong in ({"until": "soon"}, {"once": ""}, {"wait": -1}, {"codec": None}):
        with pytest.raises(RequestInvalid, match=next(iter(wrong))):
            ledger.reserve("census", CLAIM, **({"until": "P1D"} | wrong))  # type: ignore[arg-type]


def test_a_session_cannot_be_copied_or_pickled(embedded: Accountant, draws: Draws) -> None:
    ledger = embedded
    with reserve(ledger) as session:
        session.run(draws)
        for twice in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="belongs to its process"):
                twice(session)
        session.show("10000")
    assert spent(ledger) == FIRST


def test_a_fork_neither_shows_nor_settles(file: Path, draws: Draws) -> None:
    with Accountant(f"sqlite:///{file}", analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", RHO, as_given=True)
        with reserve(ledger) as session:
            session.run(draws)
            session.show("10000")
            child = os.fork()
            if not child:
                code = 1
                try:
                    for use in (lambda: session.show("400"), session.close):
                        with pytest.raises(UsedAfterFork):
                            use()
                    with pytest.raises(UsedAfterFork):
                        session.__exit__(None, None, None)
                    session.__exit__(ValueError, ValueError(), None)
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
            with ResultStore().transaction() as db:
                assert db.execute("SELECT state FROM sessions").fetchall() == [("running",)]
            assert session.show("2500") == "answer 2 at 2500"
        assert (spent(ledger), steps(ledger)) == (SECOND, ["reserved", "begun", "settled 2500"])


def test_a_reservation_is_no_grant_to_run(ledger: Accountant, draws: Draws) -> None:
    def submit(kind: str, **fields: Any) -> tuple[str, bytes]:
        mine = ledger.new_request_id()
        body = {"version": 1, "type": kind, "request_id": mine, "analyst": "ana"}
        return mine, json.dumps(body | {"dataset": "census"} | fields).encode()

    scope = {"unit": "person", "neighbours": "add_remove", "reserve": {"until": "PT30M"}}
    mine, body = submit("request", claim={"type": "zcdp", "rho": "0.1"}, **scope)
    (reply,) = ledger.ask_many([body])
    assert isinstance(reply, Reply)
    assert (reply.granted, reply.outcome) == (False, "reserved")
    with pytest.raises(NotGranted, match="conflict"):
        ledger.release("census", "zcdp:0.1", lambda: draws.draw(""), request_id=mine)
    _, body = submit("begin", grant=reply.hash)
    begun = ledger.submit(body)
    assert (begun.granted, begun.outcome) == (False, "begun")
    assert draws.count == 0


def test_nothing_runs_without_a_reservation(ledger: Accountant, draws: Draws) -> None:
    claim = "brownian:variance=0.1,sensitivity=1,first=10000"
    refused = pytest.raises(NotGranted, match="exhausted")
    with refused as raised, ledger.reserve("census", claim, until="P1D", once=NAME) as session:
        session.run(draws)
    assert raised.value.__notes__[0].endswith(": not charged")
    assert (spent(ledger), draws.runs) == ("0", 0)
    with reserve(ledger, once=NAME) as session:  # the name is free
        session.run(draws)


def test_a_refused_begin_runs_nothing(ledger: Accountant, draws: Draws) -> None:
    refused = pytest.raises(NotGranted, match="paused")
    with refused, reserve(ledger) as session:
        ledger.as_owner("owner").pause("census")
        session.run(draws)
    assert steps(ledger) == ["reserved", "paused", "refused", "voided"]
    ledger.as_owner("owner").resume("census")
    with reserve(ledger) as session:
        ledger.as_owner("owner").pause("census")
        with pytest.raises(NotGranted):
            session.run(draws)
        ledger.as_owner("owner").resume("census")
        session.run(draws)
        session.show("10000")
    assert (spent(ledger), draws.runs) == (FIRST, 1)


def test_nothing_begins_after_the_deadline(
    ledger: Accountant, clock: TestClock, draws: Draws
) -> None:
    refused = pytest.raises(NotGranted, match="lapsed")
    with refused, reserve(ledger) as session:
        clock.pass_(seconds=1800)
        session.run(draws)
    assert (draws.runs, spent(ledger)) == (0, "0")
    late = pytest.warns(AccountantWarning, match="not settled.*, the maximum stays charged")
    with late as warned, reserve(ledger) as session:
        session.run(draws)
        session.show("10000")
        clock.pass_(seconds=1800)
    assert warned[0].filename == __file__
    assert (draws.runs, spent(ledger)) == (1, WHOLE)


def test_a_reservation_that_another_program_used_does_not_run(
    ledger: Accountant, draws: Draws, tmp_path: Path
) -> None:
    mine = ledger.new_request_id()
    elsewhere = reserve(ledger, request_id=mine, store=tmp_path / "other.db")
    with reserve(ledger, request_id=mine) as session, elsewhere as other:
        other.run(draws)
        other.show("2500")
        with pytest.raises(ResultMissing, match="used outside of"):
            session.run(draws)
    assert (draws.runs, spent(ledger), steps(ledger)[-1]) == (1, SECOND, "settled 2500")


def crashed(ledger: Accountant) -> SessionRecord:
    """Return the record of a session that has reserved, in a process that then ends."""
    call = ledger._sender.prepare(ledger._draft("census", CLAIM)._replace(until="PT30M"), 5)
    store, url, clock = ResultStore(), ledger.url, ledger.clock
    name = ResultName(NAME)
    record = SessionRecord(store, call, TAGGED_JSON, url, ledger._ledger(), name, 5, clock)
    assert record.enter() is not None
    record.accept(ledger._sender.reply_to(record.call, 5))
    return record


def test_a_repeated_begin_does_not_run_in_another_process(ledger: Accountant, draws: Draws) -> None:
    record = crashed(ledger)
    assert ledger._sender.reply_to(record.begin(), 5).outcome == "begun"
    record.leave()  # the process ends before it has stored the answer
    missing = pytest.raises(ResultMissing, match="another process began")
    with missing, reserve(ledger, once=NAME) as session:
        session.run(draws)
    assert (draws.runs, spent(ledger), steps(ledger)) == (0, WHOLE, FULL)
    missing = pytest.raises(ResultMissing, match="ended without a stored answer")
    with missing, reserve(ledger, once=NAME) as session:
        session.run(draws)
    assert draws.runs == 0


def test_a_begin_that_was_never_sent_runs_in_another_process(
    ledger: Accountant, draws: Draws
) -> None:
    record = crashed(ledger)
    record.begin()
    record.leave()
    with reserve(ledger, once=NAME) as session:
        session.run(draws)
        session.show("10000")
    assert (draws.runs, spent(ledger)) == (1, FIRST)
    assert steps(ledger) == ["reserved", "begun", "settled 10000"]


def test_a_session_whose_process_ended_while_it_ran_settles_in_full(
    ledger: Accountant, draws: Draws
) -> None:
    record = crashed(ledger)
    record.start(ledger._sender.reply_to(record.begin(), 5))
    record.add("10000", "the answer")
    record.leave()
    with reserve(ledger, once=NAME) as session:
        assert steps(ledger) == FULL
        session.run(draws)
        assert session.show("10000") == "the answer"
        with pytest.raises(ResultMissing):
            session.show("2500")
    assert (draws.runs, spent(ledger), steps(ledger)) == (0, WHOLE, FULL)
    assert ResultStore().open_requests() == []


@pytest.mark.parametrize("was_sent", [True, False])
@pytest.mark.parametrize("hours", [0, 2])
def test_a_settlement_is_retried_with_the_same_bytes(
    ledger: Accountant, clock: TestClock, draws: Draws, was_sent: bool, hours: int
) -> None:
    record = crashed(ledger)
    record.start(ledger._sender.reply_to(record.begin(), 5))
    record.add("10000", "the answer")
    step = record.close(complete=True)
    assert step is not None
    with pytest.raises(ResultMissing):
        record.add("400", "one that comes too late")
    if was_sent:
        assert ledger.submit(step.body).outcome == "settled"
    record.leave()
    clock.pass_(seconds=hours * 3600)
    with warnings_where(bool(hours)), reserve(ledger, once=NAME) as session:
        session.run(draws)
        assert session.show("10000") == "the answer"
    # After two hours the ledger knows neither the id nor, past the deadline, the reservation.
    expected = FIRST if was_sent or not hours else WHOLE
    assert (draws.runs, spent(ledger)) == (0, expected)
    assert steps(ledger).count("settled 10000") == (was_sent or not hours)


def warnings_where(late: bool) -> contextlib.AbstractContextManager[object]:
    if not late:
        return contextlib.nullcontext()
    return pytest.warns(AccountantWarning, match="not settled")


def test_an_expired_settlement_settles_in_full(
    embedded: Accountant, clock: TestClock, draws: Draws
) -> None:
    ledger = embedded
    call = ledger._sender.prepare(ledger._draft("census", CLAIM)._replace(until="P1D"), 5)
    store, url = ResultStore(), ledger.url
    name = ResultName(NAME)
    record = SessionRecord(store, call, TAGGED_JSON, url, ledger._ledger(), name, 5, clock)
    record.enter()
    record.accept(ledger._sender.reply_to(record.call, 5))
    record.start(ledger._sender.reply_to(record.begin(), 5))
    record.add("10000", "the answer")
    record.close(complete=True)
    record.leave()
    clock.pass_(seconds=7200)
    with ledger.reserve("census", CLAIM, until="P1D", once=NAME) as session:
        session.run(draws)
        assert session.show("10000") == "the answer"
    assert (spent(ledger), steps(ledger)) == (WHOLE, FULL)


def test_a_void_that_a_crash_interrupts_frees_the_name(embedded: Accountant, draws: Draws) -> None:
    ledger = embedded
    record = crashed(ledger)
    assert record.close(complete=True) is not None
    record.leave()
    with reserve(ledger, once=NAME) as session:
        session.run(draws)
        session.show("10000")
    assert spent(ledger) == FIRST
    assert steps(ledger) == ["reserved", "voided", "reserved", "begun", "settled 10000"]


def test_a_ledger_that_is_away_at_the_end_gets_the_settlement_later(
    file: Path, clock: TestClock, draws: Draws
) -> None:
    server = LocalServer(file, clock)
    with server, Accountant(server.url, clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", RHO, as_given=True)
        away = pytest.raises(Unanswered, match="run the program again under the session's name")
        with away as raised, reserve(ledger, once=NAME, wait=1) as session:
            session.run(draws)
            session.show("2500")
            server.__exit__(None, None, None)
        assert raised.value.__notes__ == [f"request_id {session.request_id}: {OPEN_SESSION}"]
        port = int(server.url.rpartition(":")[2])
        with LocalServer(file, clock, Settings(port=port)):
            assert spent(ledger) == WHOLE
            session.close()
            session.close()
            assert steps(ledger) == ["reserved", "begun", "settled 2500"]
            with reserve(ledger, once=NAME) as session:
                session.run(draws)
                assert session.show("2500") == "answer 1 at 2500"
            assert (draws.count, spent(ledger)) == (1, SECOND)


async def test_a_cancelled_end_names_the_reservation_and_not_its_last_step(
    file: Path, clock: TestClock, draws: Draws
) -> None:
    with LocalServer(file, clock) as server, contextlib.closing(Proxy(server.url)) as proxy:
        async with AsyncAccountant(proxy.url, clock=clock, analyst="ana") as ledger:
            await ledger.as_owner("owner").open("census", RHO, as_given=True)
            session = ledger.reserve("census", PLAIN, until="PT1H")

            async def run() -> None:
                async with session:
                    await session.run(lambda: 1)
                    proxy.leave_by(HELD)

            running = asyncio.create_task(run())
            assert await asyncio.to_thread(proxy.is_held.wait, PATIENCE_S)
            running.cancel()
            proxy.goes_on.set()
            with pytest.raises(asyncio.CancelledError) as raised:
                await running
            notes = getattr(raised.value, "__notes__", [])
            assert notes == [f"request_id {session.request_id}: settled in full"]


def test_a_client_that_is_closed_in_the_block_leaves_the_settlement_to_the_next_run(
    ledger: Accountant, draws: Draws
) -> None:
    other = Accountant(ledger.url, clock=ledger.clock, analyst="ana")
    promised = r"the maximum stays charged\. .*run the program again under the session's name"
    session = reserve(other, once=NAME)
    closed = pytest.raises(Unanswered, match=promised)
    with closed as raised, session:
        session.run(draws)
        session.show("2500")
        other.close()
    assert raised.value.request_id == session.request_id
    (note,) = raised.value.__cause__.__notes__
    assert note.endswith(
        ": may be recorded; call again with this request_id, which is never recorded twice; the "
        "maximum of its reservation stays charged until that ends. Run a session again under its "
        "name"
    )
    assert (spent(ledger), steps(ledger)) == (WHOLE, ["reserved", "begun"])
    with reserve(ledger, once=NAME) as session:
        session.run(draws)
        assert session.show("2500") == "answer 1 at 2500"
    assert (spent(ledger), draws.count) == (SECOND, 1)


def test_a_client_that_is_closed_before_the_run_begins_nothing(
    ledger: Accountant, draws: Draws
) -> None:
    other = Accountant(ledger.url, clock=ledger.clock, analyst="ana")
    session = reserve(other, once=NAME)
    closed = pytest.raises(Unanswered, match="Nothing ran")
    with closed as raised, session:
        other.close()
        session.run(draws)
    notes = [*raised.value.__notes__, *raised.value.__cause__.__notes__]
    assert len(notes) == 2
    assert not any("not charged" in note for note in notes)
    assert (draws.runs, spent(ledger)) == (0, WHOLE)
    with reserve(ledger, once=NAME):  # it never began here, or the earlier step was not decided
        pass
    assert not has_open(ledger)


def test_a_session_does_one_step_at_a_time(embedded: Accountant) -> None:
    ledger = embedded
    drawing, go_on = threading.Event(), threading.Event()
    shown: list[object] = []

    def draw(level: str) -> str:
        drawing.set()
        assert go_on.wait(PATIENCE_S)
        return level

    def show() -> None:
        try:
            shown.append(session.show("2500"))
        except ResultMissing as error:
            shown.append(error)

    with reserve(ledger) as session:
        session.run(lambda: draw)
        thread = threading.Thread(target=show)
        thread.start()
        assert drawing.wait(PATIENCE_S)
        for use in (lambda: session.show("400"), lambda: session.run(lambda: draw)):
            with pytest.raises(OutOfOrder, match="one step at a time"):
                use()
    go_on.set()  # the block was left while an answer was drawn: nobody gets it
    thread.join(PATIENCE_S)
    assert isinstance(shown[0], ResultMissing)
    assert (spent(ledger), steps(ledger)) == (WHOLE, FULL)


def test_two_programs_of_one_name_run_once(ledger: Accountant, draws: Draws) -> None:
    with reserve(ledger, once=NAME) as session:
        session.run(draws)
        here = rf"open in this process \(pid {os.getpid()}\).*if a block around this one has it"
        running = pytest.raises(StillRunning, match=here)
        with running as raised, reserve(ledger, once=NAME, wait=0.2):
            pass
        (note,) = raised.value.__notes__  # the block around this one is charged
        assert note.startswith(f"request_id {session.request_id}: may be charged")
        waiting = threading.Thread(target=lambda: found.append(replayed(ledger)))
        found: list[str] = []
        waiting.start()
        session.show("2500")
    waiting.join(PATIENCE_S)
    assert found == ["answer 1 at 2500"]
    assert (draws.runs, spent(ledger), len(steps(ledger))) == (1, SECOND, 3)


def replayed(ledger: Accountant) -> str:
    with reserve(ledger, once=NAME, wait=20) as session:
        session.run(lambda: None)
        return str(session.show("2500"))


def test_a_name_belongs_to_a_session_or_to_a_release(embedded: Accountant, draws: Draws) -> None:
    ledger = embedded
    ledger.release("census", PLAIN, lambda: 7, once=NAME)
    taken = pytest.raises(NameTaken, match="as a reservation")
    with taken, ledger.reserve("census", PLAIN, until="P1D", once=NAME):
        pass
    with ledger.reserve("census", PLAIN, until="P1D", once="other") as session:
        session.run(lambda: 8)
    with pytest.raises(NameTaken):
        ledger.release("census", PLAIN, lambda: draws.draw(""), once="other")
    assert draws.count == 0


def test_an_engine_takes_the_steps_for_its_analyst(embedded: Accountant, file: Path) -> None:
    embedded.as_owner("owner").set_member("census", "ana", roles=["analyst"])
    embedded.as_owner("owner").set_member("census", "sql", roles=["engine"])
    with Accountant(embedded.url, clock=embedded.clock, analyst="ana", via="sql") as engine:
        with engine.reserve("census", CLAIM, until="P1D") as session:
            session.run(lambda: lambda level: level)
            session.show("10000")
        with engine.reserve("census", PLAIN, until="P1D"):
            pass
    assert steps(embedded)[2:] == ["reserved", "begun", "settled 10000", "reserved", "voided"]


def test_a_session_continues_an_earlier_one(ledger: Accountant, draws: Draws) -> None:
    with reserve(ledger, once=NAME) as first:
        first.run(draws)
        first.show("2500")
    finer = "brownian:variance=100,sensitivity=1,previous=2500,first=1600,continues="
    with reserve(ledger, once=NAME) as again:  # a program that runs again knows it, too
        assert again.grant == first.grant
    with ledger.reserve("census", finer + again.grant, until="PT30M") as session:
        session.run(draws)
        session.show("400")
    assert spent(ledger) == WHOLE
    assert steps(ledger)[3:] == ["reserved", "begun", "settled 400"]


def test_two_sessions_run_one_mechanism(ledger: Accountant, draws: Draws) -> None:
    ledger.as_owner("owner").open("survey", RHO, as_given=True)
    with (
        ledger.reserve("census", PLAIN, until="P1D") as first,
        ledger.reserve("survey", PLAIN, until="P1D") as second,
    ):
        assert first.run(lambda: second.run(lambda: 7)) == 7
    assert steps(ledger) == steps(ledger, "survey") == FULL


def test_a_store_that_is_removed_meanwhile_ends_the_session(
    embedded: Accountant, draws: Draws, answers: Path
) -> None:
    ledger = embedded
    missing = pytest.raises(ResultMissing, match="no longer has this session")
    with missing, reserve(ledger) as session:
        session.run(draws)
        answers.unlink()
        session.show("10000")
    assert (spent(ledger), steps(ledger)) == (WHOLE, ["reserved", "begun"])


def test_a_store_without_sessions_is_upgraded(embedded: Accountant, answers: Path) -> None:
    ledger = embedded
    ledger.release("census", PLAIN, lambda: 7, once=NAME)
    with contextlib.closing(sqlite3.connect(answers)) as db:
        db.executescript("DROP TABLE sessions; DROP TABLE shown; PRAGMA user_version = 4")
    assert ledger.release("census", PLAIN, lambda: 8, once=NAME) == 7
    with ledger.reserve("census", PLAIN, until="P1D") as session:
        assert session.run(lambda: 9) == 9


async def test_the_async_client_does_the_same(file: Path, clock: TestClock, draws: Draws) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        await ledger.as_owner("owner").open("census", RHO, as_given=True)

        async def rho() -> str:
            return str((await ledger.dataset("census")).totals["rho"])

        async def draw(level: str) -> str:
            return draws.draw(level)

        async def mechanism() -> Callable[[str], Any]:
            return draw

        for _ in range(2):
            async with ledger.reserve("census", CLAIM, until="P1D", once=NAME) as session:
                await session.run(mechanism)
                assert await session.show("10000") == "answer 1 at 10000"
        assert await rho() == FIRST
        async with ledger.reserve("census", CLAIM, until="P1D") as session:
            await session.run(draws)
            both = await asyncio.gather(
                session.show("10000"), session.show("2500"), return_exceptions=True
            )
            assert sorted(type(each).__name__ for each in both) == ["OutOfOrder", "str"]
        assert await rho() in {"0.0001", "0.00025"}


@pytest.mark.parametrize("step", ["run", "run in a thread", "show", "between", "settle"])
async def test_a_cancelled_session_settles_in_full(file: Path, clock: TestClock, step: str) -> None:
    at_step = asyncio.Event()
    loop = asyncio.get_running_loop()
    go_on = threading.Event()

    async def stop_at(name: str) -> None:
        if step == name:
            at_step.set()
            await asyncio.sleep(30)

    async def draw(level: str) -> str:
        await stop_at("show" if level == "2500" else "")
        return level

    async def mechanism() -> Callable[[str], Any]:
        await stop_at("run")
        return draw

    def in_a_thread() -> Callable[[str], Any]:
        loop.call_soon_threadsafe(at_step.set)
        assert go_on.wait(PATIENCE_S)
        return draw

    async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        await ledger.as_owner("owner").open("census", RHO, as_given=True)

        async def program() -> None:
            async with ledger.reserve("census", CLAIM, until="P1D") as session:
                await session.run(in_a_thread if step == "run in a thread" else mechanism)
                await session.show("10000")
                await stop_at("between")
                await session.show("2500")
                if step == "settle":
                    at_step.set()

        task = asyncio.create_task(program())
        await at_step.wait()
        task.cancel()
        loop.call_later(0.1, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        view = await ledger.dataset("census")
        # Cancelled while it settles, it had ended as planned: the settlement is not cancelled.
        assert str(view.totals["rho"]) == (SECOND if step == "settle" else WHOLE)
        held = [each async for each in ledger.requests("census")][-1].held
        assert held is None or not held.count


# Which steps of the program to kill it at; it takes about 230 of them.
STEPS = 240
KILLED = {
    "in process": range(1, STEPS, STEPS // rounds(5, 80)),
    "http": range(1, STEPS, STEPS // rounds(3, 40)),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("transport", "how"),
    itertools.product(KILLED, ["KILL", "INT"])
    if NIGHTLY
    else [("in process", "INT"), ("http", "KILL")],
)
def test_a_kill_or_an_interrupt_at_any_step_never_charges_too_little(
    file: Path, transport: str, how: str
) -> None:
    killed = KILLED[transport]
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{file}"
        if transport == "http":
            url = stack.enter_context(LocalServer(file, SystemClock())).url
        command = [sys.executable, "-m", "tests.streams.client.sessions.session_crashes", url, how]
        done = subprocess.run(
            [*command, *map(str, killed)], cwd=ROOT, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stderr
        ledger = stack.enter_context(Accountant(url, analyst="ana"))
        results = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(results) == len(killed)
        for result in results:
            check_crashed(ledger, result["dataset"], result["lines"])
    ends = [result["lines"][-2][0] for result in results]
    assert {"left", "missing"} == set(ends)
    assert max(result["lines"][-1][1] for result in results) > 200


def check_crashed(ledger: Accountant, dataset: str, lines: list[list[Any]]) -> None:
    """Check what was shown of a session whose program was killed, against what was charged."""
    decided = steps(ledger, dataset)
    view = ledger.dataset(dataset)
    assert not has_open(ledger, dataset), (dataset, decided)
    ends = [each.split()[0] for each in decided if each.split()[0] in {"settled", "voided"}]
    assert len(ends) == decided.count("reserved"), (dataset, decided)
    ran = [line[-1] for line in lines if line[0] == "ran"]
    assert len(ran) <= decided.count("begun") <= 1, (dataset, decided)
    shown = {(line[1], line[2]) for line in lines if line[0] == "shown"}
    assert len({level for level, _ in shown}) == len(shown), dataset  # no level is drawn twice
    charged = Decimal(str(view.totals["rho"]))
    finest = min((Decimal(level) for level, _ in shown), default=None)
    if finest is not None:
        assert charged >= 1 / (2 * finest), (dataset, decided, lines)
    left = {line[-1] for line in lines if line[0] == "left"}
    if ran and ran[0] not in left:  # killed within the block
        assert charged == Decimal(WHOLE), (dataset, decided, lines)
    assert session_crashes.CLAIM == CLAIM
