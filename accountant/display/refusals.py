"""Why a request was refused, and when more comes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from accountant.advice.preview import Preview
from accountant.display.limits import whose
from accountant.display.numbers import Texts, left_amount, spent_amount
from accountant.display.reasons import NO_ROOM, REASONS
from accountant.display.times import moment
from accountant.limits.wire import Scope
from accountant.records import Decision
from accountant.records.outcomes import Reason
from accountant.times import from_iso
from accountant.views.limit_views import PaceView

_NO_ROOM_AT: Final = {
    "limit": "The limit of {whose} has no room.",
    "pace": "The pace of {whose} has no room in this period.",
    "reserved": "The rest of the budget is reserved for others.",
}
_WAITING: Final = "Waiting will not help: "
_SMALLER: Final = "Ask for less at a time."

Paces = Mapping[tuple[Scope, str | None], PaceView]
"""Paces as they stand, by the scope and name of their limit."""


class MoreAvailable(NamedTuple):
    """When more comes.

    Attributes:
        text: a sentence. `at`: the time that it names, None where waiting brings nothing.
    """

    text: str
    at: str | None = None


def refusal_words(refused: Decision | Preview) -> str:
    """Return what a reason means here, and what to do next where `fits` does not say it.

    "" without a reason.
    """
    reason = refused.reason
    if reason is None:
        return ""
    words, level = REASONS[reason], refused.level
    if too_much := _delta_words(refused.asked, refused.left):
        return too_much
    if level is not None and level.what is not None:
        return _NO_ROOM_AT[level.what].format(whose=whose(level.scope, level.name))
    if reason is Reason.EXHAUSTED:
        return NO_ROOM
    by = "" if level is None else f" The budget of {whose(level.scope, level.name)} decides so."
    return f"{words.meaning}{by} {words.remedy}"


def _delta_words(asked: Texts | None, left: Texts | None) -> str:
    """Return what to do where a claim's delta is more than is left for claims, else ""."""
    delta, rest = (asked or {}).get("delta", "0"), (left or {}).get("delta")
    if rest is None or Decimal(delta) <= Decimal(rest):
        return ""
    there = "nothing" if Decimal(rest) == 0 else left_amount(rest)
    return (
        f"The claim has a delta of {spent_amount(delta)}, and {there} of the dataset's delta is "
        "left for claims. Ask for one without a delta, such as pure, laplace or gaussian."
    )


def when_more(
    refused: Decision | Preview, paces: Paces | None = None, decided_at: int = 0
) -> MoreAvailable | None:
    """Return when more comes of a request that did not fit, None of any other.

    Args:
        paces: as they stand now, where the refusal may be of an earlier period.
        decided_at: milliseconds since 1970.
    """
    level = refused.level
    if refused.reason is not Reason.EXHAUSTED:
        return None
    if level is None:
        return MoreAvailable(f"{_WAITING}a dataset's budget is fixed.")
    if level.what == "limit":
        return MoreAvailable(f"{_WAITING}an owner would have to raise the limit.")
    if level.what == "reserved":
        return MoreAvailable(f"{_WAITING}an owner would have to reserve less for others.")
    place = level.scope, level.name
    at = next((each.more_at for each in refused.left_at if (each.scope, each.name) == place), None)
    if at is None:
        return MoreAvailable(f"{_WAITING}a whole period has no room. {_SMALLER}")
    if paces is not None:
        pace = paces.get(place)
        if pace is None:
            return MoreAvailable("That pace was lifted since, or began again: ask again.")
        if not from_iso(pace.begins_at) <= decided_at < from_iso(pace.ends_at):
            return MoreAvailable("A new period has begun since: ask again.")
        at = pace.ends_at
    return MoreAvailable(f"More comes at {moment(at)}.", at)
