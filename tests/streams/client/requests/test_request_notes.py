"""Every error of a call carries the request's id, so no paid grant is lost."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import types
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from streams.client import (
    Accountant,
    AsyncAccountant,
    NoAnswers,
    NoSuchLedger,
    NotGranted,
    ResultStore,
    StillRunning,
    Unanswered,
    Unauthenticated,
)
from streams.service.ledger_service import Submission
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import SCHEMA
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

ONE = {"filter": "basic", "epsilon": "1"}
CLAIM = "pure:0.001"


@pytest.fixture(autouse=True)
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "answers.db"))
    return ResultStore()


@pytest.fixture(params=["in process", "http"])
def url(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Iterator[str]:
    if request.param == "in process":
        with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
            ledger.as_owner("owner").open("census", ONE, as_given=True)
        yield f"sqlite:///{file}"
        return
    with LocalServer(file, clock) as server:
        with Accountant(server.url, clock=clock) as ledger:
            ledger.as_owner("owner").open("census", ONE, as_given=True)
        yield server.url


@pytest.fixture
def ledger(url: str, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(url, clock=clock, analyst="ana") as client:
        yield client


def spent(ledger: Accountant) -> str:
    view = ledger.dataset("census")
    assert view is not None
    return str(view.totals["epsilon"])


def request_note(error: BaseException) -> tuple[str, str]:
    """Return the id that an error carries, and what its note says of the charge."""
    assert hasattr(error, "request_id")
    found: str = error.request_id
    (note,) = [each for each in error.__notes__ if each.startswith(f"request_id {found}: ")]
    return found, note.partition(": ")[2]


class Failure(Exception):
    """Of a user's own program."""


def one_argument(value: int) -> int:
    return value


async def asynchronous() -> int:
    return 1


