"""A pause of a person or a team stops requests and begins; docs/decisions/0110."""

from __future__ import annotations

import json

import msgspec
import pytest

from accountant.advice.preview import preview
from accountant.claims.text import parse_claim
from accountant.records import Decision, encode
from accountant.records.outcomes import Outcome, Reason
from accountant.records.person_pauses import MAX_PAUSES, PersonPause
from accountant.records.previews import PreviewRequest
from accountant.replay.audit import audit
from accountant.replay.check_rows import RowContradictsLog
from accountant.views.datasets import view_of_ledger
from tests.accountant.replay.test_audit import rechained
from tests.accountant.replay.test_replay import from_rows
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import World, code

ANYONE = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "access": "anyone"}
MEMBERS = {**ANYONE, "access": "members"}
WHY = "left the project"


def pause(world: World, kind: str = "pause_member", **fields: object) -> Decision:
    reason = {"reason": WHY} if kind == "pause_member" else {}
    return world.send("admin", world.admin(kind, **{**reason, **fields}))


def resume(world: World, **fields: object) -> Decision:
    return pause(world, "resume_member", **fields)


def staffed(batch: int = 1) -> Scene:
    """Return a dataset for members: ana and ben in team red, the engine eng, the curator cur."""
    scene = Scene(**MEMBERS)
    for name in ("ana", "ben"):
        scene.member(name, "analyst", team="red")
    scene.member("eng", "engine")
    scene.batch = batch
    return scene


@pytest.mark.parametrize("batch", [1, 100])
def test_a_paused_person_does_not_ask_until_they_are_resumed(batch: int) -> None:
    scene = staffed(batch)
    assert code(scene.ask()) == "granted"
    paused = pause(scene, member="ana")
    assert (code(paused), paused.pause) == ("member_paused", scene.ledger().facts.person_pauses[0])
    refused = scene.ask()
    assert (refused.outcome, refused.reason) == (Outcome.REFUSED, Reason.PERSON_PAUSED)
    assert refused.pause == paused.pause
    assert (refused.cost, refused.asked, refused.fits) == (None, None, None)
    assert paused.pause == PersonPause(
        member="ana", by="owner", reason=WHY, since=paused.decided_at
    )
    assert code(scene.ask(analyst="ben")) == "granted"
    resumed = resume(scene, member="ana")
    assert (code(resumed), resumed.pause) == ("member_resumed", paused.pause)
    assert code(scene.ask()) == "granted"
    scene.commit()
    assert audit(scene.log).ok


def test_a_paused_person_does_not_reserve_or_begin_but_settles_and_voids() -> None:
    scene = staffed()
    scene.do("reserve", "begin")
    begun = scene.grant
    scene.do("reserve")
    unbegun = scene.grant
    pause(scene, member="ana")
    assert code(scene.reserve()) == "person_paused"
    refused = scene.begin(grant=unbegun)
    assert (code(refused), refused.pause and refused.pause.reason) == ("person_paused", WHY)
    assert code(scene.settle(grant=begun, shown="40")) == "settled"
    assert code(scene.void(grant=unbegun)) == "voided"
    scene.do("reserve")
    assert audit(scene.log).ok


def test_a_begin_that_was_refused_goes_through_after_the_pause() -> None:
    scene = staffed()
    scene.do("reserve")
    pause(scene, team="red")
    assert code(scene.begin()) == "person_paused"
    resume(scene, team="red")
    assert code(scene.begin()) == "begun"
    assert audit(scene.log).ok


def test_a_repeat_during_a_pause_gets_its_first_decision() -> None:
    scene = staffed()
    body = scene.request("pure:0.1")
    scene.send("requests", body)
    pause(scene, member="ana")
    repeat = scene.send("requests", body)
    assert repeat.first is not None
    assert (repeat.outcome, repeat.first.granted) == (Outcome.REPEATED, True)


def test_a_teams_pause_is_for_whoever_is_in_the_team_when_they_ask() -> None:
    scene = staffed()
    paused = pause(scene, team="red")
    assert scene.ask().pause == paused.pause
    scene.member("ana", "analyst", team="blue")
    assert code(scene.ask()) == "granted"
    scene.member("cleo", "analyst", team="red")
    assert code(scene.ask(analyst="cleo")) == "person_paused"
    # Each pause is ended by itself.
    pause(scene, member="ben")
    assert code(resume(scene, team="red")) == "member_resumed"
    assert code(scene.ask(analyst="cleo")) == "granted"
    assert code(scene.ask(analyst="ben")) == "person_paused"
    assert audit(scene.log).ok


