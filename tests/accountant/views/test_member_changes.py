"""Any order of members becomes any other without losing the last owner or one's own right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accountant.records.members import ROLES, Member, sort_roles
from accountant.views.member_changes import member_changes

names = st.sampled_from([f"m{i}" for i in range(6)])
roles = st.sets(st.sampled_from(ROLES), min_size=1).map(sort_roles)
memberships = st.dictionaries(names, st.tuples(roles, st.sampled_from([None, "blue", "red"])))


def members(given_: dict[str, tuple[tuple[str, ...], str | None]]) -> list[Member]:
    return [Member(name, roles, team) for name, (roles, team) in given_.items()]  # type: ignore[arg-type]


def owners(state: dict[str, Member]) -> set[str]:
    return {name for name, member in state.items() if "owner" in member.roles}


@given(memberships, memberships)
def test_changes_lead_from_one_to_the_other_past_no_last_owner(before, wanted) -> None:
    before["m0"], wanted["m1"] = (("owner",), None), (("owner",), None)
    state = {member.member: member for member in members(before)}
    goal = {member.member: member for member in members(wanted)}
    steps = member_changes(state.values(), goal.values(), own="m0")
    for step in steps:
        for change in step:
            assert change.before == state.get(change.after.member)
            assert "m0" in owners(state), "who makes the changes may make this one"
            if change.after.roles:
                state[change.after.member] = change.after
            else:
                del state[change.after.member]
            assert owners(state)
    assert state == goal
    assert member_changes(state.values(), goal.values(), own="m0") == ()


def test_members_are_removed_before_others_are_added() -> None:
    before = [Member("olga", ("owner",)), Member("otto", ("owner",)), Member("ana", ("analyst",))]
    wanted = [Member("olga", ("owner",)), Member("ben", ("analyst",)), Member("cy", ("analyst",))]
    order = [c.after.member for s in member_changes(before, wanted, own="olga") for c in s]
    assert order == ["ana", "otto", "ben", "cy"]
