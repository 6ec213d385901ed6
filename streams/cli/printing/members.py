"""Tables and lines of members, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.members import role_words
from accountant.display.times import moment
from accountant.policy import sees_only_own
from accountant.records.members import ROLES
from accountant.times import from_iso

if TYPE_CHECKING:
    from accountant.policy import Policy
    from accountant.records.members import Member
    from accountant.views.member_changes import Change

_MOST_NAMED: Final = 8
_MOST_ROWS: Final = 50
_STYLE: Final = {"add": "green", "change": "yellow", "remove": "red"}


def has_expired(member: Member, now: int) -> bool:
    """Tell whether a membership has expired."""
    return member.until is not None and from_iso(member.until) <= now


def member_table(members: Sequence[Member], now: int) -> Table:
    """Return the table of a dataset's members."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("member", "roles", "team", "until"):
        table.add_column(column, overflow="fold")
    for member in members:
        until = Text(moment(member.until))
        if has_expired(member, now):
            until.append("  expired", style="red")
        table.add_row(member.member, ", ".join(member.roles), member.team or "", until)
    return table


def change_table(changes: Sequence[Change]) -> Table:
    """Return the table of changes, cut after `_MOST_ROWS`."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("", "member", "from", "to"):
        table.add_column(column, overflow="fold")
    for change in changes[:_MOST_ROWS]:
        before = "" if change.before is None else role_words(change.before)
        after = role_words(change.after) if change.after.roles else ""
        kind = Text(change.kind, style=_STYLE[change.kind])
        table.add_row(kind, change.after.member, before, after)
    if len(changes) > _MOST_ROWS:
        table.add_row("", f"and {len(changes) - _MOST_ROWS:,} more")
    return table


def count_words(changes: Sequence[Change]) -> str:
    """Return how many members are added, changed and removed."""
    count = Counter(change.kind for change in changes)
    return f"{count['add']:,} to add, {count['change']:,} to change, {count['remove']:,} to remove"


def member_lines(policy: Policy, members: Sequence[Member]) -> list[tuple[str, str]]:
    """Return the lines of a dataset's details on members, access and visibility."""
    lines = []
    owners = [member.member for member in members if "owner" in member.roles]
    if owners:
        more = f", and {len(owners) - _MOST_NAMED:,} more" if len(owners) > _MOST_NAMED else ""
        lines.append(("owners", ", ".join(owners[:_MOST_NAMED]) + more))
    if members:
        roles = Counter(role for member in members for role in member.roles)
        counts = ", ".join(f"{role} {roles[role]:,}" for role in ROLES if roles[role])
        lines.append(("members", f"{len(members):,} ({counts})"))
    callers = "members with the role analyst" if policy.access == "members" else "everyone"
    access = "anyone" if policy.access is UNSET else policy.access
    lines.append(("access", f"{access}: {callers} may ask"))
    if policy.access is not UNSET or policy.visibility is not UNSET:
        own = sees_only_own(policy)
        visible = (
            "own: analysts see their own decisions"
            if own
            else "members: analysts see the decisions of all members"
        )
        lines.append(("visibility", visible))
    if policy.population is not UNSET:
        lines.append(("population", policy.population))
    return lines
