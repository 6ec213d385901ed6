"""A pause stops grants and nothing else, until a resume; docs/decisions/0065."""

from __future__ import annotations

import hashlib
import json

import msgspec
import pytest

from accountant.advice.preview import preview
from accountant.claims.text import parse_claim
from accountant.records import Decision, Snapshot, decode_snapshot, encode
from accountant.records.http_bodies import served_decision
from accountant.records.outcomes import Outcome, Reason, paused_by
from accountant.records.previews import PreviewRequest
from accountant.replay.audit import audit
from accountant.replay.check_rows import RowContradictsLog
from accountant.views.datasets import view_of_ledger
from tests.accountant.replay.test_audit import rechained
from tests.accountant.replay.test_replay import from_rows
from tests.accountant.world import World, code, opened
from tests.every_case import check_rows

BASIC = {"filter": "basic", "epsilon": "1", "odometers": [{"type": "basic"}]}


def brake(world: World, kind: str = "pause", **fields: object) -> Decision:
    return world.send("admin", world.admin(kind, **fields))


def member(world: World, name: str, *roles: str, **fields: object) -> Decision:
    return world.send("admin", world.admin("member", member=name, roles=roles, **fields))


def row_of(world: World, dataset: str = "census") -> Snapshot:
    return decode_snapshot(dict(world.rows())[dataset.encode()])


def batched(batch: int, **policy: object) -> World:
    world = World(batch=batch)
    world.open(**(policy or BASIC))
    return world


@pytest.mark.parametrize("batch", [1, 100])
def test_nothing_is_granted_from_a_pause_to_its_resume(batch: int) -> None:
    world = batched(batch)
    assert code(world.ask("pure:0.1")) == "granted"
    world.commit()  # of 100, the pause and the requests after it are one batch
    assert code(brake(world)) == "paused"
    refused = world.ask("pure:0.1")
    assert (refused.outcome, refused.reason) == (Outcome.REFUSED, Reason.PAUSED)
    assert (refused.cost, refused.asked, refused.fits) == (None, None, None)
    assert code(world.ask("pure:5")) == "paused"
    assert code(brake(world, "resume")) == "resumed"
    granted = world.ask("pure:0.1")
    assert code(granted) == "granted"
    assert granted.totals is not None
    assert granted.totals["epsilon"] == "0.2"
    assert audit(world.log).ok


@pytest.mark.parametrize("batch", [1, 100])
def test_a_repeat_during_a_pause_gets_its_first_decision(batch: int) -> None:
    world = batched(batch)
    body = world.request("pure:0.1")
    first = world.send("requests", body)
    brake(world)
    repeat = world.send("requests", body)
    assert (repeat.outcome, repeat.reason) == (Outcome.REPEATED, None)
    assert repeat.first is not None
    assert repeat.first.granted
    assert repeat.first.partition_sequence == first.partition_sequence
    assert code(world.send("requests", body[:-1] + b',"purpose":"x"}')) == "conflict"
    # What was refused during a pause stays refused under its id: a retry needs a new one.
    late = world.request("pure:0.1")
    assert code(world.send("requests", late)) == "paused"
    brake(world, "resume")
    again = world.send("requests", late)
    assert again.first is not None
    assert (again.outcome, again.first.reason) == (Outcome.REPEATED, Reason.PAUSED)


def test_members_limits_amendments_and_closing_are_decided_as_before() -> None:
    world = opened(**BASIC)
    brake(world)
    assert code(world.amend(alert_at=["0.7"])) == "amended"
    assert code(world.amend(policy={**BASIC, "epsilon": "0.5"})) == "amended"
    assert code(member(world, "ana", "analyst", team="red")) == "member_set"
    limit = world.admin("limit", scope="team", name="red", part="0.5")
    assert code(world.send("admin", limit)) == "limit_set"
    assert code(member(world, "ana")) == "member_removed"
    assert code(world.ask()) == "paused"
    assert world.ledger().facts.paused
    assert row_of(world).paused is True
    assert code(world.close()) == "closed"
    assert audit(world.log).ok


def test_closing_ends_a_pause() -> None:
    world = opened(**BASIC)
    brake(world)
    world.close()
    assert not world.ledger().facts.paused
    assert b'"paused"' not in dict(world.rows())[b"census"]
    assert code(world.ask()) == "closed"
    assert code(brake(world)) == code(brake(world, "resume")) == "closed"
    assert audit(world.log).ok


