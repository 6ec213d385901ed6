"""Limits as readers of a ledger's file are told them, while it is decided and after it was."""

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
from typing import Any, Final

import pytest

from accountant.claims.text import parse_claim
from accountant.records import decode_decision
from accountant.records.previews import PreviewRequest
from streams.cli.reading.views.of_file import FileViews
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.streams.bodies import asking, enrolment, opening, request_id
from tests.streams.gateway.door import TestClock

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
        return self._told(self.service.submit_sync("admin", body, 10).decision)

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
        return self._told(self.service.submit_sync("requests", body, 10).decision)

    def _told(self, decision: bytes | None) -> dict[str, Any]:
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
        except BaseException as error:  # told by the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=look, args=(name,)) for name in ANALYSTS]
    for thread in threads:
        thread.start()
    try:
        for number in range(25):
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
    assert min(busy.seen[each] for each in ("granted", "limit_set", "limit_removed", "amended")) > 20
    assert {"dataset", "team", "each", "analyst", "preview True"} <= looked.keys()