def test_the_end_of_a_membership_does_not_lift_a_teams_pause() -> None:
    scene = Scene(**ANYONE)
    scene.member("ana", "analyst", team="red", until=scene.until(1_000))
    pause(scene, team="red")
    scene.tick(5_000)
    assert code(scene.ask()) == "person_paused"
    assert audit(scene.log).ok


def test_neither_a_new_membership_nor_a_removal_lifts_a_pause() -> None:
    scene = Scene(**ANYONE)
    scene.member("ana", "analyst", team="red")
    pause(scene, member="ana")
    for roles, team in ((("analyst",), {"team": "blue"}), (("analyst", "engine"), {}), ((), {})):
        scene.member("ana", *roles, **team)
        assert code(scene.ask()) == "person_paused"
    scene.member("ana", "analyst")
    assert code(scene.ask()) == "person_paused"
    assert scene.rows() == [*scene.rows()]
    assert audit(scene.log).ok


def test_somebody_who_is_no_member_is_paused_where_everyone_may_ask() -> None:
    scene = Scene(**ANYONE)
    pause(scene, member="guest")
    assert code(scene.ask(analyst="guest")) == "person_paused"
    assert code(scene.ask()) == "granted"


def test_the_engine_that_asks_may_not_be_paused_either() -> None:
    scene = staffed()
    pause(scene, member="eng")
    refused = scene.ask(via="eng")
    assert (code(refused), refused.pause and refused.pause.member) == ("person_paused", "eng")
    assert code(scene.ask()) == "granted"
    pause(scene, member="ana")
    resume(scene, member="eng")
    assert code(scene.ask(via="eng")) == "person_paused"
    assert code(scene.ask(via="eng", analyst="ben")) == "granted"


def test_an_owner_who_is_paused_still_decides() -> None:
    scene = Scene(**ANYONE)
    pause(scene, member="owner")
    assert code(scene.ask(analyst="owner")) == "person_paused"
    assert code(scene.amend(alert_at=["0.7"])) == "amended"
    assert code(resume(scene, member="owner")) == "member_resumed"


def test_what_is_not_permitted_comes_first_and_the_dataset_before_the_person() -> None:
    scene = staffed()
    pause(scene, member="eve")
    pause(scene, member="ana")
    assert code(scene.ask(analyst="eve")) == "not_permitted"
    scene.pause()
    assert code(scene.ask()) == "paused"
    scene.owners("resume")
    assert code(scene.ask("pure:5")) == code(scene.ask(unit="household")) == "person_paused"
    scene.close()
    assert code(scene.ask()) == "closed"
    assert code(resume(scene, member="ana")) == "closed"
    assert len(scene.ledger().facts.person_pauses) == 2


@pytest.mark.parametrize("name", ["ana", "eng", "eve"])
def test_only_owners_pause_and_resume(name: str) -> None:
    scene = staffed()
    assert code(pause(scene, member="ben", by=name)) == "not_permitted"
    pause(scene, member="ana")
    assert code(resume(scene, member="ana", by=name)) == "not_permitted"


def test_an_administrator_pauses_and_an_audit_says_so() -> None:
    scene = staffed()
    helps = {"by": "root", "as": "administrator"}
    paused = pause(scene, team="red", **helps)
    assert (paused.administrator, paused.pause and paused.pause.administrator) == (True, True)
    resumed = resume(scene, team="red")
    assert (resumed.administrator, resumed.pause) == (False, paused.pause)
    (found,) = audit(scene.log).administered_pauses
    assert (found.by, found.paused, found.team, found.reason) == ("root", True, "red", WHY)


def test_a_record_that_changes_nothing_is_refused() -> None:
    scene = staffed()
    assert code(resume(scene, member="ana")) == "person_not_paused"
    assert code(pause(scene, member="ana")) == "member_paused"
    assert code(pause(scene, member="ana", reason="another")) == "person_already_paused"
    # A team of that name is another pause, and a member of a paused team is not paused by name.
    assert code(pause(scene, team="ana")) == "member_paused"
    assert code(resume(scene, member="ben")) == "person_not_paused"
    assert code(pause(scene, member="ben", follows=1)) == "out_of_date"


