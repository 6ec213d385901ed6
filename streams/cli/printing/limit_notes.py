"""Notes after a record of a limit: what it removed, and names that nobody has."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from accountant.display.limits import end_words, scope_words
from accountant.display.numbers import exact_percent
from accountant.display.teams import notes_of_limit
from accountant.display.times import each_period

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accountant.records.limit_records import LimitRecord
    from accountant.records.members import Member
    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import ScopeView

_OF_A_BUDGET: Final = ("epsilon", "delta", "filter")
_KINDS: Final = ("part", "epsilon", "pace", "reserved")


def limit_notes(
    limits: Iterable[ScopeView],
    members: Sequence[Member],
    scope: str,
    name: str | None,
    options: Mapping[str, str | None],
) -> list[str]:
    """Return what a new limit removed, and that nobody has its name.

    Args:
        limits, members: before the new limit.
        options: those of the command that set it.
    """
    notes = []
    before: dict[tuple[str, str | None], ScopeView] = {
        (each.scope, each.name): each for each in limits
    }
    if (earlier := before.get((scope, name))) is not None:
        notes += _removed(earlier, options)
    teams = {each.member: each.team for each in members}
    if scope == "analyst" and members:
        if name not in teams:
            notes.append(f"{name} is not a member yet")
        elif ("each", teams[name]) in before:
            notes.append(f"the default of team {teams[name]} no longer applies to {name}")
    elif scope != "dataset" and name is not None:
        notes += notes_of_limit(members, name)
    return notes


def end_notes(
    limits: Iterable[ScopeView], members: Iterable[Member], limit: LimitRecord | None
) -> list[str]:
    """Return what follows the end of a new limit, none for one without an end."""
    if limit is None or limit.until is None:
        return []
    team = next((each.team for each in members if each.member == limit.name), None)
    return [f"{scope_words(limit.scope, limit.name)}: {end_words(limit, limits, team)}"]


def note_of_uncounted(view: DatasetView | None, limits: Iterable[ScopeView]) -> list[str]:
    """Return the note that a limit begins at nothing, although the dataset is in use.

    Args:
        limits: the new limit, after it was set.
    """
    if view is None or not _is_used(view.totals):
        return []
    for each in limits:
        paced = {} if each.pace is None else each.pace.used
        if not _is_used(each.used or {}) and not _is_used(paced):
            return ["usage is counted from now on; what was used before is not counted"]
    return []


def _is_used(amounts: Mapping[str, str | int]) -> bool:
    return any(Decimal(each) for each in amounts.values())


def _removed(earlier: ScopeView, options: Mapping[str, str | None]) -> list[str]:
    """Return the amounts of an earlier limit that the new one does not replace."""
    removed, again = [], dict(options)
    has_limit = options["part"] or any(options[option] for option in _OF_A_BUDGET)
    if earlier.part is not None and not has_limit:
        removed.append(f"limit of {exact_percent(earlier.part)}")
        again["part"] = earlier.part
    if earlier.policy is not None and not has_limit:
        removed.append("separate budget")
        again |= {option: str(earlier.policy.get(option, "")) for option in _OF_A_BUDGET}
    if earlier.pace is not None and not options["pace"]:
        pace = earlier.pace
        removed.append(f"period limit of {exact_percent(pace.part)} {each_period(pace.period)}")
        again |= {"pace": pace.part, "period": pace.period}
    if earlier.reserved is not None and not options["reserved"]:
        removed.append(f"reserved {exact_percent(earlier.reserved.part)}")
        again["reserved"] = earlier.reserved.part
    if not removed:
        return []
    what = " and the ".join(removed)
    every = "both" if len([each for each in _KINDS if again.get(each)]) == 2 else "all"
    words = " ".join(f"--{option} {value}" for option, value in again.items() if value)
    return [f"this removed the {what}; to keep {every}: {words}"]
