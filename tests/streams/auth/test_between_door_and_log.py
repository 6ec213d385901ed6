"""What happens between a door's look and the log's word."""

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
from accountant.records.decided import Encoded
from accountant.records.inputs import Input
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.streams.auth.roles_door import Body, RolesDoor, at, setting
from tests.streams.gateway.door import TestClock, eventually, new_id, opening, request

RULES_3 = Path(__file__).parents[2] / "before" / "ledger_of_rules_3.sqlite"


class Slow:
    """Decides as ever, but holds up each record until it is let go on, while it is on."""

    def __init__(self) -> None:
        self.going, self.reached = threading.Event(), threading.Event()
        self.going.set()
        self.late_ms = 0

    def __call__(self, draft: Draft, record: Input, clock: int) -> Encoded:
        self.reached.set()
        assert self.going.wait(30)
        return decide_record(draft, _later(record, self.late_ms), clock + self.late_ms)


def _later(record: Input, ms: int) -> Input:
    later = record.append_time + ms
    return msgspec.structs.replace(record, append_time=later) if ms else record


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def door(tmp_path: Path, slow: Slow) -> Iterator[RolesDoor]:
    with RolesDoor(tmp_path, decide=slow) as made:
        made.open_for_olga("census", access="members")
        made.enrol("census", "ana", "analyst")
        yield made


def waiting(door: RolesDoor) -> float:
    return sum(lag.records for lag in door.service.live_ledgers.snapshot().lags)


def test_a_member_removed_between_door_and_log_gets_nothing_and_learns_nothing(
    door: RolesDoor, slow: Slow
) -> None:
    before, _ = door.kept()
    ask = request(door.clock, analyst="ana")
    with ThreadPoolExecutor(2) as pool:
        slow.going.clear()
        slow.reached.clear()
        removal = setting("olga", "census", "ana")
        removed = pool.submit(door.send, "olga", "/datasets/census/members", removal)
        assert slow.reached.wait(20)
        asked = pool.submit(door.send, "ana", "/requests", ask)
        # Both are past the door; the log takes them in their order.
        eventually(lambda: waiting(door) >= 1)
        slow.going.set()
        assert removed.result().json()["outcome"] == "member_removed"
        answer = asked.result()
    assert answer.status_code == 403, answer.text
    assert "totals" not in answer.text
    after, _ = door.kept()
    assert after == before + 2
    assert last_decided(door) == ("refused", "not_permitted")


def last_decided(door: RolesDoor) -> tuple[str, str | None]:
    """Return outcome and reason of the last decision in the log."""
    _, value = asyncio.run(door.service.last_decision(0))
    decision = decode_decision(value)
    return decision.outcome, decision.reason


def test_the_log_has_the_last_word_on_whose_time_is_over(door: RolesDoor, slow: Slow) -> None:
    door.enrol("census", "ana", "analyst", until=at(seconds=5))
    door.granted("census", "ana")
    slow.late_ms = 6_000  # by the log's clock it is over, by the door's it is not
    answer = door.send("ana", "/requests", request(door.clock, analyst="ana"))
    # The decision is the first that the door hears of that time, and by it ana learns nothing.
    assert answer.status_code == 403, answer.text
    assert "totals" not in answer.text
    assert last_decided(door) == ("refused", "not_permitted")


def test_a_membership_ends_at_its_moment(door: RolesDoor) -> None:
    door.enrol("census", "ana", "analyst", until=at(seconds=5))
    door.clock.pass_(seconds=4.999)  # type: ignore[attr-defined]
    door.granted("census", "ana")
    door.clock.pass_(seconds=0.001)  # type: ignore[attr-defined]
    before = door.kept()
    for path in ("/datasets/census", "/datasets/census/requests", "/datasets/census/members"):
        assert door.see("ana", path).status_code == 404
    ask = request(door.clock, analyst="ana")
    assert door.send("ana", "/requests", ask).status_code == 403
    assert door.kept() == before


def test_an_owner_who_leaves_is_told_that_it_was_done(door: RolesDoor) -> None:
    door.enrol("census", "ben", "owner")
    leaving = door.send("olga", "/datasets/census/members", setting("olga", "census", "olga"))
    assert (leaving.status_code, leaving.json()["outcome"]) == (200, "member_removed")
    assert door.see("olga", "/datasets/census").status_code == 404


def test_who_opens_a_name_by_a_clock_that_is_ahead_is_told_so(door: RolesDoor) -> None:
    clock = TestClock(door.clock.now() + 3_600_000)
    body = {**opening(clock, "new"), "by": "opie"}
    answer = door.send("opie", "/datasets", body)
    assert (answer.status_code, answer.json()["error"]) == (422, "issued_in_future")


def test_who_may_write_the_file_is_administrator_and_bound_by_the_log(tmp_path: Path) -> None:
    with RolesDoor(tmp_path) as door:
        door.open_for_olga("census", access="members")
        clock = door.clock
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
