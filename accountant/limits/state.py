"""A limit and its usage as a partition stores them, and their rows of `state`."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import Units, format_units, parse_units
from accountant.fractional import Fractional, excess_text, less_excess
from accountant.limits.compiled_limit import CompiledLimits, amounts_of, compile_limit
from accountant.limits.periods import Periods
from accountant.limits.reserved_totals import Sums, minus, plus, unused_share
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.limit_records import (
    DAY_MS,
    CountRow,
    LimitRecord,
    PeriodRow,
    PeriodsRow,
    ReportedRow,
    RuleRow,
    Scope,
    ScopeRow,
    Texts,
    length_of,
)
from accountant.times import from_iso
from accountant.versions import FORMAT

Key = tuple[str, Scope, str, str]
"""A limit's dataset, scope, team (of the per-analyst default in force), and name."""


class Count(msgspec.Struct, frozen=True, gc=False):
    """Amounts counted since some version of a limit.

    Attributes:
        since: that version.
        sums: names of the amounts.
    """

    since: int
    sums: tuple[str, ...]
    amounts: Sums


class PeriodUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of one period.

    Attributes:
        begins_at: when the period begins, in milliseconds since 1970. It shows whether the period
            still runs, also after the length of periods has changed.
        sums: names of the amounts.
        resets: number of clock resets at the last usage.
    """

    begins_at: int
    sums: tuple[str, ...]
    amounts: Sums
    resets: int


class Reported(msgspec.Struct, frozen=True, gc=False):
    """The thresholds that decisions have reported.

    Their ratios and not their number: an amendment changes the list of thresholds, and must not
    rewrite the row of each analyst under a default.

    Attributes:
        version: of the limit.
        ratios: reported under that version.
        earlier: reported under earlier versions, and still reached since.
    """

    version: int
    ratios: tuple[str, ...]
    earlier: tuple[str, ...] = ()

    def has(self, ratio: str) -> bool:
        """Tell whether a threshold was reported."""
        return ratio in self.ratios or ratio in self.earlier


class LimitRule:
    """What owners last set for a scope and name. Immutable.

    Attributes:
        record: as in its decision.
        is_in_force: whether it limits or reserves anything.
        over: the limit has ended. It counts as a removed one, but its record stays.
        until: when it ends, milliseconds since 1970; None for never, or if it is over.
        kind: the filter that counts the usage, "" if there never was a limit.
        counted_since, shared_since: version since which usage is counted, of limit and share.
        periods: of the period limit, or of the last one; None if there never was one.
        share: the reserved amounts, empty for none; `share_sums` are their names.
        set_by: number of the dataset's decision that has set the share, 0 for none.
        cut: what was cut of the share's amounts; empty for nothing.
        cut_by: number of the dataset's decision that has cut it last, 0 for none.
        team: the team whose share contains an analyst's.
    """

    __slots__ = (
        *("_under", "counted_since", "cut", "cut_by", "is_in_force", "kind", "periods", "record"),
        *("over", "set_by", "share", "share_sums", "shared_since", "team", "until"),
    )

    def __init__(
        self,
        record: LimitRecord,
        kind: str = "",
        counted_since: int = 0,
        periods: Periods | None = None,
        shared_since: int = 0,
        set_by: int = 0,
        cut: Sums = (),
        cut_by: int = 0,
        *,
        over: bool = False,
    ) -> None:
        self.record = record
        self.over = over
        self.is_in_force = record.is_in_force and not over
        self.until = None if over or record.until is None else from_iso(record.until)
        self.kind = kind
        self.counted_since, self.shared_since = counted_since, shared_since
        self.periods = periods
        self.set_by, self.cut, self.cut_by = set_by, cut, cut_by
        reserved = None if over else record.reserved
        self.share: Sums = minus(amounts_of(reserved.budget), cut) if reserved else ()
        self.share_sums = tuple(reserved.budget) if reserved else ()
        self.team = (reserved.team or "") if reserved else ""
        self._under: tuple[CompiledPolicy | None, CompiledLimits] = None, CompiledLimits(None, None)

    def under(self, plan: CompiledPolicy) -> CompiledLimits:
        """Return the limit compiled under the policy of its dataset."""
        # Cached: every request calls this, and only an amendment changes the policy. Compiling is
        # lazy because a limit's row may be read before the row of its dataset.
        # One attribute stores plan and result, so a thread never sees the result of another plan.
        under = self._under
        if under[0] is not plan:
            in_force = LimitRecord(self.record.scope) if self.over else self.record
            under = self._under = plan, compile_limit(in_force, plan)
        return under[1]


class LimitState(msgspec.Struct, frozen=True, gc=False):
    """A limit with its usage, or an analyst's usage under a per-analyst default.

    Attributes:
        team: the team of the default, for an analyst's usage under it; else "".
        name: the team or the analyst; "" for the dataset.
        sequence: number of the dataset's last decision that changed it, 0 for none.
        rule: None for an analyst's usage under a default.
        counted, period_usage, used: usage of the limit, of the period limit, and of the share.
        unused: the unused part of its own share, see `unused_of`.
        reported: None while no threshold was reached.
    """

    dataset: str
    scope: Scope
    team: str
    name: str
    sequence: int = 0
    rule: LimitRule | None = None
    counted: Count | None = None
    period_usage: PeriodUsage | None = None
    used: Count | None = None
    unused: Sums = ()
    reported: Reported | None = None

    @property
    def key(self) -> Key:
        """Its key in a `LimitTable`."""
        return self.dataset, self.scope, self.team, self.name

    def after_grant(
        self,
        sequence: int,
        counted: Count | None,
        period_usage: PeriodUsage | None,
        used: Count | None,
        unused: Sums,
        reported: Reported | None,
    ) -> LimitState:
        """Return the state after a grant, the dataset's decision `sequence`."""
        return LimitState(
            self.dataset,
            self.scope,
            self.team,
            self.name,
            sequence,
            self.rule,
            counted,
            period_usage,
            used,
            unused,
            reported,
        )

    @property
    def is_in_force(self) -> bool:
        """Whether it has a limit, a period limit or a share of its own."""
        return self.rule is not None and self.rule.is_in_force

    @property
    def is_set(self) -> bool:
        """Whether its last record set it, also if it has ended since."""
        return self.rule is not None and self.rule.record.is_in_force

    @property
    def until(self) -> int | None:
        """When it ends, milliseconds since 1970; None for never, or if it is over."""
        return None if self.rule is None else self.rule.until

    @property
    def share(self) -> Sums:
        """Its reserved share; empty for none."""
        return self.rule.share if self.rule is not None else ()

    @property
    def within(self) -> str:
        """The team whose share contains an analyst's, "" for none."""
        return self.rule.team if self.rule is not None else ""


