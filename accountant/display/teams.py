"""Notes on teams and people that nothing else names: a limit or a pause of a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from accountant.likeness import most_alike
from accountant.records.members import Member
from accountant.records.person_pauses import PersonPause
from accountant.suggest import did_you_mean
from accountant.views.limit_views import ScopeView

_MAX_NOTES: Final = 5


def notes_of_limit(members: Iterable[Member], team: str) -> list[str]:
    """Return that a limit's team has no members, where the dataset has members."""
    teams = [each.team for each in members]
    if not teams or team in teams:
        return []
    known = sorted({each for each in teams if each})
    listed = ", ".join(known) or "none"
    return [
        _with_suggestion(f"team {team} has no members yet; existing teams: {listed}", team, known)
    ]


def notes_of_pause(members: Iterable[Member], dataset: str, pause: PersonPause) -> list[str]:
    """Return that nobody has the name of a pause, and the one that is nearly it."""
    if pause.team:
        return notes_of_limit(members, pause.team)
    return [] if pause.member is None else notes_of_person(members, dataset, pause.member)


def notes_of_person(members: Iterable[Member], dataset: str, person: str) -> list[str]:
    """Return that a limit or a pause is of no member, and whose name it nearly is."""
    names = [each.member for each in members]
    if person in names:
        return []
    meant = most_alike(person, names)
    asks = f"; did you mean {meant}?" if meant else ""
    return [f"{person} is no member of {dataset}{asks}"]


def notes_of_member(
    limits: Iterable[ScopeView], members: Iterable[Member], dataset: str, member: Member
) -> list[str]:
    """Return that nothing else names a member's team, where limits or other members name teams."""
    known = {each.name for each in limits if each.scope in {"team", "each"} and each.name}
    known |= {each.team for each in members if each.team and each.member != member.member}
    if not member.team or not known or member.team in known:
        return []
    note = f"no limit and no other member of {dataset} names team {member.team}"
    return [_with_suggestion(note, member.team, sorted(known))]


def notes_of_members(
    limits: Sequence[ScopeView], members: Sequence[Member], dataset: str, changed: Iterable[Member]
) -> list[str]:
    """Return the notes on several members who change, a note for each team.

    Args:
        members: all members after the changes.
    """
    found = {}
    for member in changed:
        for note in notes_of_member(limits, members, dataset, member):
            found[member.team] = note
    notes = list(found.values())
    rest = len(notes) - _MAX_NOTES
    return [*notes[:_MAX_NOTES], f"{rest:,} more such teams"] if rest > 1 else notes


def _with_suggestion(note: str, team: str, known: Iterable[str]) -> str:
    meant = did_you_mean(team, known)()
    return f"{note}; {meant}" if meant else note
