"""A client reads limits and the remaining budget from a file and through a server."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.views.limit_views import AnalystBudget, ScopeView
from streams.client import (
    Accountant,
    AsyncAccountant,
    NotPermitted,
    Owner,
    RequestInvalid,
    Unauthenticated,
    UnknownDataset,
)
from streams.errors import AccountantWarning
from tests.streams.auth.roles_server import RolesServer
from tests.streams.clock import NOON, TestClock
from tests.streams.gateway.local_server import LocalServer

POLICY: Final = {"filter": "basic", "epsilon": "10"}
LIMITS: Final = (("team", "blue", "0.5"), ("each", "blue", "0.2"), ("analyst", "ben", "0.1"))
ALL: Final = ["team blue", "each blue", "analyst ben"]
ANA: Final = ["team blue", "each blue ana"]
BEN: Final = ["analyst ben"]
LARGE: Final = "pure:1.5"  # within ana's limit, above ben's


def named(levels: Any) -> list[str]:
    whose = ([each.scope, each.name, getattr(each, "analyst", None)] for each in levels)
    return [" ".join(part for part in parts if part) for parts in whose]


def divide(owner: Owner, dataset: str) -> None:
    done = owner.set_member(dataset, "ana", roles=["analyst"], team="blue")
    assert done.outcome == "member_set"
    assert owner.set_member(dataset, "ben", roles=["analyst"]).outcome == "member_set"
    for scope, name, part in LIMITS:
        assert owner.set_limit(dataset, scope, name, part=part).outcome == "limit_set"


def test_a_limit_of_a_team_without_members_warns_unless_it_is_meant(
    tmp_path: Path, clock: TestClock
) -> None:
    with Accountant(f"sqlite:///{tmp_path}/l.db", clock=clock) as ledger:
        owner = ledger.as_owner("olga")
        owner.open("census", POLICY, as_given=True)
        divide(owner, "census")
        said = "team bluw has no members yet; existing teams: blue; did you mean blue"
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert owner.set_limit("census", "team", "bluw", part="0.1").outcome == "limit_set"
        found = [each for each in warned if each.category is AccountantWarning]
        assert [each.filename for each in found] == [__file__]
        assert said in str(found[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            owner.set_limit("census", "team", "bluw", part="0.2", new=True)
            owner.set_limit("census", "team", "blue", part="0.3")
            owner.remove_limit("census", "team", "bluw")


@pytest.fixture
def divided(tmp_path: Path, clock: TestClock) -> str:
    """The URL of a file with two datasets that are divided, and one that is closed."""
    url = f"sqlite:///{tmp_path}/divided.db"
    with Accountant(url, clock=clock) as ledger:
        for dataset in ("census", "survey", "ended"):
            ledger.as_owner("olga").open(dataset, POLICY, as_given=True)
            divide(ledger.as_owner("olga"), dataset)
        assert ledger.as_owner("olga").close("ended").outcome == "closed"
        assert ledger.ask("census", "pure:0.25", analyst="ana").granted
    return url


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RolesServer]:
    """As `RolesServer`, with one dataset that is divided."""
    with RolesServer(tmp_path) as made:
        made.furnish()
        with client(made, "olga") as ledger:
            divide(ledger.as_owner(), "closed-own")
        yield made


def client(server: RolesServer, name: str, **more: Any) -> Accountant:
    return Accountant(server.url, token=server.tokens[name], clock=TestClock(NOON), **more)


def used(levels: Any, whose: str) -> str | None:
    (level,) = [each for each, name in zip(levels, named(levels), strict=True) if name == whose]
    assert isinstance(level, ScopeView)
    return None if level.used is None else level.used["epsilon"]


def test_a_file_shows_every_analysts_budget(divided: str, clock: TestClock) -> None:
    with Accountant(divided, clock=clock) as ledger:
        limits = ledger.limits("census")
        assert named(limits) == ALL
        assert used(limits, "team blue") == "0.25"
        with pytest.raises(UnknownDataset):
            ledger.limits("nowhere")
        budget = ledger.budget("census", "ana")
        assert isinstance(budget, AnalystBudget)
        assert (budget.dataset, budget.analyst, budget.team) == ("census", "ana", "blue")
        assert (budget.left["epsilon"], named(budget.levels)) == ("9.75", ANA)
        assert used(budget.levels, "each blue ana") == "0.25"
        assert ledger.budget("census", analyst="ben").levels[0].left == {
            "epsilon": "1",
            "delta": "0",
        }
        assert [each.dataset for each in ledger.budgets("ben")] == ["census", "survey"]
        for name, levels in (("ana", []), ("ben", BEN)):
            level = ledger.cost("census", LARGE, analyst=name).level
            assert named([level] if level else []) == levels
        # An analyst without a team, and no analyst named.
        assert ledger.cost("census", "pure:4").granted
        assert not ledger.cost("census", "pure:4", analyst="ana").granted
        with pytest.raises(RequestInvalid, match="no dataset that you may see is named nowhere"):
            ledger.budget("nowhere", "ana")


def test_a_file_shows_the_budget_of_the_clients_own_analyst(
    divided: str, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Accountant(divided, clock=clock, analyst="ana") as ledger:
        assert ledger.budget("census").analyst == "ana"
        assert ledger.budget("census", "ben").analyst == "ben"
        assert {each.analyst for each in ledger.budgets()} == {"ana"}
        assert ledger.cost("census", LARGE).granted
    monkeypatch.setenv("ACCOUNTANT_ANALYST", "ben")
    with Accountant(divided, clock=clock) as ledger:
        assert {each.analyst for each in ledger.budgets()} == {"ben"}
        assert not ledger.cost("census", LARGE).granted


def test_a_file_needs_a_name_for_an_analysts_budget(divided: str, clock: TestClock) -> None:
    missing = r"analyst must be passed .*, or set as ACCOUNTANT_ANALYST$"
    with Accountant(divided, clock=clock) as ledger:
        for look in (ledger.budgets, lambda: ledger.budget("census")):
            with pytest.raises(RequestInvalid, match=missing):
                look()


def test_a_server_shows_the_tokens_own_budget(server: RolesServer) -> None:
    with client(server, "ana") as ledger:
        assert named(ledger.limits("closed-own")) == ANA
        assert ledger.budget("closed-own").analyst == "ana"
        assert ledger.budget("closed-own") == ledger.budget("closed-own", "ana")
        assert [each.dataset for each in ledger.budgets()] == [
            *("closed-all", "closed-own", "open-all", "open-own"),
        ]
        assert ledger.budgets() == ledger.budgets("ana")
        assert ledger.cost("closed-own", "pure:15").granted
        assert ledger.cost("closed-own", "pure:25") == ledger.cost(
            "closed-own", "pure:25", analyst="ana"
        )
        for look in (
            lambda: ledger.budget("closed-own", "ben"),
            lambda: ledger.cost("closed-own", LARGE, analyst="ben"),
            lambda: ledger.budgets("ben"),
        ):
            with pytest.raises(NotPermitted, match="may see what others have left"):
                look()
        for dataset in ("elsewhere", "nowhere"):
            with pytest.raises(UnknownDataset):
                ledger.limits(dataset)
            with pytest.raises(RequestInvalid, match="no dataset that you may see is named"):
                ledger.budget(dataset)
    with client(server, "zoe") as ledger:
        assert [each.dataset for each in ledger.budgets()] == ["open-all", "open-own"]


def test_a_server_shows_other_analysts_budgets_to_callers_with_full_visibility(
    server: RolesServer,
) -> None:
    with client(server, "root") as ledger:
        ledger.as_owner().open(
            "aside", {**POLICY, "access": "anyone"}, owners=["opie"], as_given=True
        )
    for name in ("olga", "aud", "root"):
        with client(server, name) as ledger:
            assert named(ledger.limits("closed-own")) == ALL
            assert named(ledger.budget("closed-own", "ben").levels) == BEN
            shown = ledger.cost("closed-own", "pure:15", analyst="ben")
            assert shown.level is not None
            assert named([shown.level]) == BEN
            # Of a dataset that is open to all, other analysts see only their own budget.
            mine = [each.dataset for each in ledger.budgets("ben")]
            assert "closed-own" in mine
            assert ("aside" in mine) == (name == "root")
    with client(server, "eng", via="eng") as ledger:
        assert not ledger.cost("closed-own", "pure:15", analyst="ben").granted
        with pytest.raises(NotPermitted):
            ledger.budget("closed-own", "ben")


def test_a_server_names_the_missing_token_or_analyst(server: RolesServer, tmp_path: Path) -> None:
    with Accountant(server.url) as ledger:
        for look in (ledger.budgets, lambda: ledger.limits("closed-own")):
            with pytest.raises(Unauthenticated, match="ACCOUNTANT_TOKEN"):
                look()
    with LocalServer(tmp_path / "open.db", TestClock()) as knows_nobody:
        knows_nobody.open("census", epsilon="10")
        with Accountant(knows_nobody.url, token="acct_x", clock=TestClock(NOON)) as ledger:
            for look in (ledger.budgets, lambda: ledger.budget("census")):
                with pytest.raises(RequestInvalid, match="analyst must be passed: authentication"):
                    look()
            divide(ledger.as_owner("owner"), "census")
            assert named(ledger.budget("census", "ana").levels) == ANA
            assert [each.dataset for each in ledger.budgets("ana")] == ["census"]
            assert ledger.cost("census", LARGE).granted
            assert not ledger.cost("census", LARGE, analyst="ben").granted


def test_the_async_client_gets_the_same_limits(server: RolesServer, divided: str) -> None:
    async def read_all(ledger: AsyncAccountant, dataset: str) -> list[object]:
        return [
            await ledger.limits(dataset),
            await ledger.budget(dataset),
            await ledger.budgets(),
            await ledger.cost(dataset, LARGE),
            await ledger.cost(dataset, LARGE, analyst="ana"),
        ]

    def read_all_sync(ledger: Accountant, dataset: str) -> list[object]:
        return [
            ledger.limits(dataset),
            ledger.budget(dataset),
            ledger.budgets(),
            ledger.cost(dataset, LARGE),
            ledger.cost(dataset, LARGE, analyst="ana"),
        ]

    async def awaited(url: str, dataset: str, **more: Any) -> list[object]:
        async with AsyncAccountant(url, clock=TestClock(NOON), **more) as ledger:
            return await read_all(ledger, dataset)

    with client(server, "ana") as ledger:
        expected = read_all_sync(ledger, "closed-own")
    token = server.tokens["ana"]
    assert asyncio.run(awaited(server.url, "closed-own", token=token)) == expected
    with Accountant(divided, clock=TestClock(NOON), analyst="ana") as ledger:
        expected = read_all_sync(ledger, "census")
    assert asyncio.run(awaited(divided, "census", analyst="ana")) == expected
