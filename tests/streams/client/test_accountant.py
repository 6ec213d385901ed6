from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from accountant.claims import Pure
from accountant.errors import RequestInvalid
from accountant.policy import Policy
from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Outcome, Reason
from streams.client import Accountant, AsyncAccountant
from streams.client.connection.retry import Deadline
from streams.client.http.service import HttpService
from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, request

STARTS = ()

ONE = {"filter": "basic", "epsilon": "1"}


_HOLD = """
import sys
from streams.client import Accountant
ledger = Accountant(sys.argv[1])
ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
print("held", flush=True)
sys.stdin.read()
ledger.close()
"""


@contextlib.contextmanager
def held_by_another(file: Path) -> Iterator[None]:
    """Have another process open the file, and the dataset `census` in it."""
    command = [sys.executable, "-c", _HOLD, f"sqlite:///{file}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield
        other.stdin.close()
        other.wait(PATIENCE_S)


@pytest.fixture(params=["in process", "http", "published address"])
def ledger(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Iterator[Accountant]:
    """The same client however its ledger is reached."""
    if request.param == "in process":
        with Accountant(f"sqlite:///{file}", clock=clock) as client:
            yield client
        return
    with LocalServer(file, clock) as server:
        url = server.url if request.param == "http" else f"sqlite:///{file}"
        with Accountant(url, clock=clock) as client:
            yield client


def test_a_notebook_asks_until_the_budget_is_used_up(ledger: Accountant) -> None:
    assert (
        ledger.as_owner("owner", reason="test").open("census", ONE, as_given=True).outcome
        is Outcome.OPENED
    )
    for _ in range(10):
        granted = ledger.ask("census", "pure:0.1", analyst="ana", purpose="counts")
        assert granted.outcome is Outcome.GRANTED
    refused = ledger.ask("census", Pure("0.1"), analyst="ana")
    assert (refused.outcome, refused.reason) == (Outcome.REFUSED, Reason.EXHAUSTED)
    view = ledger.dataset("census")
    assert view is not None
    assert view.left["epsilon"] == "0"
    assert [shown.dataset for shown in ledger.datasets()] == ["census"]
    assert [shown.analyst for shown in ledger.usage("census")] == ["ana"]
    why = ledger.why("census", analyst="zoe")
    assert [row.analyst for row in why.by_analyst] == ["ana", "zoe"]
    assert why.spent == ledger.usage("census")[0].spent
    assert ledger.as_owner("owner").close("census").outcome is Outcome.CLOSED
    assert ledger.ask("census", "pure:0.1", analyst="ana").reason is Reason.CLOSED


def test_a_paused_dataset_grants_nothing_until_it_is_resumed(
    ledger: Accountant, clock: TestClock
) -> None:
    ledger.as_owner("owner").open("census", ONE, as_given=True)
    mine = new_id(clock)
    assert ledger.ask("census", "pure:0.1", analyst="ana", request_id=mine).granted
    paused = ledger.as_owner("owner", reason="a loop").pause("census")
    assert (paused.outcome, paused.administrator) == (Outcome.PAUSED, False)
    view = ledger.dataset("census")
    assert view is not None
    assert (view.state, view.paused) == ("paused", True)
    assert ledger.ask("census", "pure:0.1", analyst="ana").reason is Reason.PAUSED
    assert ledger.cost("census", "pure:0.1", analyst="ana").reason is Reason.PAUSED
    again = ledger.ask("census", "pure:0.1", analyst="ana", request_id=mine)
    assert again.first is not None
    assert again.first.granted
    assert ledger.budget("census", "ana").paused
    assert ledger.why("census").forecasts == ()
    assert ledger.as_owner("owner").amend("census", horizon="P9D").outcome is Outcome.AMENDED
    assert ledger.as_owner("owner").pause("census").reason is Reason.ALREADY_PAUSED
    assert ledger.as_owner("eve").resume("census").reason is Reason.NOT_PERMITTED
    out_of_date = ledger.as_owner("owner", follows=1).resume("census")
    assert out_of_date.reason is Reason.OUT_OF_DATE
    resumed = ledger.as_administrator("root").resume("census")
    assert (resumed.outcome, resumed.administrator) == (Outcome.RESUMED, True)
    assert ledger.as_owner("owner").resume("census").reason is Reason.NOT_PAUSED
    assert ledger.ask("census", "pure:0.1", analyst="ana").granted
    assert not ledger.budget("census", "ana").paused


def test_an_owner_amends_thresholds_and_horizon(ledger: Accountant, clock: TestClock) -> None:
    ledger.as_owner("owner").open("census", ONE, as_given=True)
    mine = new_id(clock)
    amended = ledger.as_owner("owner", request_id=mine).amend("census", alert_at=["0.1"])
    assert amended.outcome is Outcome.AMENDED
    again = ledger.as_owner("owner", request_id=mine).amend("census", alert_at=["0.1"])
    assert again.outcome is Outcome.REPEATED
    assert ledger.as_owner("owner").amend("census", horizon="P9D").outcome is Outcome.AMENDED
    view = ledger.dataset("census")
    assert view is not None
    assert (view.policy.alert_at, view.policy.horizon) == (("0.1",), "P9D")
    assert ledger.ask("census", "pure:0.1", analyst="ana").crossed == ("0.1",)
    with pytest.raises(RequestInvalid, match="alert_at"):
        ledger.as_owner("owner").amend("census")
    with pytest.raises(RequestInvalid, match="horizon"):
        ledger.as_owner("owner").amend("census", horizon="soon")
    never = ledger.as_owner("owner").amend("nowhere", horizon="P9D")
    assert never.reason is Reason.UNKNOWN_DATASET


def test_asking_again_with_an_id_gets_the_first_decision(
    ledger: Accountant, clock: TestClock
) -> None:
    ledger.as_owner("owner").open("census", Policy(filter="basic", epsilon="1"), as_given=True)
    mine = new_id(clock)
    first = ledger.ask("census", "pure:0.1", analyst="ana", request_id=mine)
    again = ledger.ask("census", "pure:0.1", analyst="ana", request_id=mine)
    assert again.outcome is Outcome.REPEATED
    assert again.first is not None
    assert again.first.partition_sequence == first.decision.partition_sequence
    other = ledger.ask("census", "pure:0.2", analyst="ana", request_id=mine)
    assert other.outcome is Outcome.CONFLICT
    assert ledger.decision("census", "ana", mine) == first.decision
    assert ledger.decision("census", "ana", new_id(clock)) is None


def test_an_invalid_field_raises_and_nothing_is_sent(ledger: Accountant, clock: TestClock) -> None:
    ledger.as_owner("owner").open("census", ONE, as_given=True)
    with pytest.raises(RequestInvalid, match="claim"):
        ledger.ask("census", "pure:-1", analyst="ana")
    with pytest.raises(RequestInvalid, match=r"policy\.epsilon"):
        ledger.as_owner("owner").open("other", {"filter": "basic", "epsilon": "NaN"}, as_given=True)
    with pytest.raises(RequestInvalid, match="analyst"):
        ledger.ask("census", "pure:0.1", analyst="a b")
    with pytest.raises(Undecodable):
        ledger.submit(b"not json")
    view = ledger.dataset("census")
    assert view is not None
    assert view.outcomes == {"opened": 1}


def test_a_callers_own_body_is_sent_unchanged(ledger: Accountant, clock: TestClock) -> None:
    ledger.as_owner("owner").open("census", ONE, as_given=True)
    body = (
        b'{"version":1, "type":"request",  "request_id":"%s","analyst":"ana","dataset":"census",'
        b' "claim":{"type":"pure","epsilon":"0.10"},"unit":"person","neighbours":"add_remove"}'
    ) % new_id(clock).encode()
    decision = ledger.submit(body)
    assert bytes(decision.request) == body
    assert ledger.submit(body).outcome is Outcome.REPEATED


def test_events_are_the_new_decisions(ledger: Accountant) -> None:
    ledger.as_owner("owner").open("census", ONE, as_given=True)
    outcomes: list[Outcome] = []
    began = threading.Event()

    def read() -> None:
        for event in ledger.events():
            outcomes.append(event.outcome)
            began.set()
            if event.outcome is Outcome.CLOSED:
                return

    reader = threading.Thread(target=read)
    reader.start()
    while not began.is_set():  # until the subscription is seen to work
        ledger.ask("census", "pure:0.0001", analyst="ana")
        began.wait(0.05)
    ledger.as_owner("owner").close("census")
    reader.join(PATIENCE_S)
    assert outcomes[-1] is Outcome.CLOSED


def test_a_reader_that_stops_gets_no_more_events(file: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        service = ledger._connection.get_service()
        assert isinstance(service, EmbeddedService)
        came = threading.Event()

        def ask() -> None:
            while not came.wait(0.05):
                ledger.ask("census", "pure:0.0001", analyst="ana")

        asking = threading.Thread(target=ask)
        asking.start()
        for _ in ledger.events():
            assert service._announced.decisions.has_readers
            break
        came.set()
        asking.join(PATIENCE_S)
        assert not service._announced.decisions.has_readers


@pytest.mark.slow
def test_a_failed_attempt_is_retried_with_the_same_bytes(ledger: Accountant, file: Path) -> None:
    ledger.as_owner("owner").open("census", ONE, as_given=True)
    blocker = apsw.Connection(str(file))
    blocker.execute("BEGIN IMMEDIATE")

    def release_lock() -> None:
        time.sleep(1.5)  # a writer waits one second for the file
        blocker.execute("ROLLBACK")

    releaser = threading.Thread(target=release_lock)
    releaser.start()
    decision = ledger.ask("census", "pure:0.1", analyst="ana", wait=20)
    releaser.join()
    assert decision.outcome is Outcome.GRANTED
    view = ledger.dataset("census")
    assert view is not None
    assert view.left["epsilon"] == "0.9"


async def test_the_async_client_behaves_the_same(file: Path, clock: TestClock) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock) as ledger:
        await ledger.as_owner("owner").open("census", ONE, as_given=True)
        events = ledger.events()
        granted = await ledger.ask("census", "pure:0.5", analyst="ana")
        assert granted.outcome is Outcome.GRANTED
        assert await anext(events) == granted.decision
        assert (await ledger.ask("census", "pure:0.6", analyst="ana")).fits is not None
        assert [view.dataset for view in await ledger.datasets()] == ["census"]
        amended = await ledger.as_owner("owner").amend("census", horizon="P9D")
        assert amended.outcome is Outcome.AMENDED
        assert (await ledger.as_owner("owner").close("census")).outcome is Outcome.CLOSED
    with pytest.raises(Unavailable, match="not connected"):
        await ledger.datasets()


def test_the_url_comes_from_the_environment(
    file: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNTANT_URL", f"sqlite:///{file}")
    with Accountant(clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
    assert file.exists()


async def test_an_address_of_another_service_is_refused(
    server: LocalServer, clock: TestClock
) -> None:
    import msgspec

    service = HttpService(f"{server.url}/schema")
    with pytest.raises(Refused, match="gateway"):
        await service.submit("requests", msgspec.json.encode(request(clock)), wait=1)
    await service.close()


def test_a_ledger_locked_by_a_process_without_an_address_is_refused(
    file: Path, clock: TestClock
) -> None:
    with (
        held_by_another(file),
        pytest.raises(Refused, match=r"process \d+ \(python\) has \S+ open"),
    ):
        Accountant(f"sqlite:///{file}", clock=clock, wait=0)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_ledger_that_another_process_closes_in_time_is_opened(
    file: Path, asynchronous: bool
) -> None:
    url = f"sqlite:///{file}"
    other = held_by_another(file)
    other.__enter__()
    letting_go = threading.Timer(0.3, other.__exit__, (None, None, None))
    letting_go.start()
    if asynchronous:
        async with AsyncAccountant(url) as ledger:
            granted = await ledger.ask("census", "pure:0.1", analyst="ana")
    else:
        with Accountant(url) as waiting:
            granted = waiting.ask("census", "pure:0.1", analyst="ana")
    letting_go.join()
    assert granted.outcome is Outcome.GRANTED


def test_a_call_is_retried_until_its_deadline() -> None:
    patient = Deadline(3600)
    pauses = [patient.pause() for _ in range(50)]
    assert all(pause is not None and 0 < pause <= 2 for pause in pauses)
    assert Deadline(0).pause() is None


def test_a_closed_client_says_so(file: Path, clock: TestClock) -> None:
    ledger = Accountant(f"sqlite:///{file}", clock=clock)
    ledger.disconnect()
    with pytest.raises(Unavailable, match="this client is not connected: it was closed"):
        ledger.datasets()


@pytest.mark.parametrize("claim", [0.1, None, ["pure:0.1"]])
def test_an_unknown_kind_of_claim_is_named(ledger: Accountant, claim: object) -> None:
    ledger.as_owner("owner").open("census", ONE, as_given=True)
    with pytest.raises(RequestInvalid, match=r"claim must be text such as pure:0\.1"):
        ledger.ask("census", claim, analyst="ana")  # type: ignore[arg-type]


def test_an_undecided_call_says_how_to_look_it_up(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.open()
        blocker = apsw.Connection(str(file))
        blocker.execute("BEGIN IMMEDIATE")
        settings = Settings(url=server.url)
        with (
            Accountant(settings=settings, clock=clock) as ledger,
            pytest.raises(Unavailable, match="Look it up"),
        ):
            ledger.ask("census", "pure:0.1", analyst="ana", wait=0)
        blocker.execute("ROLLBACK")
