"""Members for people."""

from __future__ import annotations

from accountant.display.times import moment
from accountant.records.members import Member


def role_words(member: Member) -> str:
    """Return a member's roles, team and last day: `analyst in team red`."""
    team = f" in team {member.team}" if member.team else ""
    until = f" until {moment(member.until)}" if member.until else ""
    return f"{' and '.join(member.roles)}{team}{until}"


def member_sentence(member: Member) -> str:
    """Return what an owner has said of a member, without a full stop."""
    if not member.roles:
        return f"{member.member} is no member any more"
    return f"{member.member} is {role_words(member)}"
