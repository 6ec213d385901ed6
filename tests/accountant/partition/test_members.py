"""The edges of membership: to the millisecond, to the last owner, to the last of 10,000."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.partition.draft import Draft
from accountant.records import Decision
from accountant.replay.audit import audit
from accountant.replay.refold import state_rows
from tests.accountant.partition.members_model import ROLES, text_of
from tests.accountant.world import World, code
from tests.faults import oracle
from tests.faults.oracle import Contents, Given
from tests.faults.oracle.texts import millis

MOST = 10_000
BASIC: dict[str, Any] = {"filter": "basic", "epsilon": "1"}
CIRCLE = {**BASIC, "access": "members"}


def opened(policy: dict[str, Any] = CIRCLE, *owners: str, rules: int = 4, batch: int = 1) -> World:
    """Return a world with `census` open, by `owner` unless others are named."""
    world = World(rules=rules, batch=batch)
    more = {"owners": owners} if owners else {}
    decision = world.send("admin", world.admin("open", policy=policy, **more))
    assert code(decision) == "opened"
    return world


def member(world: World, name: str, *roles: str, **fields: object) -> Decision:
    return world.send("admin", world.admin("member", member=name, roles=roles, **fields))


def enrol(world: World, name: str, *roles: str, **fields: object) -> None:
    assert code(member(world, name, *roles, **fields)) == "member_set"


def ask(world: World, **fields: object) -> str:
    return code(world.ask("pure:0.001", **fields))


def told(decision: Decision, world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.log[decision.partition_sequence])
    return found


def rows_of(world: World) -> dict[str, dict[str, Any]]:
    """Return the rows of members in `state`."""
    rows = {key.decode(): json.loads(value) for key, value in world.rows()}
    return {key: row for key, row in rows.items() if row["type"] == "member"}


def sound(world: World) -> bool:
    """Tell whether audit, refold and the oracle find what the world has come to."""
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement
    return state_rows(world.refolded()) == world.rows()


def test_a_membership_ends_to_the_millisecond() -> None:
    world = opened()
    end = world.now + 10_000
    enrol(world, "ana", "analyst", until=text_of(end))
    asked = []
    for world.now in (end - 1, end, end + 1):
        asked.append(ask(world))
    assert asked == ["granted", "not_permitted", "not_permitted"]
    assert rows_of(world)['{"dataset":"census","member":"ana"}']["until"] == end
    assert sound(world)


def test_an_engine_ends_to_the_millisecond() -> None:
    world = opened(BASIC)
    end = world.now + 10_000
    enrol(world, "engine-1", "engine", until=text_of(end))
    asked = []
    for world.now in (end - 1, end):
        asked.append(ask(world, via="engine-1"))
    assert asked == ["granted", "not_permitted"]


def test_it_is_the_time_of_the_decision_that_counts_not_that_of_the_record() -> None:
    world = opened()
    end = world.now + 10_000
    enrol(world, "ana", "analyst", until=text_of(end))
    body = world.request("pure:0.001")
    world.now = end  # somebody else's record has moved the partition's clock on
    ask(world, analyst="ben")
    assert code(world.send("requests", body, append_time=end - 5_000)) == "not_permitted"


def test_a_membership_that_has_ended_keeps_its_row_and_may_be_renewed_or_removed() -> None:
    world = opened()
    enrol(world, "ana", "analyst", until=text_of(world.now - 1))
    assert ask(world) == "not_permitted"
    assert len(rows_of(world)) == 2
    enrol(world, "ana", "analyst")
    assert ask(world) == "granted"
    enrol(world, "ana", "analyst", until=text_of(world.now))
    assert code(member(world, "ana")) == "member_removed"
    assert code(member(world, "ana")) == "unknown_member"
    assert list(rows_of(world)) == ['{"dataset":"census","member":"owner"}']
    assert sound(world)


def test_a_record_replaces_the_whole_membership() -> None:
    world = opened()
    enrol(world, "ana", "analyst", "engine", team="blue", until=text_of(world.now + 5))
    enrol(world, "ana", "auditor")
    row = rows_of(world)['{"dataset":"census","member":"ana"}']
    assert (row["roles"], row.get("team"), row.get("until")) == (["auditor"], None, None)
    assert ask(world) == "not_permitted"
    assert ask(world, analyst="ben", via="ana") == "not_permitted"


@pytest.mark.parametrize("roles", [[], ["analyst"], ["analyst", "engine", "auditor"]])
@pytest.mark.parametrize("helped", [False, True])
def test_the_last_owner_stays(roles: list[str], helped: bool) -> None:
    world = opened()
    fields = {"by": "admin", "as": "administrator"} if helped else {}
    assert code(member(world, "owner", *roles, **fields)) == "last_owner"
    enrol(world, "owner", "analyst", "owner")
    enrol(world, "olga", "owner")
    decision = member(world, "owner", *roles, **fields)
    assert code(decision) == ("member_set" if roles else "member_removed")
    assert code(world.amend(horizon="P3D")) == "not_permitted"
    assert code(member(world, "olga", *roles, by="olga")) == "last_owner"
    assert sound(world)


def test_an_owner_who_leaves_may_not_come_back_alone() -> None:
    world = opened(CIRCLE, "owner", "olga")
    assert code(member(world, "owner")) == "member_removed"
    assert code(member(world, "owner", "owner")) == "not_permitted"
    enrol(world, "owner", "owner", by="olga")
    assert code(world.amend(horizon="P3D")) == "amended"


def test_who_opens_for_others_is_no_owner() -> None:
    world = opened(CIRCLE, "olga")
    assert code(world.amend(horizon="P3D")) == "not_permitted"
    assert code(world.close()) == "not_permitted"
    assert code(member(world, "ana", "analyst")) == "not_permitted"
    assert code(world.amend(horizon="P3D", by="olga")) == "amended"


@pytest.mark.parametrize("access", ["anyone", "members", None])
def test_an_engine_needs_its_role_whatever_the_access(access: str | None) -> None:
    policy = BASIC if access is None else {**BASIC, "access": access}
    world = opened(policy)
    enrol(world, "ana", "analyst")
    enrol(world, "engine-1", "analyst", "auditor")
    assert ask(world, via="engine-1") == "not_permitted"
    assert ask(world, via="nobody") == "not_permitted"
    assert ask(world, via="ana") == "not_permitted"
    assert ask(world) == "granted"
    enrol(world, "engine-1", "engine")
    assert ask(world, via="engine-1") == "granted"
    for_a_stranger = ask(world, analyst="eve", via="engine-1")
    assert for_a_stranger == ("not_permitted" if access == "members" else "granted")
    assert sound(world)


def test_an_engine_may_be_an_analyst_too_and_ask_for_itself() -> None:
    world = opened()
    enrol(world, "engine-1", "engine")
    assert ask(world, analyst="engine-1", via="engine-1") == "not_permitted"
    assert ask(world, analyst="engine-1") == "not_permitted"
    enrol(world, "engine-1", "engine", "analyst")
    assert ask(world, analyst="engine-1", via="engine-1") == "granted"
    assert ask(world, analyst="engine-1") == "granted"


@pytest.mark.parametrize("role", ["owner", "auditor", "engine"])
def test_no_other_role_asks(role: str) -> None:
    world = opened()
    enrol(world, "ana", role)
    assert ask(world) == "not_permitted"


@pytest.mark.parametrize("role", ["analyst", "auditor", "engine"])
def test_no_other_role_governs(role: str) -> None:
    world = opened()
    enrol(world, "ana", role)
    assert code(world.amend(horizon="P3D", by="ana")) == "not_permitted"
    assert code(world.send("admin", world.admin("close", by="ana"))) == "not_permitted"
    assert code(member(world, "ben", "analyst", by="ana")) == "not_permitted"
    assert code(member(world, "ana", by="ana")) == "not_permitted"


def test_an_administrator_helps_with_a_members_record_alone() -> None:
    world = opened()
    helped = member(world, "ana", "analyst", by="admin", **{"as": "administrator"})
    assert told(helped, world)["administrator"] is True
    assert "administrator" not in told(member(world, "ben", "analyst"), world)
    refused = member(world, "eve", by="admin", **{"as": "administrator"})
    assert code(refused) == "unknown_member"
    assert "administrator" not in told(refused, world)
    assert code(world.amend(horizon="P3D", by="admin", **{"as": "administrator"})) == (
        "invalid_field"
    )
    assert sound(world)


def test_a_member_may_come_and_go_on_a_closed_dataset_which_is_asked_nothing_more() -> None:
    world = opened()
    enrol(world, "ana", "analyst")
    assert code(world.close()) == "closed"
    enrol(world, "ben", "analyst", "owner")
    assert code(member(world, "ana")) == "member_removed"
    assert ask(world) == "not_permitted"
    assert ask(world, analyst="ben") == "closed"
    assert code(world.amend(horizon="P3D", by="eve")) == "not_permitted"
    assert code(world.amend(horizon="P3D")) == "closed"
    assert code(member(world, "nobody")) == "unknown_member"
    assert sound(world)


def test_what_is_not_permitted_is_told_before_all_that_a_price_would_tell() -> None:
    world = opened({**CIRCLE, "halt_on_refusal": True})
    enrol(world, "ben", "analyst")
    for fields in ({"unit": "household"}, {"claim": {"type": "zcdp", "rho": "1"}},
                   {"claim": {"type": "pure", "epsilon": "900"}}):  # fmt: skip
        assert code(world.ask(**fields)) == "not_permitted"
    assert ask(world, analyst="ben") == "granted"  # nothing of it has halted the dataset
    world.ask("pure:900", analyst="ben")
    assert ask(world, analyst="ben") == "halted"
    assert ask(world) == "not_permitted"
    enrol(world, "ana", "analyst")


def test_a_refusal_makes_no_row_spends_nothing_and_its_id_is_remembered() -> None:
    world = opened()
    before = world.rows()
    body = world.request("pure:0.001", via="engine-1")
    refused = world.send("requests", body)
    found = told(refused, world)
    assert (code(refused), found["sequence"]) == ("not_permitted", 2)
    assert {"totals", "left", "odometers"} <= found.keys()
    assert not {"asked", "fits", "cost", "crossed"} & found.keys()
    assert found["totals"]["mechanisms"] == 0
    assert [key for key, _ in world.rows()] == [key for key, _ in before]
    again = world.send("requests", body)
    assert code(again) == "repeated"
    assert again.first is not None
    assert again.first.reason == "not_permitted"


@pytest.mark.parametrize("batch", [1, 100])
def test_in_one_batch_it_is_the_order_of_the_log_that_decides(batch: int) -> None:
    world = opened(batch=batch)
    enrol(world, "ana", "analyst")
    assert ask(world) == "granted"
    assert code(member(world, "ana")) == "member_removed"
    assert ask(world) == "not_permitted"
    enrol(world, "ana", "analyst")
    assert ask(world) == "granted"
    assert code(world.amend(access="anyone")) == "amended"
    assert ask(world, analyst="eve") == "granted"
    assert code(world.amend(access="members")) == "amended"
    assert ask(world, analyst="eve") == "not_permitted"
    assert sound(world)


def test_one_who_comes_and_goes_within_a_batch_leaves_nothing() -> None:
    world = opened(batch=100)
    before = world.rows()
    enrol(world, "ana", "analyst")
    assert code(member(world, "ana")) == "member_removed"
    written = dict(world.draft.rows())
    assert not written.get(b'{"dataset":"census","member":"ana"}')
    assert [key for key, _ in world.rows()] == [key for key, _ in before]


def test_who_comes_again_within_a_batch_has_the_later_row() -> None:
    world = opened()
    enrol(world, "ana", "analyst", team="blue")
    world.batch = 100
    assert code(member(world, "ana")) == "member_removed"
    enrol(world, "ana", "engine")
    world.commit()
    assert rows_of(world)['{"dataset":"census","member":"ana"}'] == {
        "type": "member",
        "version": 1,
        "dataset": "census",
        "member": "ana",
        "roles": ["engine"],
        "sequence": 4,
    }
    assert sound(world)


def test_a_row_is_written_byte_for_byte_as_the_reference_has_it() -> None:
    world = opened()
    until = "2027-01-01T00:00:00.000Z"
    enrol(world, "ana", "auditor", "analyst", team="blue", until=until)
    enrol(world, "a:b@c.d_e-f", *reversed(ROLES))
    rows = dict(world.rows())
    assert rows[b'{"dataset":"census","member":"ana"}'] == (
        b'{"type":"member","version":1,"dataset":"census","member":"ana",'
        b'"roles":["analyst","auditor"],"team":"blue","until":1798761600000,"sequence":2}'
    )
    assert rows[b'{"dataset":"census","member":"a:b@c.d_e-f"}'] == (
        b'{"type":"member","version":1,"dataset":"census","member":"a:b@c.d_e-f",'
        b'"roles":["owner","analyst","engine","auditor"],"sequence":3}'
    )
    assert json.loads(rows[b"census"])["members"] == 3
    assert json.loads(rows[b"census"])["owners"] == 2
    assert json.loads(rows[b'{"partition":0}'])["members"] == 3


def test_a_removal_is_a_tombstone_in_state() -> None:
    world = opened()
    enrol(world, "ana", "analyst")
    world.batch = 100
    assert code(member(world, "ana")) == "member_removed"
    written = dict(world.draft.rows())
    assert written[b'{"dataset":"census","member":"ana"}'] is None


def test_the_fields_of_a_decision_stand_at_its_very_end() -> None:
    world = World()
    first = world.send("admin", world.admin("open", policy=BASIC, owners=["olga", "ana"]))
    assert list(told(first, world))[-1] == "owners"
    assert told(first, world)["owners"] == ["olga", "ana"]
    fields = {"by": "admin", "as": "administrator", "team": "blue"}
    until = text_of(world.now + 9)
    found = told(member(world, "ana", "engine", "analyst", until=until, **fields), world)
    assert list(found)[-2:] == ["member", "administrator"]
    expected = {"member": "ana", "roles": ["analyst", "engine"], "team": "blue", "until": until}
    assert list(found["member"].items()) == list(expected.items())
    gone = told(member(world, "ana", by="olga"), world)
    assert (gone["outcome"], gone["member"]) == ("member_removed", {"member": "ana", "roles": []})
    assert {"sequence", "totals", "left", "odometers"} <= gone.keys()
    assert not {"policy", "budget"} & gone.keys()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"roles": [], "team": "blue"}, "team"),
    ({"roles": [], "until": "2027-01-01T00:00:00.000Z"}, "until"),
    ({"roles": ["owner"], "until": "2027-01-01T00:00:00.000Z"}, "until"),
    ({"roles": ["analyst", "owner"], "until": "2027-01-01T00:00:00.000Z"}, "until"),
    ({"until": "2027-01-01T00:00:00Z"}, "until"),
    ({"until": "2027-01-01T00:00:00.0000Z"}, "until"),
    ({"until": "2027-01-01T00:00:00.000+00:00"}, "until"),
    ({"until": "2027-01-01 00:00:00.000Z"}, "until"),
    ({"until": "2027-02-29T00:00:00.000Z"}, "until"),
    ({"until": "2027-01-01T24:00:00.000Z"}, "until"),
    ({"until": "2027-01-01T00:00:60.000Z"}, "until"),
    ({"until": "٢027-01-01T00:00:00.000Z"}, "until"),
    ({"until": ""}, "until"),
    ({"until": 1_798_761_600_000}, "until"),
    ({"team": ""}, "team"),
    ({"team": "a/b"}, "team"),
    ({"member": "x" * 101}, "member"),
    ({"member": "a b"}, "member"),
    ({"roles": ["analyst", "analyst"]}, "roles"),
    ({"roles": ["Owner"]}, "roles"),
    ({"roles": "owner"}, "roles"),
    ({"as": "owner"}, "as"),
    ({"as": ""}, "as"),
    ({"reason": "x" * 201}, "reason"),
    ({"policy": BASIC}, "policy"),
    ({"analyst": "ana"}, "analyst"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG)
def test_a_field_that_breaks_its_rule_is_named(fields: dict[str, Any], field: str) -> None:
    world = opened()
    body = {"member": "ana", "roles": ["analyst"], **fields}
    decision = world.send("admin", world.admin("member", **body))
    assert code(decision) == "invalid_field"
    assert decision.error is not None
    assert decision.error.field.partition("[")[0] == field
    assert decision.sequence is None


@pytest.mark.parametrize("missing", ["member", "roles", "by", "dataset", "version"])
def test_a_members_record_needs_each_of_its_fields(missing: str) -> None:
    world = opened()
    body = json.loads(world.admin("member", member="ana", roles=["analyst"]))
    del body[missing]
    assert code(world.send("admin", json.dumps(body).encode())) == "invalid_field"


@pytest.mark.parametrize(
    ("owners", "right"),
    [
        (["olga"], True),
        ([f"o-{number}" for number in range(100)], True),
        ([f"o-{number}" for number in range(101)], False),
        ([], False),
        (["olga", "olga"], False),
        (["a/b"], False),
        ("olga", False),
    ],
)
def test_an_opening_names_1_to_100_owners(owners: Any, right: bool) -> None:
    world = World()
    decision = world.send("admin", world.admin("open", policy=BASIC, owners=owners))
    assert code(decision) == ("opened" if right else "invalid_field")
    assert len(rows_of(world)) == (len(owners) if right else 0)


def test_10_000_members_are_the_most_and_one_leaves_for_another() -> None:
    world = World(batch=1000)
    first = [f"o-{number}" for number in range(100)]
    world.send("admin", world.admin("open", policy=CIRCLE, owners=first))
    for number in range(100, MOST):
        until = {} if number % 3 else {"until": text_of(world.now)}
        enrol(world, f"m-{number}", "analyst", by="o-0", **until)
    over = member(world, "one-more", "analyst", by="o-0")
    assert code(over) == "too_many_members"
    helped = member(world, "one-more", "owner", by="admin", **{"as": "administrator"})
    assert code(helped) == "too_many_members"
    assert code(member(world, "nobody", by="o-0")) == "unknown_member"
    enrol(world, "m-300", "engine", by="o-0")  # one of them, whose membership has ended
    assert code(member(world, "m-303", by="o-0")) == "member_removed"
    enrol(world, "one-more", "analyst", by="o-0")
    assert ask(world, analyst="one-more", via="m-300") == "granted"
    assert code(member(world, "m-303", "analyst", by="o-0")) == "too_many_members"
    assert len(rows_of(world)) == MOST
    assert json.loads(dict(world.rows())[b'{"partition":0}'])["members"] == MOST
    assert state_rows(world.refolded()) == world.rows()
    judge(world)


def judge(world: World) -> None:
    """Have the oracle judge a world by the bodies that its own log repeats."""
    rows = dict(world.rows())
    inputs: dict[str, list[Given]] = {source: [] for source in oracle.INPUTS}
    for value in world.log[1:]:
        decision = json.loads(value)
        at = millis(decision["decided_at"])
        body = json.dumps(decision["request"]).encode()
        inputs[decision["source"]["topic"]].append(
            Given(decision["source"]["offset"], None, body, (at, at))
        )
    oracle.judge_file(Contents(world.log, rows, []), inputs)


NEW: list[tuple[str, dict[str, Any]]] = [
    ("request", {"via": "engine-1"}),
    ("open", {"dataset": "other", "policy": BASIC, "owners": ["olga"]}),
    ("open", {"dataset": "other", "policy": {**BASIC, "access": "anyone"}}),
    ("open", {"dataset": "other", "policy": {**BASIC, "visibility": "own"}}),
    ("open", {"dataset": "other", "policy": {**BASIC, "population": "city"}}),
    ("amend", {"access": "members"}),
    ("amend", {"visibility": "own"}),
    ("member", {"member": "ana", "roles": ["analyst"]}),
    ("member", {"member": "ana", "roles": []}),
]


@pytest.mark.parametrize("rules", [1, 2, 3])
@pytest.mark.parametrize(("kind", "fields"), NEW)
def test_older_rules_know_nothing_of_it(kind: str, fields: dict[str, Any], rules: int) -> None:
    world = opened(BASIC, rules=rules)
    if kind == "request":
        decision = world.ask("pure:0.001", **fields)
    else:
        decision = world.send("admin", world.admin(kind, **fields))
    assert code(decision) == "invalid_field"
    assert decision.sequence is None
    assert sound(world)


@pytest.mark.parametrize("rules", [1, 2, 3])
def test_what_older_rules_opened_has_no_owner_until_a_record_gives_one(rules: int) -> None:
    world = opened(BASIC, rules=rules)
    assert not rows_of(world)
    assert b'"members"' not in b"".join(value for _, value in world.rows())
    world.commit()
    world.rules = 4
    world.draft = Draft(world.state, rules=4)
    assert ask(world, analyst="eve") == "granted"
    assert ask(world, via="engine-1") == "not_permitted"
    assert code(world.amend(horizon="P3D", by="eve")) == "amended"
    assert code(world.amend(access="members", by="ben")) == "amended"
    assert ask(world, analyst="eve") == "not_permitted"
    enrol(world, "eve", "analyst", by="ben")
    assert ask(world, analyst="eve") == "granted"
    assert code(member(world, "eve", by="ana")) == "member_removed"
    enrol(world, "olga", "owner", by="admin", **{"as": "administrator"})
    assert code(world.amend(horizon="P4D", by="ben")) == "not_permitted"
    assert code(member(world, "ben", "owner", by="ben")) == "not_permitted"
    assert code(member(world, "olga", by="olga")) == "last_owner"
    assert code(world.amend(horizon="P4D", by="olga")) == "amended"
    assert sound(world)


def test_the_first_grant_is_kept_where_a_population_is_named() -> None:
    world = opened({**BASIC, "population": "city"})
    assert "granted_at" not in json.loads(dict(world.rows())[b"census"])
    world.now += 5
    first = world.now
    assert ask(world) == "granted"
    world.now += 5
    assert ask(world) == "granted"
    assert json.loads(dict(world.rows())[b"census"])["granted_at"] == first
    assert sound(world)
    other = opened(BASIC)
    assert ask(other) == "granted"
    assert "granted_at" not in json.loads(dict(other.rows())[b"census"])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(ROLES), unique=True),
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from(["anyone", "members"]),
)
def test_a_request_is_permitted_exactly_where_the_roles_say_so(
    roles: list[str], off: int, through: bool, access: str
) -> None:
    world = opened({**BASIC, "access": access})
    end = world.now + 1000
    expires = {"until": text_of(end)} if roles and "owner" not in roles else {}
    if roles:
        enrol(world, "ana", *roles, **expires)
    world.now = end + off
    in_force = set(roles) if off < 0 or not expires else set()
    fields = {"via": "ana"} if through else {}
    permitted = access == "anyone" or "analyst" in in_force
    permitted = permitted and (not through or "engine" in in_force)
    assert ask(world, **fields) == ("granted" if permitted else "not_permitted")