def unused_of(rule: LimitRule | None, used: Count | None) -> Sums:
    """Return the unused part of a limit's own share."""
    if rule is None or not rule.share:
        return ()
    return unused_share(rule.share, used.amounts if used is not None else ())


def with_cut(state: LimitState, amounts: Sums, sequence: int) -> LimitState:
    """Return a limit whose share was cut, by the dataset's decision `sequence`.

    Args:
        amounts: whole units, at most the share.
    """
    old = state.rule
    assert old is not None
    rule = LimitRule(
        *(old.record, old.kind, old.counted_since, old.periods, old.shared_since, old.set_by),
        plus(old.cut, amounts),
        sequence,
    )
    unused = unused_of(rule, state.used)
    return msgspec.structs.replace(state, rule=rule, unused=unused, sequence=sequence)


def after_end(state: LimitState, sequence: int) -> LimitState:
    """Return a limit that has ended: its share is gone, and its usage stays counted.

    Args:
        sequence: of the dataset's decision that finds it over.
    """
    old = state.rule
    assert old is not None
    rule = LimitRule(old.record, old.kind, old.counted_since, old.periods, over=True)
    return msgspec.structs.replace(state, rule=rule, used=None, unused=(), sequence=sequence)


_NO_RULE: Final = RuleRow()


def row_of(state: LimitState) -> ScopeRow:
    """Return a limit's row in `state`."""
    rule = state.rule
    return ScopeRow(
        version=FORMAT,
        dataset=state.dataset,
        scope=state.scope,
        team=state.team or UNSET,
        name=state.name,
        sequence=state.sequence,
        limit=UNSET if rule is None else rule.record,
        rule=UNSET if rule is None else rule_row(rule, state.sequence),
        counted=_count_row(state.counted),
        paced=_period_row(state.period_usage),
        used=_count_row(state.used),
        reported=_reported_row(state.reported),
    )


