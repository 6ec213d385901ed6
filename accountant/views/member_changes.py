"""From the members that a dataset has to those that it is to have, in an order that is safe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from accountant.records.members import Member

Kind = Literal["add", "change", "remove"]
_OWNER: Final = "owner"


class Change(NamedTuple):
    """One member's change.

    Attributes:
        before: what there is, None for nothing.
        after: what is to be; without roles, nothing.
    """

    before: Member | None
    after: Member

    @property
    def kind(self) -> Kind:
        """What it does."""
        if not self.after.roles:
            return "remove"
        return "add" if self.before is None else "change"


def member_changes(
    before: Iterable[Member], wanted: Iterable[Member], *, own: str | None = None
) -> tuple[tuple[Change, ...], ...]:
    """Return the changes in steps, each to be made before the next; within one in any order.

    Members that are no owners go first, which makes room; then come owners, so that the last one
    is never asked to go, and those go that are to be none any more; then come the other members.
    Whoever makes the changes goes the very last, and keeps the right to do the rest until then.

    Args:
        wanted: the complete list, each member once; others are removed.
        own: the caller, who makes the changes.
    """
    there = {member.member: member for member in before}
    are_to_be = {member.member: member for member in wanted}
    found = [
        Change(there.get(name), member)
        for name, member in sorted(are_to_be.items())
        if there.get(name) != member
    ]
    found += [
        Change(member, msgspec.structs.replace(member, roles=(), team=None, until=None))
        for name, member in sorted(there.items())
        if name not in are_to_be
    ]
    steps: tuple[list[Change], ...] = ([], [], [], [], [])
    for change in found:
        steps[_step(change, own)].append(change)
    return tuple(tuple(step) for step in steps if step)


def _step(change: Change, own: str | None) -> int:
    was_owner = change.before is not None and _OWNER in change.before.roles
    if _OWNER in change.after.roles:
        return 1
    if was_owner:
        return 4 if change.after.member == own else 2
    return 3 if change.after.roles else 0
