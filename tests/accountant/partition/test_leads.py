"""Leads: which people they add and remove, and how far they limit them; docs/decisions/0111."""

from __future__ import annotations

from typing import Any

import pytest

from accountant.records import Decision
from accountant.records.members import ROLES
from tests.accountant.partition.circle import BASIC, CIRCLE, ask, enrol, member, opened, sound
from tests.accountant.partition.division import ask_for_outcome, divide, level_rows, limit
from tests.accountant.world import World, code
from tests.faults.oracle.texts import at_text

TEAM = "blue"
PEOPLE: dict[str, tuple[tuple[str, ...], str | None]] = {
    "lea": (("lead",), "blue"),
    "ana": (("analyst",), "blue"),
    "ben": (("analyst",), "blue"),
    "liz": (("analyst", "lead"), "blue"),
    "boss": (("owner",), "blue"),
    "both": (("analyst", "auditor"), "blue"),
    "cy": (("analyst",), "red"),
    "rod": (("lead",), "red"),
    "zoe": (("analyst",), None),
}


def staffed(policy: dict[str, Any] = CIRCLE, batch: int = 1) -> World:
    """Return a dataset with two teams and their leads."""
    world = opened(policy, batch=batch)
    for name, (roles, team) in PEOPLE.items():
        enrol(world, name, *roles, team=team)
    return world


def lead(world: World, name: str, *roles: str, **fields: object) -> str:
    """Return the outcome of a lead's record about a member of the team."""
    team = {"team": TEAM} if roles else {}
    return code(member(world, name, *roles, **{"by": "lea", **team, **fields}))


def portion(world: World, name: str, by: str = "lea", **fields: object) -> Decision:
    """Return the decision on a lead's record about an analyst's limit."""
    return limit(world, "analyst", name, by=by, **fields)


@pytest.mark.parametrize("batch", [1, 100])
def test_a_lead_adds_analysts_to_the_team_and_removes_them(batch: int) -> None:
    world = staffed(batch=batch)
    assert ask(world, analyst="new") == "not_permitted"
    assert lead(world, "new", "analyst") == "member_set"
    assert ask(world, analyst="new") == "granted"
    assert lead(world, "new") == "member_removed"
    assert ask(world, analyst="new") == "not_permitted"
    assert lead(world, "ana") == "member_removed"
    assert lead(world, "ben", "analyst", until=at_text(world.now + 5)) == "member_set"
    assert lead(world, "nobody") == "unknown_member"
    assert sound(world)


@pytest.mark.parametrize("name", [name for name in PEOPLE if name not in {"ana", "ben"}])
def test_a_lead_touches_nobody_but_those_who_are_analysts_of_the_team_alone(name: str) -> None:
    world = staffed()
    for roles in ((), ("analyst",)):
        assert lead(world, name, *roles) == "not_permitted"
    for fields in ({"part": "0.1"}, {}):
        assert code(portion(world, name, **fields)) == "not_permitted"
    assert sound(world)


@pytest.mark.parametrize("role", [role for role in ROLES if role != "analyst"])
def test_a_lead_gives_no_role_but_analyst(role: str) -> None:
    world = staffed()
    for name in ("new", "ana"):
        assert lead(world, name, role) == "not_permitted"
        assert lead(world, name, "analyst", role) == "not_permitted"


@pytest.mark.parametrize("team", ["red", "green", None])
def test_a_lead_gives_no_other_team(team: str | None) -> None:
    world = staffed()
    for name in ("new", "ana"):
        assert lead(world, name, "analyst", team=team) == "not_permitted"


def test_an_analyst_or_a_former_lead_does_not_lead() -> None:
    world = staffed()
    for by in ("ana", "rod", "zoe", "both", "stranger"):
        assert lead(world, "new", "analyst", by=by) == "not_permitted"
        assert code(portion(world, "ana", by=by, part="0.1")) == "not_permitted"
    enrol(world, "lea", "lead", team="red")  # of another team now
    assert lead(world, "ana") == "not_permitted"
    enrol(world, "lea", "lead", team="blue", until=at_text(world.now + 10))
    world.now += 9
    assert lead(world, "ana", "analyst") == "member_set"
    world.now += 1
    assert lead(world, "ana") == "not_permitted"
    assert code(portion(world, "ana", part="0.1")) == "not_permitted"
    enrol(world, "lea", "analyst", team="blue")
    assert lead(world, "ana") == "not_permitted"
    assert sound(world)


def test_a_lead_answers_no_ask() -> None:
    world = staffed()
    wants = {"wants": "access", "role": "analyst", "reason": "for table 4"}
    asked = world.send("admin", world.admin("more", by="new", **wants))
    assert code(asked) == "more_asked"
    assert lead(world, "new", "analyst", answers=asked.sequence) == "not_permitted"
    assert lead(world, "new", "analyst") == "member_set"  # the ask stays open for owners
    assert sound(world)


