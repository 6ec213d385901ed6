"""Readers of a ledger's file see its limits, while a writer decides and afterwards."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from accountant.advice.preview import Preview
from accountant.claims.text import parse_claim
from accountant.records.previews import PreviewRequest
from accountant.views.limit_views import AnalystBudget, ScopeView
from streams.client.http.service import HttpService
from streams.clock import SystemClock
from streams.embedded.file_ownership import stopped_ledger
from streams.embedded.file_reader import FileReader
from streams.embedded.service import EmbeddedService
from streams.evidence.operator_records import reset_clock
from streams.service.ledger_service import Service
from streams.settings import Settings
from tests.nightly import rounds
from tests.streams.bodies import asking, enrolment, opening, request_id
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id
from tests.streams.uncompared import uncompared

OPENS = ("tests/before/*",)

BEFORE: Final = Path(__file__).parents[2] / "before"
ANALYSTS: Final = ("ana", "ben", "cy")
LIMITS: Final[list[dict[str, Any]]] = [
    {"scope": "dataset", "pace": {"part": "0.9", "period": "P1D"}},
    {"scope": "team", "name": "blue", "part": "0.5", "reserved": "0.2"},
    {"scope": "each", "name": "blue", "part": "0.4"},
    {"scope": "analyst", "name": "cy", "part": "0.3", "reserved": "0.1"},
    {"scope": "analyst", "name": "ana", "policy": {"filter": "zcdp", "rho": "3"}},
    {"scope": "analyst", "name": "ana"},
    {"scope": "team", "name": "red", "reserved": "0.05"},
    {"scope": "team", "name": "red"},
]


class Busy:
    """A service whose owner changes limits, members and alerts while three analysts ask.

    Attributes:
        seen: how often each outcome or reason was decided.
    """

    def __init__(self, file: Path, clock: TestClock) -> None:
        self.clock = clock
        self.service = EmbeddedService.open(file, Settings(), clock=clock)
        self.seen = Counter[str]()
        self._numbers = itertools.count(1)
        self.admin(opening("census", clock.now(), next(self._numbers), epsilon="10"))
        for name in ANALYSTS:
            self.enrol(name, "blue")

    def admin(self, body: bytes) -> dict[str, Any]:
        return self._decision_of(self.service.submit_sync("admin", body, 10).decision)

    def enrol(self, name: str, team: str) -> None:
        at = self.clock.now()
        self.admin(enrolment("census", at, next(self._numbers), name, "analyst", team=team))

    def owners(self, kind: str, **fields: Any) -> dict[str, Any]:
        head = {"version": 1, "type": kind, "dataset": "census", "by": "owner"}
        own = request_id(self.clock.now(), next(self._numbers))
        return self.admin(json.dumps({**head, "request_id": own, **fields}).encode())

    def ask(self, analyst: str, epsilon: str = "0.001") -> dict[str, Any]:
        at, number = self.clock.now(), next(self._numbers)
        body = asking("census", at, number, epsilon=epsilon, analyst=analyst)
        return self._decision_of(self.service.submit_sync("requests", body, 10).decision)

    def _decision_of(self, decision: bytes | None) -> dict[str, Any]:
        assert decision is not None
        found: dict[str, Any] = json.loads(decision)
        self.seen[found.get("reason") or found["outcome"]] += 1
        return found

    def close(self) -> None:
        self.service.close_sync()


@pytest.fixture
def busy(file: Path, clock: TestClock) -> Iterator[Busy]:
    made = Busy(file, clock)
    yield made
    made.close()


@pytest.fixture
def switching() -> Iterator[None]:
    """Have threads take turns a hundred times as often as they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching")
def test_readers_never_fail_and_see_no_more_than_there_is_while_limits_change(busy: Busy) -> None:
    failed, looked, over = list[BaseException](), Counter[str](), threading.Event()

    def look(analyst: str) -> None:
        async def looking() -> None:
            service = busy.service
            asked = PreviewRequest(parse_claim("pure:0.001"), "person", "add_remove", analyst)
            while not over.is_set():
                for view in await service.levels("census"):
                    looked[view.scope] += 1
                    for part in (view, view.pace):
                        whole = {} if part is None or part.budget is None else part.budget
                        for name, text in ((part and part.left) or {}).items():
                            assert Fraction(text) <= Fraction(whole[name])
                budget = await service.budget_for("census", analyst)
                assert budget is not None
                assert 0 <= Fraction(budget.left["epsilon"]) <= 10
                shown = await service.preview("census", asked)
                assert shown is not None
                looked[f"preview {shown.granted}"] += 1

        try:
            asyncio.run(looking())
        except BaseException as error:  # raised again in the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=look, args=(name,)) for name in ANALYSTS]
    for thread in threads:
        thread.start()
    try:
        for number in range(turns := rounds(8, 25)):
            for place, fields in enumerate(LIMITS):
                busy.owners("limit", **fields)
                busy.owners("limit", scope="analyst", name=f"z{number}-{place}", part="0.1")
                for name in ANALYSTS:
                    busy.ask(name)
            busy.enrol(ANALYSTS[number % 3], ("blue", "red")[number % 2])
            busy.owners("amend", alert_at=[("0.1", "0.9")[number % 2]])  # another compiled policy
            busy.clock.pass_(seconds=3_600)
            if failed:
                break
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failed, failed
    written = ("granted", "limit_set", "limit_removed", "amended")
    assert min(busy.seen[each] for each in written) >= turns
    assert {"dataset", "team", "each", "analyst", "preview True"} <= looked.keys()


