"""Ids, clock, floor, chain: everything around adjudication."""

from __future__ import annotations

import hashlib
import json

import pytest

from accountant.partition.decide import decide, decide_internal_error
from accountant.partition.draft import Draft
from accountant.partition.key_hash import partition_of
from accountant.records import FieldError, decode_decision
from accountant.records.inputs import Input, canonical, check
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.replay import state_rows
from tests.accountant.world import SKEW, START, WINDOW, World, code, opened

BASIC = {"filter": "basic", "epsilon": "1", "delta": "0"}


def test_each_decision_names_the_hash_of_the_one_before() -> None:
    world = opened(**BASIC)
    for claim in ("pure:0.1", "zcdp:1", "pure:0.2"):
        world.ask(claim)
    world.send("requests", b"no json")
    hashes = [f"sha256:{hashlib.sha256(value).hexdigest()}" for value in world.log]
    decisions = [decode_decision(value) for value in world.log]
    assert [d.previous for d in decisions[1:]] == hashes[:-1]
    assert [d.partition_sequence for d in decisions] == list(range(len(decisions)))
    assert decisions[0].previous == "sha256:" + "0" * 64


def test_a_repeated_request_gets_its_first_decision_and_costs_nothing() -> None:
    world = opened(**BASIC)
    body = world.request("pure:0.6")
    first = world.send("requests", body)
    world.ask("pure:0.1")
    world.now += 1000
    again = world.send("requests", body)
    assert code(again) == "repeated"
    assert again.first is not None
    assert again.first.partition_sequence == first.partition_sequence
    assert (again.first.outcome, again.first.cost) == (first.outcome, first.cost)
    assert again.first.decided_at == first.decided_at
    assert first.granted
    assert not again.granted
    assert again.first.granted
    value = world.log[first.partition_sequence]
    assert again.first.hash == f"sha256:{hashlib.sha256(value).hexdigest()}"
    assert (again.cost, again.sequence, again.totals) == (None, None, None)
    assert world.ledger().mechanisms == 2


def test_a_repeated_refusal_stays_refused() -> None:
    world = opened(**BASIC)
    body = world.request("pure:5")
    assert code(world.send("requests", body)) == "exhausted"
    again = world.send("requests", body)
    assert again.first is not None
    assert (code(again), again.first.reason) == ("repeated", Reason.EXHAUSTED)
    assert not again.first.granted


def test_white_space_around_a_body_is_not_another_body() -> None:
    world = opened(**BASIC)
    body = world.request("pure:0.1")
    world.send("requests", body)
    assert code(world.send("requests", b" " + body + b"\t ")) == "repeated"


def test_an_id_repeated_with_another_body_conflicts_and_costs_nothing() -> None:
    world = opened(**BASIC)
    request_id = world.new_id()
    world.ask("pure:0.1", request_id=request_id)
    before = world.ledger()
    conflict = world.ask("pure:0.2", request_id=request_id)
    assert code(conflict) == "conflict"
    assert conflict.first is not None
    assert world.ledger() is before
    assert code(world.ask("pure:0.1", request_id=request_id)) == "repeated"


def test_another_analyst_or_dataset_may_use_the_same_id() -> None:
    world = opened(**BASIC)
    world.open("survey", **BASIC)
    request_id = world.new_id()
    codes = [
        code(world.ask(request_id=request_id, analyst=analyst, dataset=dataset))
        for analyst in ("ana", "bob")
        for dataset in ("census", "survey")
    ]
    assert codes == ["granted"] * 4


def test_an_owner_may_use_an_analysts_id() -> None:
    world = opened(**BASIC)
    request_id = world.new_id()
    assert code(world.ask(request_id=request_id, analyst="owner")) == "granted"
    body = world.admin("close", request_id=request_id)
    assert code(world.send("admin", body)) == "closed"
    assert code(world.send("admin", body)) == "repeated"


def test_an_id_expires_when_its_window_is_over() -> None:
    world = opened(**BASIC)
    body = world.request("pure:0.1")
    issued = world.now
    assert code(world.send("requests", body)) == "granted"
    world.now = issued + WINDOW - 1
    assert code(world.send("requests", body)) == "repeated"
    world.now = issued + WINDOW
    late = world.send("requests", body)
    assert (code(late), late.cost) == ("expired", None)
    assert world.ledger().mechanisms == 1


@pytest.mark.parametrize(("ahead", "expected"), [(SKEW, "granted"), (SKEW + 1, "issued_in_future")])
def test_an_id_from_the_future_is_refused_beyond_the_skew(ahead: int, expected: str) -> None:
    world = opened(**BASIC)
    request_id = world.new_id(world.now + ahead)
    assert code(world.ask(request_id=request_id)) == expected


def test_a_request_refused_as_issued_in_future_is_granted_when_sent_later() -> None:
    world = opened(**BASIC)
    body = world.request(request_id=world.new_id(world.now + SKEW + 60_000))
    assert code(world.send("requests", body)) == "issued_in_future"
    world.now += 60_000
    assert code(world.send("requests", body)) == "granted"