def test_a_lead_sends_no_other_record() -> None:
    world = staffed()
    sent: dict[str, dict[str, object]] = {
        "amend": {"horizon": "P3D"},
        "pause": {},
        "close": {},
        "pause_member": {"member": "ana", "reason": "why"},
        "resume_member": {"member": "ana"},
        "label": {"label": "ours"},
        "remark": {"decision": 1, "remark": "ours"},
        "limit": {"scope": "team", "name": "blue", "part": "0.5"},
    }
    for kind, fields in sent.items():
        assert code(world.send("admin", world.admin(kind, by="lea", **fields))) == "not_permitted"
    each = world.admin("limit", by="lea", scope="each", name="blue", part="0.1")
    assert code(world.send("admin", each)) == "not_permitted"
    whole = {"scope": "dataset", "pace": {"part": "0.1", "period": "P1D"}}
    assert code(world.send("admin", world.admin("limit", by="lea", **whole))) == "not_permitted"


def test_leads_of_two_teams_move_nobody_out_of_a_paused_team() -> None:
    world = staffed()
    pause = world.admin("pause_member", team=TEAM, reason="until the audit")
    assert code(world.send("admin", pause)) == "member_paused"
    assert lead(world, "ana") == "beyond_team"
    assert lead(world, "ana", "analyst", by="rod", team="red") == "not_permitted"
    assert lead(world, "ana", "analyst", until=at_text(world.now + 5)) == "member_set"
    world.now += 5
    assert lead(world, "ana", "analyst", by="rod", team="red") == "not_permitted"
    assert ask(world, analyst="ana") == "not_permitted"
    assert lead(world, "new", "analyst") == "member_set"
    assert ask(world, analyst="new") == "person_paused"
    assert code(member(world, "ana")) == "member_removed"  # an owner may
    world.send("admin", world.admin("resume_member", team=TEAM))
    assert lead(world, "ben") == "member_removed"
    assert sound(world)


@pytest.mark.parametrize("begun", ["waits", "reserved"])
def test_a_lead_adds_nobody_whose_request_of_another_team_is_open(begun: str) -> None:
    world = staffed({**CIRCLE, "approve_above": "0.1", "approve_within": "P2D"})
    enrol(world, "otto", "owner")
    reserve = {"reserve": {"until": "P1D"}} if begun == "reserved" else {}
    asked = world.ask("pure:0.3" if begun == "waits" else "pure:0.05", analyst="cy", **reserve)
    assert code(asked) == {"waits": "pending"}.get(begun, begun)
    assert lead(world, "cy", by="rod") == "member_removed"
    assert lead(world, "cy", "analyst") == "beyond_team"
    world.now += 2 * 86_400_000  # nothing is to be answered or to begin any more
    assert lead(world, "cy", "analyst") == "member_set"
    assert sound(world)


def test_a_lead_adds_a_former_member_once_their_request_is_answered() -> None:
    world = staffed({**CIRCLE, "approve_above": "0.1"})
    enrol(world, "otto", "owner")
    world.ask("pure:0.3", analyst="cy")
    pending = f"sha256:{world.encoded[-1].digest.hex()}"
    assert lead(world, "cy", by="rod") == "member_removed"
    assert lead(world, "cy", "analyst") == "beyond_team"
    denial = world.admin("deny", pending=pending, reason="too late")
    assert code(world.send("admin", denial)) == "denied"
    assert lead(world, "cy", "analyst") == "member_set"
    assert sound(world)


def test_where_everyone_may_ask_a_lead_neither_adds_nor_removes() -> None:
    world = staffed({**BASIC, "access": "anyone"})
    assert lead(world, "new", "analyst") == "not_permitted"
    assert lead(world, "ana") == "not_permitted"
    divide(world, "team", "blue", part="0.5")
    assert code(portion(world, "ana", part="0.2")) == "limit_set"


def test_a_lead_asks_only_as_an_analyst_too() -> None:
    world = staffed()
    assert ask(world, analyst="lea") == "not_permitted"
    assert ask(world, analyst="liz") == "granted"
    assert lead(world, "new", "analyst", by="liz") == "member_set"
    assert lead(world, "liz", by="liz") == "not_permitted"


def test_a_lead_needs_a_team() -> None:
    decision = member(opened(), "lea", "lead")
    assert decision.error is not None
    assert (decision.error.field, code(decision)) == ("team", "invalid_field")