def yields() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "run", [5, None, "count", one_argument, functools.partial(one_argument, 1, 2), yields]
)
@pytest.mark.parametrize("kind", [Accountant, AsyncAccountant])
async def test_an_invalid_function_is_refused_before_the_charge(
    kind: type, run: Any, file: Path, answers: ResultStore
) -> None:
    with Accountant(f"sqlite:///{file}", analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        async with AsyncAccountant(f"sqlite:///{file}", analyst="ana") as awaited:
            client = ledger if kind is Accountant else awaited
            with pytest.raises(RequestInvalid, match="run must"):
                await client.release("census", CLAIM, run)
        assert spent(ledger) == "0"
    assert answers.open_requests() == []


def test_the_sync_client_refuses_an_asynchronous_function(ledger: Accountant) -> None:
    class Drawn:
        async def __call__(self) -> int:
            return 1

    for run in (asynchronous, functools.partial(asynchronous), Drawn()):
        with pytest.raises(RequestInvalid, match="AsyncAccountant"):
            ledger.release("census", CLAIM, run)
    assert spent(ledger) == "0"


@pytest.mark.parametrize("kind", [ZeroDivisionError, Failure, KeyboardInterrupt, SystemExit])
def test_an_error_of_the_function_keeps_its_class_and_names_the_paid_request(
    ledger: Accountant, kind: type[BaseException], answers: ResultStore
) -> None:
    def fails() -> int:
        raise kind("mine")

    with pytest.raises(kind, match="mine") as raised:
        ledger.release("census", CLAIM, fails)
    assert type(raised.value) is kind
    request_id, charge = request_note(raised.value)
    assert charge.startswith("charged; release again with this request_id")
    (found,) = answers.open_requests()
    assert (found.asked.request_id, found.granted) == (request_id, True)
    back = None
    with contextlib.suppress(StillRunning):
        back = ledger.release("census", CLAIM, lambda: 7, request_id=request_id, wait=1)
    assert back == 7
    assert spent(ledger) == "0.001"
    assert answers.open_requests() == []


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Takes no attribute, and so no note."""

    why: str


class TakesNoNotes(Exception):
    def add_note(self, note: str, /) -> None:
        raise RuntimeError(f"no note: {note}")


class TakesNothing(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError(name)


UNUSUAL = [Frozen("mine"), TakesNoNotes("mine"), TakesNothing("mine")]


@pytest.mark.parametrize("error", UNUSUAL, ids=lambda error: type(error).__name__)
async def test_an_error_that_takes_no_note_is_raised_and_its_run_has_failed(
    error: Exception, url: str, clock: TestClock, answers: ResultStore
) -> None:
    def fails() -> int:
        raise error

    with Accountant(url, clock=clock, analyst="ana") as ledger:
        with pytest.raises(type(error)) as raised:
            ledger.release("census", CLAIM, fails)
        assert raised.value is error
        with pytest.raises(type(error)) as raised, ledger.grant("census", CLAIM):
            raise error
        assert raised.value is error
        (found,) = answers.open_requests()
        mine = found.asked.request_id
        assert ledger.release("census", CLAIM, lambda: 7, request_id=mine, wait=2) == 7
    async with AsyncAccountant(url, clock=clock, analyst="ana") as awaited:
        with pytest.raises(type(error)) as raised:
            await awaited.release("census", CLAIM, fails, purpose="awaited")
        assert raised.value is error
        (found,) = answers.open_requests()
        mine = found.asked.request_id
        again = awaited.release(
            "census", CLAIM, lambda: 7, request_id=mine, wait=2, purpose="awaited"
        )
        assert await again == 7


def test_an_error_within_a_grant_names_the_paid_request(ledger: Accountant) -> None:
    with pytest.raises(ZeroDivisionError) as raised, ledger.grant("census", CLAIM) as grant:
        raise ZeroDivisionError
    assert request_note(raised.value) == (grant.request_id, "charged")
    with pytest.raises(NotGranted) as again:
        ledger.grant("census", CLAIM, request_id=grant.request_id).__enter__()
    assert request_note(again.value) == (grant.request_id, "charged")


def test_a_refused_request_is_not_charged(ledger: Accountant, answers: ResultStore) -> None:
    for call in (
        lambda: ledger.release("census", "pure:3", lambda: 1),
        lambda: ledger.grant("census", "pure:3").__enter__(),
    ):
        with pytest.raises(NotGranted) as raised:
            call()
        assert request_note(raised.value)[1] == "not charged"
    assert answers.open_requests() == []


def test_a_ledger_that_is_not_there_has_charged_nothing(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'none.db'}", analyst="ana") as ledger:
        for call in (ledger.ask, functools.partial(ledger.release, run=lambda: 1)):
            with pytest.raises(NoSuchLedger) as raised:
                call("census", CLAIM)
            assert request_note(raised.value)[1] == "not charged"


class Silent:
    """A service that takes a request in, and answers with what it is made for."""

    def __init__(self, answers: Callable[[], Awaitable[Submission]]) -> None:
        self._answers = answers

    async def submit(self, *_: object, **__: object) -> Submission:
        return await self._answers()


@pytest.mark.parametrize(
    ("error", "charge"),
    [
        (Unanswered("lost", "", "x"), "may be charged"),
        (Unauthenticated("no such token"), "not charged"),
        (KeyboardInterrupt(), "may be charged"),
        (RuntimeError("a bug"), "may be charged"),
    ],
)
async def test_a_note_of_an_error_says_charged_only_if_the_charge_is_certain(
    error: BaseException, charge: str, file: Path
) -> None:
    async def answers() -> Submission:
        raise error

    async with AsyncAccountant(f"sqlite:///{file}", analyst="ana") as ledger:
        await ledger.as_owner("owner").open("census", ONE, as_given=True)
        call = await ledger._sender.prepare(ledger._draft("census", CLAIM), 1)
        service = ledger._connection.get_service()
        ledger._connection.attach(Silent(answers))  # type: ignore[arg-type]
        with pytest.raises(BaseException) as raised:  # noqa: PT011
            await ledger._sender.reply_to(call, 0)
        ledger._connection.attach(service)
    request_id, note = request_note(raised.value)
    assert request_id == call.request_id
    assert note.startswith(charge)


def test_a_failed_admin_request_has_its_id(tmp_path: Path) -> None:
    with (
        Accountant(f"sqlite:///{tmp_path / 'none.db'}") as ledger,
        pytest.raises(NoSuchLedger) as raised,
    ):
        ledger.as_owner("owner").close("census")
    assert request_note(raised.value)[1] == "not recorded"


async def test_the_id_is_on_the_cause_of_a_timeout(url: str, clock: TestClock) -> None:
    async def slow() -> int:
        await asyncio.sleep(30)
        return 1

    async with AsyncAccountant(url, clock=clock, analyst="ana") as ledger:
        with pytest.raises(TimeoutError) as raised:
            await asyncio.wait_for(ledger.release("census", CLAIM, slow), 1)
        assert raised.value.__cause__ is not None
        request_id, charge = request_note(raised.value.__cause__)
        assert charge.startswith("charged")
        again = ledger.release("census", CLAIM, lambda: 7, request_id=request_id)
        assert await again == 7


def uncancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


@types.coroutine
def cancelled_at(call: Awaitable[Any], step: int) -> Any:
    """Await a call, and cancel the task where it awaits for the given time."""
    steps: Any = call.__await__()
    task = asyncio.current_task()
    assert task is not None
    take: Callable[[], Any] = functools.partial(next, steps)
    for number in range(10_000):
        try:
            awaited = take()
        except StopIteration as ended:
            return ended.value
        if number == step:
            task.cancel()
        try:
            yield awaited
            take = functools.partial(next, steps)
        except BaseException as error:
            take = functools.partial(steps.throw, error)
    raise AssertionError("never ends")


@pytest.mark.parametrize("run", [asynchronous, lambda: 1], ids=["awaited", "in a thread"])
async def test_a_release_cancelled_at_any_step_can_be_retried_with_its_id(
    url: str, clock: TestClock, run: Any, answers: ResultStore
) -> None:
    paid = 0
    async with AsyncAccountant(url, clock=clock, analyst="ana") as ledger:
        await ledger.cost("census", CLAIM)  # from now on it knows the policy
        for step in range(200):
            try:
                done = await cancelled_at(ledger.release("census", CLAIM, run), step)
            except asyncio.CancelledError as error:
                uncancel()
                request_id, _ = request_note(error)
                again = ledger.release("census", CLAIM, lambda: 1, request_id=request_id)
                assert await again == 1, step
                paid += 1
            else:
                assert done == 1
                paid += 1
                break
        assert step >= 3
        assert answers.open_requests() == []
        view = await ledger.dataset("census")
        assert view is not None
        assert view.totals["epsilon"] == str(paid / 1000)


async def test_a_release_cancelled_at_any_moment_can_be_retried_with_its_id(
    url: str, clock: TestClock
) -> None:
    async def draws() -> int:
        await asyncio.sleep(0.002)
        return 1

    async with AsyncAccountant(url, clock=clock, analyst="ana") as ledger:
        ids: set[str | int] = set()
        for number in range(40):
            task = asyncio.create_task(ledger.release("census", CLAIM, draws))
            await asyncio.sleep(0.0005 * number)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                if number == 0:
                    continue  # it had not begun
                request_id, _ = request_note(error)
                ids.add(request_id)
                again = ledger.release("census", CLAIM, draws, request_id=request_id)
                assert await again == 1
            else:
                ids.add(number)
        view = await ledger.dataset("census")
        assert view is not None
        assert view.totals["epsilon"] == str(len(ids) / 1000)


async def test_an_ask_cancelled_at_any_step_names_its_request(url: str, clock: TestClock) -> None:
    named = []
    async with AsyncAccountant(url, clock=clock, analyst="ana") as ledger:
        await ledger.cost("census", CLAIM)  # from now on it knows the policy
        for step in range(200):
            try:
                await cancelled_at(ledger.ask("census", CLAIM), step)
            except asyncio.CancelledError as error:
                uncancel()
                request_id, charge = request_note(error)
                assert "charged" in charge
                named.append(request_id)
            else:
                break
        assert len(set(named)) == len(named) > 0
        for request_id in named:
            reply = await ledger.ask("census", CLAIM, request_id=request_id)
            assert reply.granted or reply.repeated


def test_an_interrupt_at_any_moment_names_the_request(
    ledger: Accountant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = type(ledger._sender)
    original = sender.reply_to
    for after in (False, True):

        def interrupted(self: Any, call: Any, wait: float, after: bool = after) -> Any:
            if after:
                original(self, call, wait)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(sender, "reply_to", interrupted)
            with pytest.raises(KeyboardInterrupt) as raised:
                ledger.release("census", CLAIM, lambda: 1)
        request_id, charge = request_note(raised.value)
        assert charge.startswith("may be charged")
        assert ledger.release("census", CLAIM, lambda: 7, request_id=request_id) == 7
    assert spent(ledger) == "0.002"


def test_a_repeat_that_cannot_read_its_answer_may_be_charged(file: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("survey", ONE, schema=SCHEMA)
        for given, charge in (
            ({}, "not charged"),
            ({"request_id": new_id(clock)}, "may be charged"),
        ):
            with pytest.raises(NoAnswers) as raised:
                ledger.count("survey", epsilon="0.1", **given)
            assert request_note(raised.value)[1].startswith(charge)