def test_paused_comes_after_closed_and_before_every_other_refusal() -> None:
    world = opened(**BASIC, halt_on_refusal=True, access="members", most_per_request="0.5")
    member(world, "ana", "analyst")
    assert code(world.ask("pure:0.4")) == "granted"
    assert code(world.ask("pure:0.45")) == "granted"
    assert code(world.ask("pure:0.4")) == "exhausted"
    assert code(world.ask("pure:0.4")) == "halted"
    brake(world)
    for claim, fields in (
        *(("pure:0.01", {}), ("pure:5", {}), ("zcdp:1", {})),
        ("pure:0.01", {"unit": "household"}),
    ):
        assert code(world.ask(claim, **fields)) == "paused"
    assert code(world.ask(analyst="eve")) == "not_permitted"
    brake(world, "resume")
    assert code(world.ask()) == "halted"


def test_a_pause_of_what_is_paused_and_a_resume_of_what_is_not_are_refused() -> None:
    world = opened(**BASIC)
    assert code(brake(world, "resume")) == "not_paused"
    assert code(brake(world)) == "paused"
    assert code(brake(world)) == "already_paused"
    assert code(world.ask()) == "paused"
    assert code(brake(world, "resume")) == "resumed"
    assert code(brake(world, "resume")) == "not_paused"
    assert code(world.ask()) == "granted"
    assert audit(world.log).ok


def test_a_pause_and_a_resume_follow_the_decision_that_they_name() -> None:
    world = opened(**BASIC)
    assert code(brake(world, follows=7)) == "out_of_date"
    assert code(brake(world, follows=world.ledger().sequence)) == "paused"
    # What is out of date comes first: the sender does not know that the dataset is paused.
    assert code(brake(world, follows=1)) == "out_of_date"
    assert code(brake(world, "resume", follows=1)) == "out_of_date"
    assert code(brake(world, "resume", follows=world.ledger().sequence)) == "resumed"


@pytest.mark.parametrize("role", ["analyst", "auditor", "engine"])
def test_no_other_role_pauses_or_resumes(role: str) -> None:
    world = opened(**BASIC)
    member(world, "ana", role)
    assert code(brake(world, by="ana")) == code(brake(world, by="eve")) == "not_permitted"
    brake(world)
    assert code(brake(world, "resume", by="ana")) == "not_permitted"
    assert code(brake(world, "resume", by="eve")) == "not_permitted"
    assert code(world.ask()) == "paused"


def test_an_administrator_pauses_and_resumes_and_the_log_says_so() -> None:
    world = opened(**BASIC)
    helps = {"by": "admin", "as": "administrator"}
    paused = brake(world, reason="a loop", **helps)
    assert (code(paused), paused.administrator) == ("paused", True)
    refused = brake(world, **helps)
    assert (code(refused), refused.administrator) == ("already_paused", False)
    assert code(brake(world, "resume", by="admin")) == "not_permitted"
    resumed = brake(world, "resume", **helps)
    assert (code(resumed), resumed.administrator) == ("resumed", True)
    assert not brake(world).administrator
    report = audit(world.log)
    assert report.ok
    assert [(each.by, each.paused, each.reason) for each in report.administered_pauses] == [
        *(("admin", True, "a loop"), ("admin", False, "")),
    ]
    assert not report.administered
    assert msgspec.json.decode(encode(report), type=type(report)) == report


@pytest.mark.parametrize("batch", [1, 100])
def test_a_pause_survives_a_restart_from_the_rows_and_from_the_log(batch: int) -> None:
    world = batched(batch)
    world.ask("pure:0.1")
    brake(world)
    rows = world.rows()
    for state in (world.replayed(), from_rows(world)):
        assert state.ledgers["census"].facts.paused
    world.now += 4 * 3_600_000  # no later decision repeats it, and none is read
    assert from_rows(world, rows=rows).ledgers["census"].facts.paused
    world.state = from_rows(world, rows=rows)
    world.commit()
    assert code(world.ask()) == "paused"


def test_a_row_says_that_it_is_paused_only_while_it_is() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.1")
    before = dict(world.rows())[b"census"]
    assert b"paused" not in before
    brake(world)
    paused = dict(world.rows())[b"census"]
    assert paused.endswith(b',"paused":true}')
    brake(world, "resume")
    resumed = json.loads(dict(world.rows())[b"census"])
    assert resumed == {
        **json.loads(before),
        **{name: resumed[name] for name in ("sequence", "changed_at")},
    }