def test_the_clock_never_goes_back_and_never_far_ahead_of_the_machine() -> None:
    world = opened(**BASIC)
    world.now += 1000
    at = world.ask().decided_at
    world.now -= 900
    assert world.ask().decided_at == at
    far = world.send("requests", world.request(), append_time=world.now + 10 * SKEW)
    assert far.decided_at == "2026-11-21T10:05:00.100Z"


def test_the_floor_never_falls_and_moves_only_with_requests() -> None:
    world = opened(**BASIC)
    world.now += 2 * WINDOW
    assert world.amend(horizon="P1D").floor == world.decisions[0].floor
    moved = world.ask().floor
    world.now -= WINDOW
    assert world.ask().floor == moved
    world.send("requests", b"not json")
    assert world.decisions[-1].floor == moved


def test_a_dataset_of_another_partition_is_refused_before_its_id_is_checked() -> None:
    home = partition_of(b"census", 4)
    world = World(partitions=4, partition=(home + 1) % 4)
    late = world.new_id(world.now - 2 * WINDOW)
    decision = world.ask(request_id=late)
    assert (decision.outcome, code(decision)) == (Outcome.INVALID, "wrong_partition")
    rule = f"belongs to partition {home} of 4, not {(home + 1) % 4}"
    assert decision.error == FieldError("dataset", rule, "census")
    assert code(world.open(**BASIC)) == "wrong_partition"
    assert world.state.ledgers == {}


def test_a_dataset_belongs_to_the_partition_of_its_group_where_the_genesis_says_so() -> None:
    home = partition_of(b"survey", 4)
    here = World(partitions=4, partition=home, placement="group")
    names = [f"survey::{i}" for i in range(8)]
    assert {code(here.open(name, **BASIC)) for name in ["survey", *names]} == {"opened"}
    other = (home + 1) % 4
    elsewhere = World(partitions=4, partition=other, placement="group")
    decision = elsewhere.open(names[0], **BASIC)
    rule = f"belongs to partition {home} of 4, not {other}: the record's key must be survey"
    assert code(decision) == "wrong_partition"
    assert decision.error == FieldError("dataset", rule, names[0])


def test_expiry_is_checked_after_the_fields_and_before_the_dataset() -> None:
    world = World()
    late = world.new_id(world.now - 2 * WINDOW)
    assert code(world.ask({"type": "pure", "epsilon": "-1"}, request_id=late)) == "invalid_field"
    assert code(world.ask(request_id=late)) == "expired"
    early = world.new_id(world.now + 2 * SKEW)
    assert code(world.ask(request_id=early)) == "issued_in_future"
    body = world.request()
    assert code(world.send("requests", body)) == "unknown_dataset"
    assert code(world.send("requests", body)) == "repeated"
    assert code(world.send("requests", body.replace(b'"ana"', b'"bob"'))) == "unknown_dataset"
    assert code(world.amend(horizon="P1D")) == "unknown_dataset"
    assert world.state.ledgers == {}


def test_an_internal_error_charges_nothing_and_later_requests_are_decided() -> None:
    world = opened(**BASIC)
    before = world.ledger()
    record = Input("requests", world.draft.next["requests"], b"census", world.request(), world.now)
    decision = world.took(decide_internal_error(world.draft, record, world.now))
    assert (decision.outcome, code(decision)) == (Outcome.INVALID, "internal_error")
    assert bytes(decision.request) == b""
    assert world.ledger() is before
    assert code(world.ask()) == "granted"
    assert state_rows(world.replayed()) == world.rows()


def test_a_draft_that_is_dropped_leaves_no_trace() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.1")
    before = world.rows()
    body = world.request("pure:0.5")
    world.batch = 100
    log = list(world.log)
    for claim in ("pure:0.2", "pure:0.3", "zcdp:1"):
        world.ask(claim)
    world.send("requests", body)
    world.send("requests", b"{")
    world.open("survey", **BASIC)
    world.draft = Draft(world.state)
    world.log = log
    assert state_rows(world.state) == before
    assert code(world.send("requests", body)) == "granted"
    assert state_rows(world.replayed()) == world.rows()


def test_the_log_has_the_purpose_as_it_was_sent() -> None:
    world = opened(**BASIC)
    decision = world.ask(purpose="weekly: retention")
    assert code(decision) == "granted"
    assert json.loads(bytes(decision.request))["purpose"] == "weekly: retention"
    assert world.now == START


def test_a_body_that_was_checked_before_is_decided_to_the_same_bytes() -> None:
    def decided(*, checked: bool) -> list[bytes]:
        world = opened(**BASIC)
        bodies = [world.request("pure:0.1"), world.request("pure:5"), world.request(unit="house")]
        for raw in [*bodies, bodies[0]]:
            body = canonical(raw)
            known = check("requests", body) if checked else None
            offset = world.draft.next["requests"]
            record = Input("requests", offset, b"key", body, world.now, known)
            world.took(decide(world.draft, record, world.now))
        return world.log

    assert decided(checked=True) == decided(checked=False)
