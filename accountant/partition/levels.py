"""Which levels apply to somebody's request, and what is withheld there for others."""

from __future__ import annotations

from accountant.ledger import Ledger
from accountant.ledger.levels.level import Key, Level
from accountant.ledger.levels.shares import Sums, is_any, minus
from accountant.ledger.levels.standing import Standing, applied
from accountant.partition.draft import Draft
from accountant.partition.level_table import Places, of_team
from accountant.records.members import MemberRow


def team_of(member: MemberRow | None, at: int) -> str:
    """Return the team of a membership that is in force at a time, "" for none."""
    return (member.team or "") if member is not None and member.is_in_force(at) else ""


def standing_in(draft: Draft, ledger: Ledger, analyst: str) -> Standing | None:
    """Return the levels that a request is checked at by what a draft has come to."""
    at = draft.decided_at
    team = team_of(draft.members.get(ledger.dataset, analyst), at)
    return standing_of(ledger, draft.levels, analyst, team, at, draft.resets)


def standing_of(
    ledger: Ledger,
    levels: Places,
    analyst: str,
    team: str,
    at: int,
    resets: tuple[int, int],
) -> Standing | None:
    """Return the levels that an analyst's request is checked at, None if there are none.

    Args:
        team: the analyst's at this time, "" for none.
        at: the decision's time, milliseconds since 1970.
        resets: how often the clock was set back, and to which time at last.
    """
    dataset, plan = ledger.dataset, ledger.plan
    whole = levels.get((dataset, "dataset", "", ""))
    crew = levels.get((dataset, "team", "", team)) if team else None
    own = levels.get((dataset, "analyst", "", analyst))
    found = [
        applied(level, level.rule, plan, at, resets)
        for level in (whole, crew, own)
        if level is not None and level.rule is not None and level.rule.is_in_force
    ]
    if team and (own is None or not own.is_in_force):
        default = levels.get((dataset, "each", "", team))
        if default is not None and default.rule is not None and default.is_in_force:
            key: Key = (dataset, "each", team, analyst)
            use = levels.get(key) or Level(*key)
            found.append(applied(use, default.rule, plan, at, resets))
    others = _others(levels, dataset, crew, own, team)
    if not found and not others:
        return None
    elsewhere = None
    if own is not None and own.share and own.within not in ("", team):
        elsewhere = levels.get((dataset, "team", "", own.within))
        if elsewhere is not None and not elsewhere.share:
            elsewhere = None
    withheld = own.withheld if own is not None else ()
    return Standing(tuple(found), others, elsewhere, withheld, resets[0])


def _others(levels: Places, dataset: str, crew: Level | None, own: Level | None, team: str) -> Sums:
    """Return what is withheld for others than an analyst, empty for nothing."""
    withheld = levels.withheld(dataset)
    if not is_any(withheld):
        return ()
    share = own.withheld if own is not None else ()
    here = bool(team) and own is not None and own.within == team
    if team:
        booked = levels.booked(dataset, team)
        rest = minus(booked.withheld, share) if here else booked.withheld
        withheld = minus(withheld, minus(of_team(crew, booked), rest))
    if not here:
        withheld = minus(withheld, share)
    return withheld if is_any(withheld) else ()
