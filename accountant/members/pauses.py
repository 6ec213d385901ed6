"""The rule of a paused person: who may not ask and not begin on a dataset."""

from __future__ import annotations

from msgspec import UNSET

from accountant.members.permits import Lookup, RequestParties
from accountant.records.members import MemberRow
from accountant.records.person_pauses import Pauses, PersonPause, pause_of


def pause_that_stops(pauses: Pauses, lookup: Lookup, request: RequestParties) -> PersonPause | None:
    """Return the pause that stops a request, or a reservation that is to begin.

    The analyst must not be paused, nor the engine or curator that sends it. The team is that of the
    membership, also of one that is over: neither the end of a membership nor a change of roles
    lifts a pause.
    """
    for name in (request.analyst, request.via):
        if name is not UNSET and (found := pause_of_person(pauses, name, lookup(name))):
            return found
    return None


def pause_of_person(pauses: Pauses, name: str, row: MemberRow | None) -> PersonPause | None:
    """Return what keeps somebody from asking: their own pause, or their team's.

    Args:
        row: their membership, if there is one.
    """
    found = pause_of(pauses, name, None)
    if found is None and row is not None and row.team is not UNSET:
        return pause_of(pauses, None, row.team)
    return found