def test_a_dataset_has_at_most_a_hundred_pauses() -> None:
    scene = Scene(**ANYONE)
    scene.batch = 1_000
    for number in range(MAX_PAUSES):
        assert code(pause(scene, member=f"guest-{number}")) == "member_paused"
    assert code(pause(scene, member="ana")) == "too_many_paused"
    assert code(pause(scene, member="guest-0")) == "person_already_paused"
    resume(scene, member="guest-0")
    assert code(pause(scene, member="ana")) == "member_paused"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"reason": WHY}, "member"),
        ({"member": "ana", "team": "red", "reason": WHY}, "member"),
        ({"member": "ana", "reason": ""}, "reason"),
        ({"member": "ana", "reason": "x" * 201}, "reason"),
        ({"team": "a b", "reason": WHY}, "team"),
    ],
)
def test_a_pause_names_one_person_or_one_team_and_says_why(
    fields: dict[str, object], wrong: str
) -> None:
    found = pause(staffed(), **fields)
    assert found.error is not None
    assert (found.outcome, found.error.field) == (Outcome.INVALID, wrong)


@pytest.mark.parametrize("batch", [1, 100])
def test_a_pause_survives_a_restart_from_the_rows_and_from_the_log(batch: int) -> None:
    scene = staffed(batch)
    pause(scene, member="ana")
    pause(scene, team="blue")
    resume(scene, team="blue")
    rows, due = scene.rows(), scene.ledger().facts.person_pauses
    assert len(due) == 1
    for state in (scene.replayed(), from_rows(scene, rows=rows)):
        assert state.ledgers["census"].facts.person_pauses == due
    scene.state = from_rows(scene, rows=rows)
    scene.commit()
    assert code(scene.ask()) == "person_paused"
    resume(scene, member="ana")
    assert b"person_pauses" not in dict(scene.rows())[b"census"]


@pytest.mark.parametrize("kind", ["pause", "refusal"])
def test_a_row_without_a_pause_of_the_log_stops_the_start(kind: str) -> None:
    scene = staffed()
    pause(scene, member="ana")
    if kind == "refusal":
        scene.ask()
    ledger = scene.state.ledgers["census"]
    facts = msgspec.structs.replace(ledger.facts, person_pauses=())
    scene.state.checksum.forget("census")
    scene.state.ledgers["census"] = msgspec.structs.replace(ledger, facts=facts)
    scene.draft = type(scene.draft)(scene.state)
    with pytest.raises(RowContradictsLog, match="person_pauses"):
        from_rows(scene)


def test_the_audit_finds_a_second_pause_and_a_grant_within_one() -> None:
    for forged in ("member_paused", "granted"):
        world, other = Scene(**ANYONE), Scene(**ANYONE)
        pause(world, member="ana")
        value = other.ask("pure:0.1") if forged == "granted" else pause(other, member="ana")
        assert value.source is not None
        source = msgspec.structs.replace(value.source, offset=2 if forged != "granted" else 0)
        third = encode(msgspec.structs.replace(value, sequence=3, source=source))
        found = audit(rechained([*world.log, third], 3)).first_disagreement
        assert found is not None
        assert found.partition_sequence == 3


def test_a_request_over_several_datasets_and_its_begin_need_no_pause_in_any() -> None:
    scene = Scene(**ANYONE)
    scene.open("survey", **ANYONE)
    scene.reserve({"type": "pure", "epsilon": "0.1"}, other_datasets=["survey"])
    pause(scene, dataset="survey", member="ana")
    for refused in (scene.begin(), scene.ask("pure:0.1", other_datasets=["survey"])):
        assert (code(refused), refused.refused_by) == ("person_paused", "survey")
        assert [each.pause is None for each in refused.parts] == [True, False]
    assert code(scene.ask()) == "granted"
    assert code(scene.void()) == "voided"
    assert audit(scene.log).ok


def test_a_preview_says_who_is_paused() -> None:
    scene = Scene(**ANYONE)
    paused = pause(scene, member="ana")
    view = view_of_ledger(scene.ledger())
    assert view.person_pauses == (paused.pause,)
    claim = parse_claim("pure:0.1")
    asks = PreviewRequest(claim, "person", "add_remove", "ana")
    found = preview(view, asks)
    assert (found.reason, found.pause) == (Reason.PERSON_PAUSED, paused.pause)
    assert preview(view, msgspec.structs.replace(asks, analyst="ben")).granted


def test_a_record_of_a_pause_is_in_the_log_as_it_was_sent() -> None:
    scene = Scene(**ANYONE)
    pause(scene, member="ana")
    said = json.loads(scene.log[-1])
    assert said["pause"] == {
        "member": "ana",
        "by": "owner",
        "reason": WHY,
        "since": said["decided_at"],
    }
    assert said["request"]["type"] == "pause_member"
