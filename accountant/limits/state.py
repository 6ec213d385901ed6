"""A limit and its use, as a partition keeps them, and their rows of `state`."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import Units, format_units, parse_units
from accountant.fractional import Fractional, excess_text, less_excess
from accountant.limits.compiled_limit import CompiledLimits, amounts_of, compile_limit
from accountant.limits.periods import Periods
from accountant.limits.reserved_totals import Sums, unused_share
from accountant.limits.wire import (
    DAY_MS,
    CountRow,
    LevelRow,
    LimitRecord,
    PeriodRow,
    PeriodsRow,
    RuleRow,
    Scope,
    Texts,
    length_of,
)
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.versions import FORMAT

Key = tuple[str, Scope, str, str]
"""A level's dataset, scope, the team of a default in force for an analyst, and the name."""


class Count(msgspec.Struct, frozen=True, gc=False):
    """Sums that are counted.

    Attributes:
        since: version of the limit from which on.
        sums: their names.
    """

    since: int
    sums: tuple[str, ...]
    amounts: Sums


class PeriodUsage(msgspec.Struct, frozen=True, gc=False):
    """What was used in one period.

    Attributes:
        begins_at: when the period begins, in milliseconds: whatever the pace is changed to, this
            says whether the period still runs.
        sums: names of the amounts.
        resets: how many times the clock had been set back when it was used last.
    """

    begins_at: int
    sums: tuple[str, ...]
    amounts: Sums
    resets: int


class LimitState:
    """The last record about a scope and name. It never changes.

    Attributes:
        record: as in its decision.
        is_in_force: whether it limits or reserves anything.
        kind: the filter that use is counted for, "" while there was no limit.
        counted_since, shared_since: version from which on use is counted.
        periods: of its pace, and of the last one where it has none now; None if it never had one.
        share: what is reserved, empty for nothing; `share_sums` are the names of its sums.
        team: the team whose share contains an analyst's.
    """

    __slots__ = (
        *("_under", "counted_since", "is_in_force", "kind", "periods", "record"),
        *("share", "share_sums", "shared_since", "team"),
    )

    def __init__(
        self,
        record: LimitRecord,
        kind: str = "",
        counted_since: int = 0,
        periods: Periods | None = None,
        shared_since: int = 0,
    ) -> None:
        self.record = record
        self.is_in_force = record.is_in_force
        self.kind = kind
        self.counted_since, self.shared_since = counted_since, shared_since
        self.periods = periods
        self.share: Sums = amounts_of(record.reserved.budget) if record.reserved else ()
        self.share_sums = tuple(record.reserved.budget) if record.reserved else ()
        self.team = (record.reserved.team or "") if record.reserved else ""
        self._under: tuple[CompiledPolicy | None, CompiledLimits] = None, CompiledLimits(None, None)

    def under(self, plan: CompiledPolicy) -> CompiledLimits:
        """Return what it comes to under the policy of its dataset."""
        # Every request asks, and a policy changes with an amendment alone. Nothing else depends on
        # when this is worked out: a row of `state` may be read before its dataset's.
        # One attribute: a reader in another thread never leaves one policy's bounds for another's.
        under = self._under
        if under[0] is not plan:
            under = self._under = plan, compile_limit(self.record, plan)
        return under[1]


class Level(msgspec.Struct, frozen=True, gc=False):
    """A level: its limit, its use, or both.

    Attributes:
        team: of the default, for the usage of an analyst under it.
        name: the team or the analyst; "" for the dataset.
        sequence: number of the dataset's decision that has set or moved it last, 0 for none yet.
        rule: None of the use under a default.
        counted, paced, used: under the limit, in the pace's period, of the share.
        unused: what its share still reserves by itself, see `unused_of`.
    """

    dataset: str
    scope: Scope
    team: str
    name: str
    sequence: int = 0
    rule: LimitState | None = None
    counted: Count | None = None
    paced: PeriodUsage | None = None
    used: Count | None = None
    unused: Sums = ()

    @property
    def key(self) -> Key:
        """Its place in a table."""
        return self.dataset, self.scope, self.team, self.name

    def moved(
        self,
        sequence: int,
        counted: Count | None,
        paced: PeriodUsage | None,
        used: Count | None,
        unused: Sums,
    ) -> Level:
        """Return it after a grant, the dataset's decision `sequence`."""
        return Level(
            self.dataset,
            self.scope,
            self.team,
            self.name,
            sequence,
            self.rule,
            counted,
            paced,
            used,
            unused,
        )

    @property
    def is_in_force(self) -> bool:
        """Whether it has a limit, a pace or a share of its own."""
        return self.rule is not None and self.rule.is_in_force

    @property
    def share(self) -> Sums:
        """What is reserved for it; empty for nothing."""
        return self.rule.share if self.rule is not None else ()

    @property
    def within(self) -> str:
        """The team whose share contains an analyst's, "" for none."""
        return self.rule.team if self.rule is not None else ""


