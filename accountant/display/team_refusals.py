"""Which rule of leads refused a lead's record (`beyond_team`), of which person, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from accountant.display.current_dataset import CurrentDataset, owner_words
from accountant.display.limits import budget_words, period_limit_words, whole_of_limits
from accountant.display.times import moment
from accountant.records.limit_records import days_of
from accountant.records.person_pauses import pause_of
from accountant.views.limit_views import ScopeView


def member_beyond_team(member: str, *, adds: bool, by: str, current: CurrentDataset) -> str:
    """Return why a lead may not add or remove somebody, and what to do.

    Args:
        by: the lead; the members name it with the team.
    """
    team, owner = _team_of(current, by), owner_words(current.members)
    if not adds:
        if not team or pause_of(current.view.person_pauses, None, team) is None:
            return ""
        return (
            f"Team {team} is paused, and its lead removes nobody meanwhile: another lead could "
            f"add {member}, who would be free of the pause. Nothing was changed. Wait for the "
            f"resume, or ask {owner} to remove {member}."
        )
    return (
        f"{member} has a request that waits for an approval, an open reservation, or a reserved "
        "share outside the team. A lead adds nobody who has one, also after a removal by "
        "the lead: it may have begun in another team. Nothing was changed. Ask "
        f"{owner} to add {member}, or add {member} once the request is answered and the "
        "reservation is over: each has a deadline."
    )


def limit_beyond_team(
    name: str, record: Mapping[str, Any], *, by: str, current: CurrentDataset
) -> str:
    """Return what of a lead's limit of an analyst goes beyond the team's own, and what to set.

    Args:
        record: the limit's fields as on the wire. `by`: as above.
    """
    team = _team_of(current, by)
    why = _beyond(name, record, team, current) if team else ""
    if not why:
        return ""
    return (
        f"{why} Nothing was changed. For more, ask {owner_words(current.members)} for a larger "
        f"limit of the team: `accountant more ask {current.view.dataset} limit --team {team} "
        "--part 0.5 --reason WHY`."
    )


def _beyond(name: str, record: Mapping[str, Any], team: str, current: CurrentDataset) -> str:
    known = {(each.scope, each.name): each for each in current.limits}
    whole = whole_of_limits(current.view)
    before, crew = known.get(("analyst", name)), known.get(("team", team))
    if before is not None and before.reserved is not None and before.reserved.team != team:
        return f"The reserved share of {name} is from outside team {team}: owners alone change it."
    default = known.get(("each", team))
    if default is not None and default.pace is not None and _lifts(default, record):
        pace = period_limit_words(default.pace, whole)
        return (
            f"The default of team {team} has a period limit, {pace}. A limit of {name} needs one "
            f"that is no larger, such as {default.pace.part} in {default.pace.period}."
        )
    reserved, until = record.get("reserved"), record.get("until")
    if reserved and (crew is None or crew.reserved is None):
        return f"Team {team} has no reserved share, so none can be reserved for {name}."
    if reserved and crew is not None and crew.until and (not until or until > crew.until):
        end = moment(crew.until)
        return f"The share of team {team} ends {end}. That of {name} needs an end by then."
    part = record.get("part")
    if part and crew is not None and crew.part and Decimal(part) > Decimal(crew.part):
        return f"Team {team} has {budget_words(crew, whole)}, and {name} would get more. Set less."
    if reserved:
        return (
            f"This reserves more for {name} than the share of team {team} still holds: what is "
            "used of a share is not given once more. Reserve less."
        )
    return ""


def _lifts(default: ScopeView, record: Mapping[str, Any]) -> bool:
    """Tell whether a limit has a larger pace than the default that it replaces, or none."""
    pace, own = default.pace, record.get("pace")
    fields = ("part", "policy", "pace", "reserved")
    if pace is None or all(record.get(field) is None for field in fields):
        return False
    if own is None or days_of(own["period"]) < days_of(pace.period):
        return True
    return Decimal(own["part"]) > Decimal(pace.part)


def _team_of(current: CurrentDataset, by: str) -> str:
    return next((each.team for each in current.members if each.member == by), None) or ""
