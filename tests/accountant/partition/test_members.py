"""Who may what: to the millisecond, to the last owner, to the record in the log's order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from tests.accountant.world import code
from tests.faults.oracle.members import ROLES
from tests.faults.oracle.texts import at_text
from tests.nightly import examples


def test_a_membership_ends_to_the_millisecond() -> None:
    world = opened()
    end = world.now + 10_000
    enrol(world, "ana", "analyst", until=at_text(end))
    asked = []
    for world.now in (end - 1, end, end + 1):
        asked.append(ask(world))
    assert asked == ["granted", "not_permitted", "not_permitted"]
    assert rows_of(world)['{"dataset":"census","member":"ana"}']["until"] == end
    assert sound(world)


def test_an_engine_ends_to_the_millisecond() -> None:
    world = opened(BASIC)
    end = world.now + 10_000
    enrol(world, "engine-1", "engine", until=at_text(end))
    asked = []
    for world.now in (end - 1, end):
        asked.append(ask(world, via="engine-1"))
    assert asked == ["granted", "not_permitted"]


def test_membership_is_checked_at_the_time_of_the_decision_not_of_the_record() -> None:
    world = opened()
    end = world.now + 10_000
    enrol(world, "ana", "analyst", until=at_text(end))
    body = world.request("pure:0.001")
    world.now = end  # somebody else's record has moved the partition's clock on
    ask(world, analyst="ben")
    assert code(world.send("requests", body, append_time=end - 5_000)) == "not_permitted"


def test_a_membership_that_has_ended_keeps_its_row_and_may_be_renewed_or_removed() -> None:
    world = opened()
    enrol(world, "ana", "analyst", until=at_text(world.now + 1))
    world.now += 1
    assert ask(world) == "not_permitted"
    assert len(rows_of(world)) == 2
    enrol(world, "ana", "analyst")
    assert ask(world) == "granted"
    assert code(member(world, "ana", "analyst", until=at_text(world.now))) == "end_in_past"
    enrol(world, "ana", "analyst", until=at_text(world.now + 1))
    world.now += 1
    assert code(member(world, "ana")) == "member_removed"
    assert code(member(world, "ana")) == "unknown_member"
    assert list(rows_of(world)) == ['{"dataset":"census","member":"owner"}']
    assert sound(world)


def test_a_member_record_replaces_the_whole_membership() -> None:
    world = opened()
    enrol(world, "ana", "analyst", "engine", team="blue", until=at_text(world.now + 5))
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


def test_a_removed_owner_cannot_add_themselves_again() -> None:
    world = opened(CIRCLE, "owner", "olga")
    assert code(member(world, "owner")) == "member_removed"
    assert code(member(world, "owner", "owner")) == "not_permitted"
    enrol(world, "owner", "owner", by="olga")
    assert code(world.amend(horizon="P3D")) == "amended"


def test_opening_a_dataset_for_other_owners_gives_no_ownership() -> None:
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


@pytest.mark.parametrize("batch", [1, 100])
def test_an_amended_access_is_obeyed_from_then_on(batch: int) -> None:
    world = opened(BASIC, batch=batch)
    enrol(world, "ana", "analyst")
    for access, others in (("members", "not_permitted"), ("anyone", "granted")) * 2:
        assert code(world.amend(access=access)) == "amended"
        assert (ask(world), ask(world, analyst="eve")) == ("granted", others)
        assert code(world.amend(visibility="own")) == "amended"
        assert ask(world, analyst="eve") == others
    assert sound(world)


def test_an_administrator_may_only_write_member_records() -> None:
    world = opened()
    helped = member(world, "ana", "analyst", by="admin", **{"as": "administrator"})
    assert record_of(helped, world)["administrator"] is True
    assert "administrator" not in record_of(member(world, "ben", "analyst"), world)
    refused = member(world, "eve", by="admin", **{"as": "administrator"})
    assert code(refused) == "unknown_member"
    assert "administrator" not in record_of(refused, world)
    assert code(world.amend(horizon="P3D", by="admin", **{"as": "administrator"})) == (
        "invalid_field"
    )
    assert sound(world)


def test_members_can_be_added_and_removed_on_a_closed_dataset() -> None:
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


def test_a_missing_role_is_reported_before_anything_that_a_price_would_reveal() -> None:
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


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.sampled_from(ROLES), unique=True),
    st.integers(-3, 3),
    st.booleans(),
    st.sampled_from(["anyone", "members"]),
)
def test_a_request_is_permitted_exactly_if_the_roles_allow_it(
    roles: list[str], off: int, through: bool, access: str
) -> None:
    world = opened({**BASIC, "access": access})
    end = world.now + 1000
    expires = {"until": at_text(end)} if roles and "owner" not in roles else {}
    if roles:
        enrol(world, "ana", *roles, team="blue", **expires)
    world.now = end + off
    in_force = set(roles) if off < 0 or not expires else set()
    fields = {"via": "ana"} if through else {}
    permitted = access == "anyone" or "analyst" in in_force
    permitted = permitted and (not through or "engine" in in_force)
    assert ask(world, **fields) == ("granted" if permitted else "not_permitted")