def unused_of(rule: LimitState | None, used: Count | None) -> Sums:
    """Return what a level's share still reserves by itself."""
    if rule is None or not rule.share:
        return ()
    return unused_share(rule.share, used.amounts if used is not None else ())


_NO_RULE: Final = RuleRow()


def row_of(level: Level) -> LevelRow:
    """Return a level's row in `state`."""
    rule = level.rule
    return LevelRow(
        version=FORMAT,
        dataset=level.dataset,
        scope=level.scope,
        team=level.team or UNSET,
        name=level.name,
        sequence=level.sequence,
        limit=UNSET if rule is None else rule.record,
        rule=UNSET if rule is None else _rule_row(rule),
        counted=_count_row(level.counted),
        paced=_paced_row(level.paced),
        used=_count_row(level.used),
    )


def _count_row(count: Count | None) -> CountRow | UnsetType:
    if count is None:
        return UNSET
    totals, rounded_up = texts_of(count.sums, count.amounts)
    return CountRow(since=count.since, totals=totals, rounded_up=rounded_up or UNSET)


def _paced_row(paced: PeriodUsage | None) -> PeriodRow | UnsetType:
    if paced is None:
        return UNSET
    totals, rounded_up = texts_of(paced.sums, paced.amounts)
    return PeriodRow(
        begins_at=paced.begins_at,
        totals=totals,
        rounded_up=rounded_up or UNSET,
        resets=paced.resets or UNSET,
    )


def _rule_row(rule: LimitState) -> RuleRow:
    periods = rule.periods
    return RuleRow(
        kind=rule.kind or UNSET,
        counted_since=rule.counted_since or UNSET,
        periods=UNSET
        if periods is None
        else PeriodsRow(
            length=_days(periods.length),
            first_at=periods.first_at,
            first=UNSET if periods.first == periods.length else _days(periods.first),
        ),
        shared_since=rule.shared_since or UNSET,
    )


def _days(length: int) -> str:
    return f"P{length // DAY_MS}D"


def level_of(row: LevelRow) -> Level:
    """Return the level that a row holds.

    Raises: ValueError: an amount is none.
    """
    record, paced = row.limit, row.paced
    rule = None if record is UNSET else _rule(record, row.rule or _NO_RULE)
    used = None if row.used is UNSET else Count(*_count(row.used))
    return Level(
        row.dataset,
        row.scope,
        row.team or "",
        row.name,
        row.sequence,
        rule,
        None if row.counted is UNSET else Count(*_count(row.counted)),
        None if paced is UNSET else _paced(paced),
        used,
        unused_of(rule, used),
    )


def _rule(record: LimitRecord, row: RuleRow) -> LimitState:
    return LimitState(
        record,
        row.kind or "",
        row.counted_since or 0,
        None if row.periods is UNSET else _periods(row.periods),
        row.shared_since or 0,
    )


def _periods(row: PeriodsRow) -> Periods:
    return Periods(length_of(row.length), row.first_at, length_of(row.first or row.length))


def _paced(row: PeriodRow) -> PeriodUsage:
    amounts = amounts_from(row.totals, row.rounded_up or None)
    return PeriodUsage(row.begins_at, tuple(row.totals), amounts, row.resets or 0)


def _count(row: CountRow) -> tuple[int, tuple[str, ...], Sums]:
    return row.since, tuple(row.totals), amounts_from(row.totals, row.rounded_up or None)


def texts_of(sums: tuple[str, ...], amounts: Sums) -> tuple[Texts, Texts | None]:
    """Return amounts by name, rounded up, and by how much those exceed that are no whole units."""
    totals = dict(zip(sums, map(format_units, amounts), strict=True))
    if Fractional not in map(type, amounts):
        return totals, None
    named = zip(sums, amounts, strict=True)
    return totals, {n: excess_text(each) for n, each in named if isinstance(each, Fractional)}


def amounts_from(totals: Texts, rounded_up: Texts | None) -> Sums:
    """Return the amounts that `texts_of` has written.

    Raises: ValueError: they are none.
    """
    amounts: dict[str, Units] = {name: parse_units(text) for name, text in totals.items()}
    for name, text in (rounded_up or {}).items():
        whole = amounts.get(name)
        if not isinstance(whole, int):
            raise ValueError(f"no part of a unit of {name}")
        amounts[name] = less_excess(whole, text)
    return tuple(amounts.values())
