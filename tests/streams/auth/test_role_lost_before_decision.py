"""What happens between a server's look and the log's word."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from accountant.partition.decide import decide as decide_record
from accountant.partition.draft import Draft
from accountant.records import Decision, Source, decode_decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.auth.roles_server import Body, RolesServer, at, setting
from tests.streams.clock import TestClock
from tests.streams.gateway.records import new_id, opening, request
from tests.streams.waiting import eventually

OPENS = ("tests/before/*",)

RULES_3 = Path(__file__).parents[2] / "before" / "ledger_of_rules_3.sqlite"


class DelayedDecisions:
    """Decides as usual; while switched on, it delays each record until released."""

    def __init__(self) -> None:
        self.going, self.reached = threading.Event(), threading.Event()
        self.going.set()
        self.late_ms = 0

    def __call__(self, draft: Draft, record: Input, clock: int) -> EncodedDecision:
        self.reached.set()
        assert self.going.wait(PATIENCE_S)
        return decide_record(draft, _later(record, self.late_ms), clock + self.late_ms)


def _later(record: Input, ms: int) -> Input:
    later = record.append_time + ms
    return msgspec.structs.replace(record, append_time=later) if ms else record


@pytest.fixture
def slow() -> DelayedDecisions:
    return DelayedDecisions()


@pytest.fixture
def server(tmp_path: Path, slow: DelayedDecisions) -> Iterator[RolesServer]:
    with RolesServer(tmp_path, decide=slow) as made:
        made.open_for_olga("census", access="members")
        made.enrol("census", "ana", "analyst")
        yield made


def waiting(server: RolesServer) -> float:
    return sum(lag.records for lag in server.service.live_ledgers.snapshot().lags)


def test_a_member_removed_before_the_decision_gets_403_without_totals(
    server: RolesServer, slow: DelayedDecisions
) -> None:
    before, _ = server.stored_rows()
    ask = request(server.clock, analyst="ana")
    with ThreadPoolExecutor(2) as pool:
        slow.going.clear()
        slow.reached.clear()
        removal = setting("olga", "census", "ana")
        removed = pool.submit(server.send, "olga", "/datasets/census/members", removal)
        assert slow.reached.wait(PATIENCE_S)
        asked = pool.submit(server.send, "ana", "/requests", ask)
        # Both are past the server; the log takes them in their order.
        eventually(lambda: waiting(server) >= 1)
        slow.going.set()
        assert removed.result().json()["outcome"] == "member_removed"
        answer = asked.result()
    assert answer.status_code == 403, answer.text
    assert "totals" not in answer.text
    after, _ = server.stored_rows()
    assert after == before + 2
    assert last_decided(server) == ("refused", "not_permitted")


def last_decided(server: RolesServer) -> tuple[str, str | None]:
    """Return outcome and reason of the last decision in the log."""
    _, value = asyncio.run(server.service.log.last(0))
    decision = decode_decision(value)
    return decision.outcome, decision.reason


def test_the_log_clock_decides_whether_a_membership_has_expired(
    server: RolesServer, slow: DelayedDecisions
) -> None:
    server.enrol("census", "ana", "analyst", until=at(seconds=5))
    server.granted("census", "ana")
    slow.late_ms = 6_000  # by the log's clock it is over, by the server's it is not
    answer = server.send("ana", "/requests", request(server.clock, analyst="ana"))
    # The decision is the first that the server hears of that time, and by it ana learns nothing.
    assert answer.status_code == 403, answer.text
    assert "totals" not in answer.text
    assert last_decided(server) == ("refused", "not_permitted")


def test_a_membership_ends_exactly_at_its_until_time(server: RolesServer) -> None:
    server.enrol("census", "ana", "analyst", until=at(seconds=5))
    server.clock.pass_(seconds=4.999)  # type: ignore[attr-defined]
    server.granted("census", "ana")
    server.clock.pass_(seconds=0.001)  # type: ignore[attr-defined]
    before = server.stored_rows()
    for path in ("/datasets/census", "/datasets/census/requests", "/datasets/census/members"):
        assert server.see("ana", path).status_code == 404
    ask = request(server.clock, analyst="ana")
    assert server.send("ana", "/requests", ask).status_code == 403
    assert server.stored_rows() == before


def test_an_owner_who_removes_themselves_gets_the_decision(server: RolesServer) -> None:
    server.enrol("census", "ben", "owner")
    leaving = server.send("olga", "/datasets/census/members", setting("olga", "census", "olga"))
    assert (leaving.status_code, leaving.json()["outcome"]) == (200, "member_removed")
    assert server.see("olga", "/datasets/census").status_code == 404


def test_a_record_issued_in_the_future_gets_422(server: RolesServer) -> None:
    clock = TestClock(server.clock.now() + 3_600_000)
    body = {**opening(clock, "new"), "by": "opie"}
    answer = server.send("opie", "/datasets", body)
    assert (answer.status_code, answer.json()["error"]) == (422, "issued_in_future")


def test_a_process_with_the_ledger_file_is_administrator_and_bound_by_its_rules(
    tmp_path: Path,
) -> None:
    with RolesServer(tmp_path) as server:
        server.open_for_olga("census", access="members")
        clock = server.clock
    service = EmbeddedService.open(tmp_path / "ledger.db", Settings(), clock=clock)

    def done(source: Source, body: Body) -> Decision:
        whole = {"request_id": new_id(clock), **body}
        decision = service.decide_sync(source, msgspec.json.encode(whole), 20)
        assert decision is not None
        return decision

    try:
        ask = request(clock, analyst="ana")
        assert done("requests", ask).reason == "not_permitted"
        mine = setting("whoever", "census", "ana", "analyst")
        assert done("admin", mine).reason == "not_permitted"
        helped = done("admin", {**mine, "as": "administrator"})
        assert (helped.outcome, helped.administrator) == ("member_set", True)
        assert done("requests", {**ask, "request_id": new_id(clock)}).granted
    finally:
        service.close_sync()
