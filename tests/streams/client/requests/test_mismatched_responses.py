"""The client rejects a response about another dataset, such as from a faulty proxy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from streams.client import Accountant, AsyncAccountant, UnknownDataset
from streams.client.http.service import HttpService
from streams.clock import Clock
from streams.errors import Unreadable
from tests.every_case import check_each
from tests.streams.client.http.test_garbled_responses import ONE, Proxy
from tests.streams.client.requests.test_response_matcher import Awaited
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

READS: Final[dict[str, Callable[[Any], Any]]] = {
    "dataset": lambda led: led.dataset("census"),
    "cost": lambda led: led.cost("census", "pure:0.01", unit="person", neighbours="add_remove"),
    "cost, of the policy's unit": lambda led: led.cost("census", "pure:0.01"),
    "ask, of the policy's unit": lambda led: led.ask("census", "pure:0.01"),
    "usage": lambda led: led.usage("census"),
    "why": lambda led: led.why("census"),
    "why, of an analyst": lambda led: led.why("census", analyst="ana"),
    "members": lambda led: led.members("census"),
    "limits": lambda led: led.limits("census"),
    "budget": lambda led: led.budget("census", "ana"),
    "open": lambda led: led.as_owner("owner").open("census", ONE, as_given=True),
}


@contextlib.contextmanager
def behind_a_proxy(file: Path, clock: Clock) -> Iterator[Proxy]:
    """Run a server of three datasets, of which two were used, and a proxy before it."""
    with LocalServer(file, clock) as server:
        with Accountant(server.url, clock=clock) as ledger:
            for name in ("census", "survey", "empty"):
                ledger.as_owner("owner").open(name, ONE, as_given=True)
            for name, analyst in (("census", "ana"), ("survey", "zoe")):
                ledger.as_owner("owner").set_member(name, analyst, roles=["analyst"])
                ledger.as_owner("owner").set_limit(name, "analyst", analyst, part="0.5")
                assert ledger.ask(name, "pure:0.01", analyst=analyst).granted
        with Proxy(server.url) as proxy:
            yield proxy


@pytest.fixture
def proxy(file: Path, clock: TestClock) -> Iterator[Proxy]:
    with behind_a_proxy(file, clock) as proxy:
        yield proxy


def instead(name: str, other: str) -> Callable[[str], str]:
    return lambda path: path.replace(name, other)


@pytest.fixture(params=["waiting", "awaited"])
def client(request: pytest.FixtureRequest, proxy: Proxy, clock: TestClock) -> Iterator[Any]:
    if request.param == "waiting":
        with Accountant(proxy.url, clock=clock, analyst="ana") as ledger:
            yield ledger
        return
    with asyncio.Runner() as runner:
        made = AsyncAccountant(proxy.url, clock=clock, analyst="ana")
        made._connection.attach(HttpService(proxy.url))
        yield Awaited(made, runner)
        runner.run(made.disconnect())  # type: ignore[arg-type]


def test_a_response_about_another_dataset_is_rejected(client: Any, proxy: Proxy) -> None:
    def check_case(read: str, other: str) -> None:
        proxy.route = instead("census", other)
        with pytest.raises(Unreadable, match=f"{other}.*, not with .*census.*: a proxy"):
            READS[read](client)

    check_each(check_case, READS, ["survey", "empty", "nowhere"])


@pytest.mark.parametrize("other", ["survey", "nowhere"])
def test_a_page_of_another_dataset_is_rejected(proxy: Proxy, clock: TestClock, other: str) -> None:
    proxy.route = instead("census", other)
    with Accountant(proxy.url, clock=clock) as ledger, pytest.raises(Unreadable, match=other):
        next(ledger.requests("census"))


def test_another_page_of_the_same_dataset_is_rejected(proxy: Proxy, clock: TestClock) -> None:
    with Accountant(proxy.url, clock=clock) as ledger:
        assert len(list(ledger.requests("census"))) == 4
        proxy.route = instead("after=0", "after=2")
        with pytest.raises(Unreadable, match="after=2"):
            next(ledger.requests("census"))


def test_rows_of_another_dataset_at_the_right_location_are_rejected(
    proxy: Proxy, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streams.client.http import service

    monkeypatch.setattr(service, "check_location", lambda *_: None)
    proxy.route = instead("census", "survey")
    with Accountant(proxy.url, clock=clock) as ledger:
        for call in (ledger.usage, lambda name: next(ledger.requests(name))):
            with pytest.raises(Unreadable, match="dataset survey, not with census"):
                call("census")


def test_a_budget_of_another_analyst_is_rejected(proxy: Proxy, clock: TestClock) -> None:
    proxy.route = instead("ana", "zoe")
    refused = pytest.raises(Unreadable, match="analyst zoe, not with ana")
    with Accountant(proxy.url, clock=clock) as ledger, refused:
        ledger.budget("census", "ana")


def test_a_lookup_response_for_another_id_is_rejected(proxy: Proxy, clock: TestClock) -> None:
    sought, other = new_id(clock), new_id(clock)
    with Accountant(proxy.url, clock=clock) as ledger:
        assert ledger.decision("census", "ana", sought) is None
        proxy.route = instead(sought, other)
        with pytest.raises(Unreadable, match=f"404 for request_id {other}"):
            ledger.decision("census", "ana", sought)


@pytest.mark.parametrize("read", ["usage", "members", "limits"])
def test_a_list_without_its_dataset_is_rejected(client: Any, proxy: Proxy, read: str) -> None:
    proxy.hidden = frozenset({"content-location"})
    with pytest.raises(Unreadable, match="without its Content-Location"):
        READS[read](client)


def test_every_read_works_through_a_correct_proxy(client: Any, proxy: Proxy) -> None:
    for read in READS.values():
        assert read(client) is not None
    for call in (client.dataset, client.members):
        with pytest.raises(UnknownDataset):
            call("nowhere")
    with pytest.raises(UnknownDataset):
        client.cost("nowhere", "pure:0.01")
