"""Who used what, and why requests were refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from accountant.amounts import Units, format_units, parse_units
from accountant.display.numbers import part_of, spent_amount, symbol
from accountant.display.reasons import NO_ROOM, NO_ROOM_AT_A_LIMIT, REASONS, REFUSED_AT, Subject
from accountant.display.texts import shorten
from accountant.records.outcomes import Reason
from accountant.views.datasets import DatasetView
from accountant.views.overview import UsageSum
from accountant.views.why import Why
from accountant.views.why.report import RefusalsByReason
from streams.pages.dataset.bars import Bar, bar_of, first_of

MOST: Final = 20
_LONGEST: Final = 120


class UsageBar(NamedTuple):
    """Usage by one analyst or for one purpose."""

    key: str
    spent: str
    bar: Bar
    granted: int
    refused: int


class UsageRows(NamedTuple):
    """The largest users, and the sum of all others.

    Attributes:
        others: the number of rows summed up in `rest`.
    """

    rows: tuple[UsageBar, ...]
    rest: UsageBar | None
    others: int


class RefusalCount(NamedTuple):
    """Refusals of one reason."""

    code: str
    title: str
    meaning: str
    times: int
    width: float


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    spent: Units
    granted: int
    refused: int


def by_key(view: DatasetView, rows: Sequence[UsageSum], *, unnamed: str = "") -> UsageRows:
    """Return the largest users by analyst or purpose; each bar is a part of the whole budget.

    Args:
        unnamed: shown for an empty key.
    """
    named = [
        _Row(
            shorten(row.key, _LONGEST) or unnamed, parse_units(row.spent), row.granted, row.refused
        )
        for row in rows
    ]
    return _usage(view, named)


def _usage(view: DatasetView, rows: list[_Row]) -> UsageRows:
    ordered = sorted(rows, key=lambda row: (-row.spent, -row.refused, row.key))
    shown, rest = ordered[:MOST], ordered[MOST:]
    summed = None
    if rest:
        spent, granted = sum(row.spent for row in rest), sum(row.granted for row in rest)
        key = f"{len(rest):,} others together"
        summed = _used(view, _Row(key, spent, granted, sum(row.refused for row in rest)))
    return UsageRows(tuple(_used(view, row) for row in shown), summed, len(rest))


def _used(view: DatasetView, row: _Row) -> UsageBar:
    spent, name = format_units(row.spent), symbol(next(iter(view.budget)))
    bar = bar_of(part_of(spent, first_of(view.budget)))
    return UsageBar(row.key, f"{name} {spent_amount(spent)}", bar, row.granted, row.refused)


def refusals(why: Why) -> tuple[RefusalCount, ...]:
    """Return refusals by reason and limit scope, the most frequent first."""
    largest = max((each.refused for each in why.refusals), default=1)
    subject = Subject(why.dataset, f"dataset {why.dataset}")
    return tuple(_refused(each, largest, subject) for each in why.refusals)


def _refused(each: RefusalsByReason, largest: int, subject: Subject) -> RefusalCount:
    reason = Reason(each.reason)
    title, words = REASONS[reason].title, REASONS[reason]
    meaning, remedy = words.meaning_of(subject), words.remedy_of(subject)
    if reason is Reason.EXHAUSTED:
        title = f"{title} at {REFUSED_AT[each.level]}"
        meaning = NO_ROOM if each.level is None else NO_ROOM_AT_A_LIMIT
    width = round(100 * each.refused / largest, 2)
    return RefusalCount(each.reason, title, f"{meaning} {remedy}", each.refused, width)