class Looks(NamedTuple):
    """Everything that readers show of a dataset's limits."""

    levels: list[ScopeView]
    budgets: list[AnalystBudget | None]
    previews: list[Preview | None]


CLAIMS: Final = ("pure:0.01", "pure:0.35", "3*pure:0.1", "pure:7", "gaussian:sigma=9,sensitivity=1")
WHO: Final = (*ANALYSTS, "dan", None)


def preview_request(claim: str, analyst: str | None) -> PreviewRequest:
    return PreviewRequest(parse_claim(claim), "person", "add_remove", analyst)


async def looks(service: Service, dataset: str = "census") -> Looks:
    return Looks(
        await service.levels(dataset),
        [await service.budget_for(dataset, who) for who in WHO if who is not None],
        [
            await service.preview(dataset, preview_request(claim, who))
            for claim in CLAIMS
            for who in WHO
        ],
    )


async def looks_in_file(file: Path, dataset: str = "census") -> Looks:
    reader = FileReader(file, SystemClock())
    try:
        return await looks(reader, dataset)
    finally:
        await reader.close()


def ahead() -> TestClock:
    """Return a clock that a reader of the file, who has the machine's own, is behind."""
    return TestClock(SystemClock().now() + 400 * 86_400_000)


async def test_a_file_its_writer_and_its_server_tell_the_same(file: Path) -> None:
    with LocalServer(file, ahead()) as server:
        server.open("census", epsilon="2")
        for name in ANALYSTS:
            fields = {"member": name, "roles": ["analyst"], "team": "blue"}
            assert server.post(
                "/datasets/census/members", owners(server, "member", **fields)
            ).is_success
        remote = HttpService(server.url)
        try:
            for fields in LIMITS:
                set_ = server.post(
                    "/datasets/census/limits", owners(server, "limit", **fields)
                ).json()
                assert set_["outcome"] in {"limit_set", "limit_removed"}, set_
                for name in ANALYSTS:
                    assert server.ask(
                        analyst=name, claim={"type": "pure", "epsilon": "0.01"}
                    ).json()["granted"]
                reported = await looks(server.service)
                assert reported == await looks_in_file(file)
                assert reported == await looks(remote)
            assert [len(budget.levels) for budget in reported.budgets if budget is not None] == [
                *(3, 3, 3, 1),
            ]
            assert await looks(remote, "nowhere") == await looks(server.service, "nowhere")
            assert await server.service.levels("nowhere") == []
            assert await server.service.budget_for("nowhere", "ana") is None
        finally:
            await remote.close()
    service = EmbeddedService.open(file, Settings(), clock=server.clock)
    try:
        assert await looks(service) == reported
    finally:
        service.close_sync()


def owners(server: LocalServer, kind: str, **fields: Any) -> dict[str, Any]:
    own = {"request_id": new_id(server.clock), "dataset": "census", "by": "owner"}
    return {"version": 1, "type": kind, **own, **fields}


async def test_a_pace_in_a_file_runs_by_the_clock_that_was_set_back(file: Path) -> None:
    clock = ahead()
    busy = Busy(file, clock)
    busy.owners("limit", scope="dataset", pace={"part": "0.01", "period": "P1D"})
    clock.pass_(seconds=5.5 * 86_400)
    assert busy.ask("ana", "0.08")["outcome"] == "granted"
    busy.close()
    clock.jump(seconds=-3 * 86_400)
    with stopped_ledger(file, Settings(), clock.now()) as (journal, genesis):
        done = await reset_clock(journal, genesis, clock, "it was ahead", compare=uncompared)
        assert done is not None
    clock.pass_(seconds=400)  # earlier ids have expired
    service = EmbeddedService.open(file, Settings(), clock=clock)
    try:
        reported = await looks_in_file(file)
        assert reported == await looks(service)
        (level,) = reported.levels
        assert level.pace is not None
        assert level.pace.left["epsilon"] == "0.02"
    finally:
        service.close_sync()