def test_a_limit_of_a_lead_is_at_most_the_teams() -> None:
    world = staffed()
    assert code(portion(world, "ana", part="1")) == "limit_set"  # the team has no limit
    divide(world, "team", "blue", part="0.4", pace={"part": "0.1", "period": "P7D"})
    assert code(portion(world, "ana", part="0.41")) == "beyond_team"
    assert code(portion(world, "ana", part="0.4")) == "limit_set"
    assert code(portion(world, "ana", pace={"part": "0.11", "period": "P30D"})) == "beyond_team"
    assert code(portion(world, "ana", pace={"part": "0.1", "period": "P1D"})) == "limit_set"
    own = {"filter": "basic", "epsilon": "0.4"}
    assert code(portion(world, "ben", policy=own)) == "limit_set"
    assert code(portion(world, "ben", policy={**own, "epsilon": "0.5"})) == "beyond_team"
    assert code(portion(world, "ben", policy={"filter": "zcdp", "rho": "1e-9"})) == "beyond_team"
    assert code(portion(world, "ben")) == "limit_removed"
    assert code(portion(world, "ben")) == "unknown_limit"
    assert code(limit(world, "analyst", "ana", part="0.9")) == "limit_set"  # of an owner
    assert sound(world)


def test_a_limit_of_a_lead_keeps_the_pace_of_the_default() -> None:
    world = staffed()
    assert code(portion(world, "ben", part="0.2")) == "limit_set"  # before there is a pace
    divide(world, "each", "blue", part="0.1", pace={"part": "0.05", "period": "P7D"})
    for lifts in (
        {"part": "0.2"},
        {"pace": {"part": "0.06", "period": "P7D"}},
        {"pace": {"part": "0.05", "period": "P6D"}},
        {"part": "0.1", "pace": {"part": "0.01", "period": "P1D"}},
    ):
        assert code(portion(world, "ana", **lifts)) == "beyond_team", lifts
    pace = {"part": "0.05", "period": "P30D"}
    assert code(portion(world, "ana", part="0.3", pace=pace)) == "limit_set"
    assert code(portion(world, "ana")) == "limit_removed"
    assert code(limit(world, "analyst", "ana", part="0.9")) == "limit_set"  # of an owner
    divide(world, "each", "blue", part="0.1")
    assert code(portion(world, "ana", part="0.3")) == "limit_set"
    assert sound(world)


def test_a_lead_moves_share_within_the_teams() -> None:
    world = staffed()
    assert code(portion(world, "ana", reserved="0.1")) == "beyond_team"
    divide(world, "team", "blue", part="0.9")
    assert code(portion(world, "ana", reserved="0.1")) == "beyond_team"
    divide(world, "team", "blue", reserved="0.4")
    assert code(portion(world, "ana", reserved="0.3")) == "limit_set"
    assert code(portion(world, "ben", reserved="0.2")) == "beyond_team"
    assert code(portion(world, "ana", reserved="0.2")) == "limit_set"
    assert code(portion(world, "ben", reserved="0.2")) == "limit_set"
    assert ask_for_outcome(world, "cy", "0.61") == "dataset reserved"
    assert ask_for_outcome(world, "cy", "0.6") == "granted"
    assert sound(world)


def test_a_share_that_is_used_up_is_not_given_once_more() -> None:
    world = staffed()
    divide(world, "team", "blue", reserved="0.4")
    assert code(portion(world, "ana", reserved="0.4")) == "limit_set"
    assert ask_for_outcome(world, "ana", "0.4") == "granted"
    assert code(portion(world, "ana")) == "limit_removed"
    for name in ("ana", "ben"):
        assert code(portion(world, name, reserved="0.4")) == "beyond_team"
    assert ask_for_outcome(world, "cy", "0.6") == "granted"
    assert sound(world)


def test_a_share_of_a_lead_ends_no_later_than_the_teams() -> None:
    world = staffed()
    end = at_text(world.now + 1_000)
    divide(world, "team", "blue", reserved="0.4", until=end)
    for until in (None, at_text(world.now + 1_001)):
        assert code(portion(world, "ana", reserved="0.4", until=until)) == "beyond_team"
    assert code(portion(world, "ana", reserved="0.4", until=end)) == "limit_set"
    world.now += 1_000
    assert ask_for_outcome(world, "cy", "0.9") == "granted"
    assert code(portion(world, "ana", reserved="0.01")) == "beyond_team"
    assert sound(world)


def test_a_lead_takes_no_share_from_another_team() -> None:
    world = staffed()
    divide(world, "team", "red", reserved="0.3")
    divide(world, "team", "blue", reserved="0.3")
    divide(world, "analyst", "cy", reserved="0.3")
    divide(world, "analyst", "zoe", reserved="0.1")
    for name in ("cy", "zoe"):
        assert code(member(world, name)) == "member_removed"
        # A name that is no member any more would bring a share that is not the team's.
        assert lead(world, name, "analyst") == "beyond_team"
        enrol(world, name, "analyst", team="blue")
        before = level_rows(world)
        for fields in ({}, {"part": "0.1"}, {"reserved": "0.1"}):
            assert code(portion(world, name, **fields)) == "beyond_team"
        assert level_rows(world) == before
    assert sound(world)
