"""A misspelt dataset is an error that suggests the right name, never an empty result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.errors import RequestInvalid
from streams.client import Accountant, NotGranted, UnknownDataset
from tests.every_case import check_each
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

CALLS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "dataset": lambda ledger, name: ledger.dataset(name),
    "members": lambda ledger, name: ledger.members(name),
    "limits": lambda ledger, name: ledger.limits(name),
    "usage": lambda ledger, name: ledger.usage(name),
    "usage_by": lambda ledger, name: ledger.usage_by(name, "day"),
    "overview": lambda ledger, name: ledger.overview(name),
    "why": lambda ledger, name: ledger.why(name),
    "requests": lambda ledger, name: list(ledger.requests(name)),
    "decision": lambda ledger, name: ledger.decision(name, "ana", new_id(ledger.clock)),
    "budget": lambda ledger, name: ledger.budget(name),
    "cost": lambda ledger, name: ledger.cost(name, "pure:0.1"),
}


@pytest.fixture(params=["in process", "http"])
def ledger(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Iterator[Accountant]:
    if request.param == "in process":
        with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as client:
            yield client
        return
    with (
        LocalServer(file, clock) as server,
        Accountant(server.url, clock=clock, analyst="ana") as client,
    ):
        yield client


def test_a_read_suggests_the_name(ledger: Accountant) -> None:
    ledger.as_owner("olga").open("census", {"filter": "basic", "epsilon": "1"})

    def check_case(call: str) -> None:
        CALLS[call](ledger, "census")
        with pytest.raises(
            UnknownDataset,
            match=r"^no dataset that you may see is named cenus: did you mean census",
        ):
            CALLS[call](ledger, "cenus")
        with pytest.raises(RequestInvalid, match=r"you may see is named zoo\. List the names"):
            CALLS[call](ledger, "zoo")

    check_each(check_case, CALLS)


def test_a_refused_request_suggests_the_name(ledger: Accountant) -> None:
    ledger.as_owner("olga").open("census", {"filter": "basic", "epsilon": "1"})
    reply = ledger.ask("cenus", "pure:0.1")
    assert reply.why.startswith("No dataset is named cenus.")
    assert reply.why.endswith("Did you mean census?")
    assert repr(reply.why) in repr(reply)
    with pytest.raises(NotGranted, match=r"Did you mean census\?"):
        ledger.release("cenus", "pure:0.1", lambda: 1)


def test_a_refused_unit_is_shown_beside_the_policys(ledger: Accountant) -> None:
    ledger.as_owner("olga").open("census", {"filter": "basic", "epsilon": "1"})
    with pytest.raises(NotGranted, match=r"unit row .* policy .*unit person"):
        ledger.release("census", "pure:0.1", lambda: 1, unit="row")


def test_a_refusal_says_what_the_request_costs_and_what_is_left(ledger: Accountant) -> None:
    ledger.as_owner("olga").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
    assert ledger.ask("census", "pure:0.75").granted
    with pytest.raises(NotGranted, match=r"costs ε 0\.5, and 0\.25 is left.*25 % left \(ε 0\.25\)"):
        ledger.release("census", "pure:0.5", lambda: 1)


def test_a_grant_shows_first_what_is_left(ledger: Accountant) -> None:
    ledger.as_owner("olga").open("census", {"filter": "basic", "epsilon": "1"})
    shown = repr(ledger.ask("census", "pure:0.05"))
    assert shown.startswith("Reply(granted, 95 % left (ε 0.95), granted=True, cost=ε 0.05, ")