def test_the_rows_and_checksums_of_datasets_that_were_never_paused_have_not_changed() -> None:
    # The numbers are those of the version before records of pauses existed.
    world = World()
    world.open("census", filter="basic", epsilon="1", population="city")
    world.open("survey", filter="zcdp", rho="1")
    world.ask("pure:0.1")
    world.ask("pure:5")
    member(world, "ana", "analyst", team="red")
    world.send("admin", world.admin("limit", scope="team", name="red", part="0.5"))
    world.ask("pure:0.1")
    world.close("census")
    rows = world.rows()
    assert world.state.row().checksum == "00000002c5f7ecbe"
    assert world.state.head == (
        "sha256:fdb74da0d1f9601604c788a7790f5f8d7e1d250ebdcd04969807747218ac15b8"
    )
    assert hashlib.sha256(b"".join(key + value for key, value in rows)).hexdigest() == (
        "2cbec9b32de675a708a0e82d68421e0fc8c5bc640272d58e5fd292a1f6659fbc"
    )


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_row_that_contradicts_the_log_about_a_pause_stops_the_start(is_paused: bool) -> None:
    world = opened(**BASIC)
    brake(world)
    if not is_paused:
        brake(world, "resume")
    rows = dict(world.rows())
    row = json.loads(rows[b"census"])
    forged = {name: value for name, value in row.items() if name != "paused"}
    if not is_paused:
        forged["paused"] = True
    value = encode(msgspec.json.decode(json.dumps(forged), type=Snapshot))
    world.state.checksum.forget("census")
    rows[b"census"] = value
    ledger = world.state.ledgers["census"]
    facts = msgspec.structs.replace(ledger.facts, paused=not is_paused)
    world.state.ledgers["census"] = msgspec.structs.replace(ledger, facts=facts)
    world.draft = type(world.draft)(world.state)
    with pytest.raises(RowContradictsLog, match="paused"):
        from_rows(world)


@pytest.mark.parametrize("forged", ["granted", "paused"])
def test_the_audit_finds_a_grant_within_a_pause_and_a_second_pause(forged: str) -> None:
    world, other = opened(**BASIC), opened(**BASIC)
    brake(world)
    if forged == "granted":
        value, offset = other.ask("pure:0.1"), 0
    else:
        value, offset = brake(other), 2
    assert value.source is not None
    source = msgspec.structs.replace(value.source, offset=offset)
    third = encode(msgspec.structs.replace(value, sequence=3, source=source))
    found = audit(rechained([*world.log, third], 3)).first_disagreement
    assert found is not None
    assert (found.partition_sequence, found.what, found.found) == (3, "outcome", forged)


def test_a_view_shows_a_pause_until_the_dataset_is_resumed() -> None:
    world = opened(**BASIC)
    brake(world)
    world.ask()
    view = view_of_ledger(world.ledger())
    assert (view.state, view.paused) == ("paused", True)
    brake(world, "resume")
    view = view_of_ledger(world.ledger())
    assert (view.state, view.paused) == ("open", False)


def test_a_preview_says_that_the_dataset_is_paused() -> None:
    world = opened(**BASIC)
    brake(world)
    claim = parse_claim("pure:0.1")
    found = preview(view_of_ledger(world.ledger()), PreviewRequest(claim, "person", "add_remove"))
    assert (found.granted, found.reason) == (False, Reason.PAUSED)


def test_a_served_refusal_is_no_grant() -> None:
    world = opened(**BASIC)
    brake(world)
    world.ask()
    served = json.loads(served_decision(world.log[-1]))
    assert (served["granted"], served["reason"]) == (False, "paused")


def test_what_a_decision_says_of_a_pause() -> None:
    def check_case(outcome: Outcome, reason: Reason | None, paused: bool | None) -> None:
        assert paused_by(outcome, reason) is paused

    check_rows(
        check_case,
        [
            (Outcome.PAUSED, None, True),
            (Outcome.RESUMED, None, False),
            (Outcome.CLOSED, None, False),
            (Outcome.GRANTED, None, False),
            (Outcome.MEMBER_SET, None, None),
            (Outcome.AMENDED, None, None),
            (Outcome.REFUSED, Reason.PAUSED, True),
            (Outcome.REFUSED, Reason.ALREADY_PAUSED, True),
            (Outcome.REFUSED, Reason.NOT_PAUSED, False),
            (Outcome.REFUSED, Reason.EXHAUSTED, False),
            (Outcome.REFUSED, Reason.NOT_PERMITTED, None),
            (Outcome.REFUSED, Reason.OUT_OF_DATE, None),
        ],
    )
