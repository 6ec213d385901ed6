"""What stands of members in decisions and rows of `state`, up to the last of 10,000."""

from __future__ import annotations

import json
import zlib

import pytest

from accountant.partition.decide import decide
from accountant.records.inputs import Input
from accountant.replay.replay import state_rows
from tests.accountant.partition.circle import (
    BASIC,
    CIRCLE,
    ask,
    enrol,
    member,
    opened,
    record_of,
    rows_of,
    sound,
)
from tests.accountant.world import World, code
from tests.faults import oracle
from tests.faults.oracle import Contents, InputAsSent
from tests.faults.oracle.members import ROLES
from tests.faults.oracle.texts import at_text, millis

MOST = 10_000


def test_a_refusal_makes_no_row_spends_nothing_and_its_id_is_remembered() -> None:
    world = opened()
    before = world.rows()
    body = world.request("pure:0.001", via="engine-1")
    refused = world.send("requests", body)
    found = record_of(refused, world)
    assert (code(refused), found["sequence"]) == ("not_permitted", 2)
    assert {"totals", "left", "odometers"} <= found.keys()
    assert not {"asked", "fits", "cost", "crossed"} & found.keys()
    assert found["totals"]["mechanisms"] == 0
    for kind, fields in (("member", {"member": "eve", "roles": ["owner"]}), ("amend", {})):
        body_of_eve = world.admin(kind, by="eve", **fields)
        assert code(world.send("admin", body_of_eve)) == "not_permitted"
    assert [key for key, _ in world.rows()] == [key for key, _ in before]
    again = world.send("requests", body)
    assert code(again) == "repeated"
    assert again.first is not None
    assert again.first.reason == "not_permitted"


@pytest.mark.parametrize("batch", [1, 100])
def test_access_within_one_batch_follows_the_order_of_the_log(batch: int) -> None:
    world = opened(batch=batch)
    enrol(world, "ana", "analyst")
    world.commit()
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


def test_a_member_added_and_removed_within_a_batch_leaves_no_row() -> None:
    world = opened(batch=100)
    before = world.rows()
    enrol(world, "ana", "analyst")
    assert code(member(world, "ana")) == "member_removed"
    written = dict(world.draft.rows())
    assert not written.get(b'{"dataset":"census","member":"ana"}')
    assert [key for key, _ in world.rows()] == [key for key, _ in before]


def test_a_member_removed_and_added_within_a_batch_has_the_later_row() -> None:
    world = opened()
    enrol(world, "ana", "analyst", team="blue")
    world.batch = 100
    assert code(member(world, "ana")) == "member_removed"
    enrol(world, "ana", "engine")
    world.commit()
    assert rows_of(world)['{"dataset":"census","member":"ana"}'] == {
        "type": "member",
        "version": 2,
        "dataset": "census",
        "member": "ana",
        "roles": ["engine"],
        "sequence": 4,
    }
    assert sound(world)


def test_a_member_row_equals_the_reference_byte_for_byte() -> None:
    world = opened()
    until = "2027-01-01T00:00:00.000Z"
    enrol(world, "ana", "auditor", "analyst", team="blue", until=until)
    enrol(world, "a:b@c.d_e-f", *reversed(ROLES), team="blue")
    rows = dict(world.rows())
    assert rows[b'{"dataset":"census","member":"ana"}'] == (
        b'{"type":"member","version":2,"dataset":"census","member":"ana",'
        b'"roles":["analyst","auditor"],"team":"blue","until":1798761600000,"sequence":2}'
    )
    assert rows[b'{"dataset":"census","member":"a:b@c.d_e-f"}'] == (
        b'{"type":"member","version":2,"dataset":"census","member":"a:b@c.d_e-f",'
        b'"roles":["owner","analyst","engine","auditor","curator","lead"],"team":"blue",'
        b'"sequence":3}'
    )
    assert json.loads(rows[b"census"])["members"] == 3
    assert json.loads(rows[b"census"])["owners"] == 2
    own = json.loads(rows.pop(b'{"partition":0}'))
    assert own["members"] == 3
    assert own["checksum"] == f"{sum(map(zlib.crc32, rows.values())):016x}"


def test_undoing_a_decision_restores_members() -> None:
    world = opened(batch=100)
    enrol(world, "ana", "analyst")
    draft = world.draft
    before = draft.rows()
    for name, roles in (("ben", ["analyst"]), ("ana", ["engine"]), ("ana", [])):
        mark = draft.mark()
        body = world.admin("member", member=name, roles=roles)
        decide(draft, Input("admin", draft.next["admin"], b"k", body, world.now), world.now)
        assert draft.rows() != before
        draft.rewind(mark)
        assert draft.rows() == before
    assert (ask(world, analyst="ana"), ask(world, analyst="ben")) == ("granted", "not_permitted")
    assert sound(world)


def test_a_removal_is_a_tombstone_in_state() -> None:
    world = opened()
    enrol(world, "ana", "analyst")
    world.batch = 100
    assert code(member(world, "ana")) == "member_removed"
    written = dict(world.draft.rows())
    assert written.get(b'{"dataset":"census","member":"ana"}', b"as before") is None


def test_the_fields_of_a_decision_stand_at_its_very_end() -> None:
    world = World()
    first = world.send("admin", world.admin("open", policy=BASIC, owners=["olga", "ana"]))
    assert list(record_of(first, world))[-1] == "owners"
    assert record_of(first, world)["owners"] == ["olga", "ana"]
    fields = {"by": "admin", "as": "administrator", "team": "blue"}
    until = at_text(world.now + 9)
    found = record_of(member(world, "ana", "engine", "analyst", until=until, **fields), world)
    assert list(found)[-2:] == ["member", "administrator"]
    expected = {"member": "ana", "roles": ["analyst", "engine"], "team": "blue", "until": until}
    assert list(found["member"].items()) == list(expected.items())
    gone = record_of(member(world, "ana", by="olga"), world)
    assert (gone["outcome"], gone["member"]) == ("member_removed", {"member": "ana", "roles": []})
    assert {"sequence", "totals", "left", "odometers"} <= gone.keys()
    assert not {"policy", "budget"} & gone.keys()


def test_the_time_of_the_first_grant_is_stored_if_the_policy_names_a_population() -> None:
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


def test_a_dataset_has_at_most_10_000_members_and_a_removal_frees_one() -> None:
    world = World(batch=1000)
    first = [f"o-{number}" for number in range(100)]
    world.send("admin", world.admin("open", policy=CIRCLE, owners=first))
    for number in range(100, MOST):
        until = {} if number % 3 else {"until": at_text(world.now + 1)}
        enrol(world, f"m-{number}", "analyst", by="o-0", **until)
    world.now += 1
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
    assert state_rows(world.replayed()) == world.rows()
    judge(world)


def judge(world: World) -> None:
    """Have the oracle judge a world by the bodies that its own log repeats."""
    rows = dict(world.rows())
    inputs: dict[str, list[InputAsSent]] = {source: [] for source in oracle.INPUTS}
    for value in world.log[1:]:
        decision = json.loads(value)
        at = millis(decision["decided_at"])
        body = json.dumps(decision["request"]).encode()
        inputs[decision["source"]["topic"]].append(
            InputAsSent(decision["source"]["offset"], None, body, (at, at))
        )
    oracle.judge_file(Contents(world.log, rows, []), inputs)