def _reported_row(reported: Reported | None) -> ReportedRow | UnsetType:
    if reported is None:
        return UNSET
    earlier = reported.earlier or UNSET
    return ReportedRow(version=reported.version, ratios=reported.ratios, earlier=earlier)


def _count_row(count: Count | None) -> CountRow | UnsetType:
    if count is None:
        return UNSET
    totals, rounded_up = texts_of(count.sums, count.amounts)
    return CountRow(since=count.since, totals=totals, rounded_up=rounded_up or UNSET)


def _period_row(period_usage: PeriodUsage | None) -> PeriodRow | UnsetType:
    if period_usage is None:
        return UNSET
    totals, rounded_up = texts_of(period_usage.sums, period_usage.amounts)
    return PeriodRow(
        begins_at=period_usage.begins_at,
        totals=totals,
        rounded_up=rounded_up or UNSET,
        resets=period_usage.resets or UNSET,
    )


def rule_row(rule: LimitRule, sequence: int = 0) -> RuleRow:
    """Return the part of a limit's row that is in no decision.

    Args:
        sequence: of the row.
    """
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
        set_by=UNSET if rule.set_by == sequence else rule.set_by or UNSET,
        cut=texts_of(rule.share_sums, rule.cut)[0] if rule.cut else UNSET,
        cut_by=rule.cut_by or UNSET,
        over=rule.over or UNSET,
    )


def _days(length: int) -> str:
    return f"P{length // DAY_MS}D"


def limit_state_of(row: ScopeRow) -> LimitState:
    """Return the limit's state from its row.

    Raises: ValueError: a text is not an amount.
    """
    record, paced, reported = row.limit, row.paced, row.reported
    rule = None if record is UNSET else _rule(record, row.rule or _NO_RULE, row.sequence)
    used = None if row.used is UNSET else Count(*_count(row.used))
    return LimitState(
        row.dataset,
        row.scope,
        row.team or "",
        row.name,
        row.sequence,
        rule,
        None if row.counted is UNSET else Count(*_count(row.counted)),
        None if paced is UNSET else _period_usage(paced),
        used,
        unused_of(rule, used),
        None if reported is UNSET else _reported(reported),
    )


def _reported(row: ReportedRow) -> Reported:
    return Reported(row.version, row.ratios, row.earlier or ())


def _rule(record: LimitRecord, row: RuleRow, sequence: int) -> LimitRule:
    over = row.over is True
    set_by = 0 if record.reserved is None or over else row.set_by or sequence
    return LimitRule(
        record,
        row.kind or "",
        row.counted_since or 0,
        None if row.periods is UNSET else _periods(row.periods),
        row.shared_since or 0,
        set_by,
        () if row.cut is UNSET else amounts_of(row.cut),
        row.cut_by or 0,
        over=over,
    )


def _periods(row: PeriodsRow) -> Periods:
    return Periods(length_of(row.length), row.first_at, length_of(row.first or row.length))


def _period_usage(row: PeriodRow) -> PeriodUsage:
    amounts = amounts_from(row.totals, row.rounded_up or None)
    return PeriodUsage(row.begins_at, tuple(row.totals), amounts, row.resets or 0)


def _count(row: CountRow) -> tuple[int, tuple[str, ...], Sums]:
    return row.since, tuple(row.totals), amounts_from(row.totals, row.rounded_up or None)


def texts_of(sums: tuple[str, ...], amounts: Sums) -> tuple[Texts, Texts | None]:
    """Return the amounts by name, rounded up to units, and the excess of each that was rounded."""
    totals = dict(zip(sums, map(format_units, amounts), strict=True))
    if Fractional not in map(type, amounts):
        return totals, None
    named = zip(sums, amounts, strict=True)
    return totals, {n: excess_text(each) for n, each in named if isinstance(each, Fractional)}


def amounts_from(totals: Texts, rounded_up: Texts | None) -> Sums:
    """Return the amounts from the texts that `texts_of` returned.

    Raises: ValueError: a text is not an amount.
    """
    amounts: dict[str, Units] = {name: parse_units(text) for name, text in totals.items()}
    for name, text in (rounded_up or {}).items():
        whole = amounts.get(name)
        if not isinstance(whole, int):
            raise ValueError(f"no part of a unit of {name}")
        amounts[name] = less_excess(whole, text)
    return tuple(amounts.values())
