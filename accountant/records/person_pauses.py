"""Pauses of persons and teams: as decisions, rows and views show them."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.field_rules import Name, Note, Time

MAX_PAUSES: Final = 100
"""The limit of pauses of one dataset: its row has them all, and is written at every decision."""


class PersonPause(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A pause of one person or of one team on a dataset.

    Attributes:
        member, team: the person, or the team; the other one is left out.
        by: the owner, or the administrator, who has paused them.
        reason: in the words of `by`.
        since: time of the decision.
        administrator: an administrator acted for the owners.
    """

    member: Name | None = None
    team: Name | None = None
    by: Name
    reason: Note
    since: Time
    administrator: bool = False

    def is_of(self, member: str | None, team: str | None) -> bool:
        """Tell whether it is the pause of this person, or of this team."""
        return (self.member, self.team) == (member, team)


Pauses = tuple[PersonPause, ...]
"""The pauses of a dataset, the oldest first; at most one of each person and of each team."""


def pause_of(pauses: Pauses, member: str | None, team: str | None) -> PersonPause | None:
    """Return the pause of one person or of one team, None where they are not paused."""
    return next((each for each in pauses if each.is_of(member, team)), None)


def without_pause(pauses: Pauses, ended: PersonPause) -> Pauses:
    """Return the pauses of a dataset after one of them has ended."""
    return tuple([each for each in pauses if not each.is_of(ended.member, ended.team)])
