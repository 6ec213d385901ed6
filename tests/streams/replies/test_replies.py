"""A refusal, a repeat or a call without `await` cannot be mistaken for a grant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from accountant.errors import RequestInvalid
from accountant.partition import hash_of
from accountant.records import decode_decision
from accountant.records.http_bodies import logged_decision, served_decision
from accountant.records.outcomes import Outcome, Reason
from streams.client import Accountant, AsyncAccountant, Reply
from tests.accountant.world import World
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, request

ONE = {"filter": "basic", "epsilon": "1"}


@pytest.fixture(params=["in process", "http"])
def ledger(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Iterator[Accountant]:
    if request.param == "in process":
        with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as client:
            client.as_owner("owner").open("census", ONE, as_given=True)
            yield client
        return
    with (
        LocalServer(file, clock) as server,
        Accountant(server.url, clock=clock, analyst="ana") as client,
    ):
        client.as_owner("owner").open("census", ONE, as_given=True)
        yield client


def test_a_reply_has_no_truth_value(ledger: Accountant) -> None:
    for claim in ("pure:0.5", "pure:2"):
        reply = ledger.ask("census", claim)
        assert reply.granted is (claim == "pure:0.5")
        with pytest.raises(TypeError, match="Read its `granted`") as raised:
            bool(reply)
        assert ("was granted and charged" in str(raised.value)) is reply.granted
        assert (reply.request_id in str(raised.value)) is reply.granted
        with pytest.raises(TypeError, match="granted"):
            bool(reply.decision)
    with pytest.raises(TypeError, match="granted"):
        bool(ledger.as_owner("owner").open("survey", ONE, as_given=True))


def test_a_reply_has_typed_fields_for_comparisons(ledger: Accountant) -> None:
    granted = ledger.ask("census", "pure:0.3")
    assert (granted.outcome, granted.reason) == (Outcome.GRANTED, None)
    assert granted.cost["epsilon"] == Decimal("0.3")
    assert granted.left["epsilon"] == Decimal("0.7")
    assert granted.left["epsilon"] > Decimal("0.65")
    assert not granted.repeated
    assert granted.request_id in bytes(granted.decision.request).decode()
    refused = ledger.ask("census", "pure:0.8")
    assert (refused.granted, refused.reason) == (False, Reason.EXHAUSTED)
    assert refused.cost == {}
    assert refused.asked["epsilon"] == Decimal("0.8")
    assert refused.fits == "pure:0.7"
    assert "granted=False" in repr(refused)
    assert "fits=pure:0.7" in repr(refused)
    assert ledger.decision("census", "ana", granted.request_id) == granted.decision


def test_a_repeat_is_not_a_second_grant(ledger: Accountant, clock: TestClock) -> None:
    mine = new_id(clock)
    first = ledger.ask("census", "pure:0.3", request_id=mine)
    again = ledger.ask("census", "pure:0.3", request_id=mine)
    assert (first.granted, first.repeated) == (True, False)
    assert (again.granted, again.repeated) == (False, True)
    assert again.first is not None
    assert again.first.granted
    assert again.hash == first.hash
    assert again.receipt == first.receipt
    assert again.cost == first.cost
    other = ledger.ask("census", "pure:0.4", request_id=mine)
    assert (other.granted, other.repeated, other.outcome) == (False, False, Outcome.CONFLICT)


def test_a_claim_typed_by_hand_takes_unit_and_neighbours_of_the_policy(ledger: Accountant) -> None:
    ledger.as_owner("owner").open(
        "visits", ONE | {"unit": "visit", "neighbours": "replace"}, as_given=True
    )
    assert ledger.ask("visits", "pure:0.1").granted
    assert ledger.ask("visits", "pure:0.1", unit="person").reason is Reason.UNIT_MISMATCH
    assert ledger.ask("nowhere", "pure:0.1").reason is Reason.UNKNOWN_DATASET


def test_a_refusal_names_the_filter_that_would_grant(ledger: Accountant) -> None:
    ledger.as_owner("owner").open("train", {"epsilon": "8", "delta": "1e-6"})
    training = "96*subsampled_gaussian:sigma=1.1,sensitivity=1,rate=0.03125"
    reply = ledger.ask("train", training)
    assert reply.reason is Reason.ABOVE_CAP
    assert "filter renyi at order 4 would take it for 6.6 % of the budget" in reply.why
    assert "renyi" not in ledger.ask("train", "pure:4").why


def test_the_analyst_comes_from_call_client_or_environment(
    file: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        with pytest.raises(RequestInvalid, match=r"analyst must be passed .* ACCOUNTANT_ANALYST"):
            ledger.ask("census", "pure:0.1")
        monkeypatch.setenv("ACCOUNTANT_ANALYST", "bo")
        assert b'"analyst":"bo"' in bytes(ledger.ask("census", "pure:0.1").decision.request)


def test_close_closes_the_client(ledger: Accountant) -> None:
    with pytest.raises(TypeError, match=r"as_owner\(\.\.\.\)\.close\(name\)"):
        ledger.close("census")
    assert ledger.as_owner("owner").close("census").outcome is Outcome.CLOSED
    ledger.close()
    with pytest.raises(Exception, match="not connected"):
        ledger.datasets()


async def test_a_call_without_await_is_not_a_reply(file: Path, clock: TestClock) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        await ledger.as_owner("owner").open("census", ONE, as_given=True)
        for call in (ledger.ask("census", "pure:0.01"), ledger.dataset("census")):
            with pytest.raises(TypeError, match="not awaited"):
                bool(call)
            call.close()
        call = ledger.ask("census", "pure:0.01")
        with pytest.raises(AttributeError, match=r"await ledger\.ask\(\.\.\.\)\)\.granted"):
            _ = call.granted  # type: ignore[attr-defined]
        assert (await call).granted
        task = asyncio.create_task(ledger.ask("census", "pure:0.01"))
        gathered = await asyncio.gather(*[ledger.ask("census", "pure:0.01") for _ in range(3)])
        assert all(reply.granted for reply in [await task, *gathered])
        with pytest.raises(RequestInvalid):  # by the call itself, awaited or not
            ledger.ask("census", "pure:-1")
        with pytest.raises(TypeError, match="Read its `granted`"):
            bool(await ledger.ask("census", "pure:5"))


async def test_a_call_that_is_never_awaited_warns(file: Path, clock: TestClock) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        await ledger.as_owner("owner").open("census", ONE, as_given=True)
        with pytest.warns(RuntimeWarning, match="never awaited"):
            ledger.ask("census", "pure:0.01")
        view = await ledger.dataset("census")
        assert view is not None
        assert view.sequence == 1


def test_a_server_adds_granted_to_the_decision(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.open()
        body = request(clock)
        first = httpx.post(f"{server.url}/requests", json=body).json()
        assert list(first)[list(first).index("outcome") + 1 :][:2] == ["granted", "hash"]
        assert first["granted"] is True
        again = httpx.post(f"{server.url}/requests", json=body).json()
        assert (again["outcome"], again["granted"]) == ("repeated", False)
        assert again["first"]["granted"] is True
        assert again["first"]["hash"] == first["hash"]
        where = f"/datasets/census/requests/{body['request_id']}?analyst={body['analyst']}"
        assert httpx.get(server.url + where).json() == first
        large = request(clock, claim={"type": "pure", "epsilon": "9"})
        refused = httpx.post(f"{server.url}/requests", json=large).json()
        assert (refused["outcome"], refused["granted"]) == ("refused", False)


def test_fields_that_a_server_adds_are_removed_exactly() -> None:
    world = World()
    world.open(**ONE)
    mine = world.request(purpose='"granted":true,"outcome":"granted","first":{"outcome":"x"}')
    for raw in (mine, mine, world.request(claim="pure:5"), b"{]", world.request(analyst="")):
        world.send("requests", raw)
    for value in world.log:
        shown = served_decision(value)
        assert logged_decision(shown) == (value, True)
        assert logged_decision(value) == (value, True)
        assert decode_decision(shown) == decode_decision(value)
        assert logged_decision(shown.replace(b"sha256:", b"sha256:0", 3))[1] is False
    outcomes = [decode_decision(value).outcome for value in world.log]
    assert {Outcome.GRANTED, Outcome.REPEATED, Outcome.REFUSED, Outcome.INVALID} <= {*outcomes}


def test_the_hash_of_a_reply_is_that_of_the_logged_record() -> None:
    world = World()
    world.open(epsilon="1")
    decision = world.ask("pure:0.1")
    assert Reply(decision, "").hash == hash_of(world.log[-1])
