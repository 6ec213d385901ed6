"""Limits of a dataset as people see them, of one moment; nothing here decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from accountant.amounts import Units, format_units, ratio_between
from accountant.dataset_ledger import DatasetLedger
from accountant.field_rules import Amounts, Count, Name, PartOfOne, Period, Ratio, Time
from accountant.fractional import round_up_amounts, whole_down
from accountant.ledger.snapshots import remaining_wire
from accountant.limits.applicable_limits import (
    ApplicableLimit,
    ApplicableLimits,
    applicable_limits,
    limit_at,
    unreserved,
)
from accountant.limits.charge import after_refund
from accountant.limits.compiled_limit import CompiledLimit
from accountant.limits.reserved_totals import Sums
from accountant.limits.state import LimitRule, LimitState
from accountant.limits.store import LimitOverlay, LimitStore, as_of
from accountant.records.limit_records import LimitPolicy, LimitRecord, Scope, Texts
from accountant.records.person_pauses import PersonPause
from accountant.reservations.reservation import Reservation
from accountant.times import NO_RESETS, ClockResets, iso
from accountant.views.ledgers import held_ratio
from accountant.views.reservations import HeldAtLimits

_ORDER: Final[dict[Scope, int]] = {"dataset": 0, "team": 1, "each": 2, "analyst": 3}


class PeriodLimitView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pace in the period that it is in.

    Attributes:
        part, period: as the owner set them.
        budget, used, left: in each sum of the dataset's filter, in this period.
        spent_ratio: part of this period's budget that is used, rounded up, in [0, 1].
        begins_at, ends_at: of the period; the next one begins with nothing used.
        held, held_ratio: as of a `ScopeView`.
    """

    part: Ratio
    period: Period
    budget: Amounts
    used: Amounts
    left: Amounts
    spent_ratio: PartOfOne
    begins_at: Time
    ends_at: Time
    held: Amounts | None = None
    held_ratio: PartOfOne | None = None


class ShareView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reserved share.

    Attributes:
        budget, left: what it comes to in each sum, and what of it is still unused.
        team: the team whose share contains an analyst's.
        cut: what releases made elsewhere have taken of it; left out for nothing.
        cut_by: number of the dataset's decision that has cut it last.
    """

    part: Ratio
    budget: Amounts
    left: Amounts
    team: Name | None = None
    cut: Amounts | None = None
    cut_by: Count | None = None


class ScopeView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit and its use.

    Attributes:
        scope, name, version: as in `limit` of a decision. `each` is the default for each analyst
            of team `name`.
        analyst: of a default: whose usage this is. The default itself has no `analyst`, `used` and
            `left`.
        part, policy, budget: as in `limit` of a decision.
        used, left, spent_ratio: by the sums of its filter: used is rounded up, left down. The used
            ratio of the first sum is in [0, 1], rounded up.
        held, held_ratio: what open reservations hold of `used`, and of `spent_ratio`. Left out for
            nothing.
        pace: `part`, `period`, `budget`; `used` and `left` in the current period, which lasts from
            `begins_at` to `ends_at`; `held` and `held_ratio` of it.
        reserved: `part`, `budget`; `left`, what is still reserved; `team`, within whose share an
            analyst's lies; `cut` and `cut_by`, what releases made elsewhere took of it, and the
            last such decision of the dataset.
        until: when the limit ends; left out for never.
    """

    scope: Scope
    name: Name | None = None
    analyst: Name | None = None
    version: Count
    part: Ratio | None = None
    policy: LimitPolicy | None = None
    budget: Amounts | None = None
    used: Amounts | None = None
    left: Amounts | None = None
    spent_ratio: PartOfOne | None = None
    pace: PeriodLimitView | None = None
    reserved: ShareView | None = None
    until: Time | None = None
    held: Amounts | None = None
    held_ratio: PartOfOne | None = None


class AnalystBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one analyst may still use of one dataset.

    Attributes:
        dataset, analyst, team: names.
        budget, spent_ratio, held_ratio: of the dataset; the budget is the one in force.
        ceiling: what each sum may reach under the policy, of which limits are parts; left out where
            all of it is in force.
        paused, halted: true while the dataset is paused, or has halted: it grants nothing. Left out
            otherwise.
        pause: what keeps this analyst from asking, their own pause or their team's.
        left: remaining in the dataset, without what is reserved for others.
        levels: the limits that apply, with the fields above, in the order of the checks.
    """

    dataset: Name
    analyst: Name
    team: Name | None = None
    budget: Amounts
    left: Amounts
    spent_ratio: PartOfOne
    levels: tuple[ScopeView, ...] = ()
    ceiling: Amounts = {}
    paused: bool = False
    halted: bool = False
    held_ratio: PartOfOne | None = None
    pause: PersonPause | None = None


decode_scope_views = msgspec.json.Decoder(list[ScopeView]).decode
decode_analyst_budget = msgspec.json.Decoder(AnalystBudget).decode
decode_analyst_budgets = msgspec.json.Decoder(list[AnalystBudget]).decode


class DatasetLimits(NamedTuple):
    """A dataset and its limits, at one moment.

    Attributes:
        levels: of the whole partition; `store` has them as they are at that time.
        at: milliseconds since 1970.
        resets: those of the partition's clock.
        reservations: the open ones of the dataset.
    """

    ledger: DatasetLedger
    levels: LimitStore
    at: int
    resets: ClockResets = NO_RESETS
    reservations: Sequence[Reservation] = ()

    @property
    def store(self) -> LimitStore:
        """The limits, without those that have ended by then."""
        return as_of(self.levels, self.ledger.dataset, self.at)

    def applicable_to(self, analyst: str, team: str) -> ApplicableLimits | None:
        """Return the levels that an analyst's request is checked at, None if there are none.

        Args:
            analyst, team: "" for somebody without a limit, and for no team.
        """
        return applicable_limits(self.ledger, self.store, analyst, team, self.at, self.resets)

    def applicable_after(
        self, ledger: DatasetLedger, charged: Iterable[LimitState], analyst: str, team: str
    ) -> ApplicableLimits | None:
        """As `applicable_to`, after a grant that was not made.

        Args:
            ledger: after it.
            charged: the levels after it.
        """
        overlay = LimitOverlay(self.store)
        for level in charged:
            overlay.put(level)
        return applicable_limits(ledger, overlay, analyst, team, self.at, self.resets)


def scope_views(divided: DatasetLimits) -> list[ScopeView]:
    """Return every limit of a dataset that is in force, by scope and name."""
    held = HeldAtLimits(divided.reservations)
    found = [
        scope_view(divided, level, level.rule, held)
        for level in divided.store.limits_of(divided.ledger.dataset)
        if level.rule is not None and level.is_in_force
    ]
    return sorted(found, key=lambda view: (_ORDER[view.scope], view.name or ""))


def default_views(divided: DatasetLimits, teams: Mapping[str, str]) -> list[ScopeView]:
    """Return what analysts have used under their teams' defaults, by name.

    Args:
        teams: of the analysts, in force at that time.
    """
    store, dataset = divided.store, divided.ledger.dataset
    held, found = HeldAtLimits(divided.reservations), list[ScopeView]()
    for level in store.of_dataset(dataset):
        if not level.team or teams.get(level.name) != level.team:
            continue
        own = store.get((dataset, "analyst", "", level.name))
        default = store.get((dataset, "each", "", level.team))
        is_default = own is None or not own.is_in_force
        if is_default and default is not None and default.rule and default.is_in_force:
            resets = divided.resets
            limit = limit_at(level, default.rule, divided.ledger.plan, divided.at, resets)
            found.append(_view(limit, held))
    return sorted(found, key=lambda view: view.analyst or "")


def analyst_budget(
    divided: DatasetLimits, analyst: str, team: str, pause: PersonPause | None = None
) -> AnalystBudget:
    """Return what one analyst may still use.

    Args:
        team: the analyst's at this time, "" for none.
        pause: what keeps the analyst from asking.
    """
    ledger, limits = divided.ledger, divided.applicable_to(analyst, team)
    left = None if limits is None else unreserved(limits, ledger)
    applied_now = () if limits is None else limits.limits
    held = HeldAtLimits(divided.reservations)
    return AnalystBudget(
        dataset=ledger.dataset,
        analyst=analyst,
        team=team or None,
        budget=ledger.plan.limits_wire,
        ceiling={} if ledger.plan.in_force is UNSET else ledger.plan.budget_wire,
        left=remaining_wire(ledger) if left is None else left,
        spent_ratio=ledger.spent_ratio,
        levels=tuple([_view(each, held) for each in applied_now]),
        paused=ledger.facts.paused,
        halted=ledger.halted,
        held_ratio=held_ratio(ledger) or None,
        pause=pause,
    )


def scope_view(
    divided: DatasetLimits, level: LimitState, rule: LimitRule, held: HeldAtLimits | None = None
) -> ScopeView:
    """Return one limit and its use.

    Args:
        rule: the level's.
        held: what the dataset's open reservations hold of its limits; None to leave that out.
    """
    # A default has no usage: each analyst under it has a level of their own.
    is_used = rule.record.scope != "each"
    plan, at, resets = divided.ledger.plan, divided.at, divided.resets
    held = HeldAtLimits(()) if held is None else held
    return _view(limit_at(level, rule, plan, at, resets), held, is_used=is_used)


def _view(each: ApplicableLimit, held: HeldAtLimits, *, is_used: bool = True) -> ScopeView:
    record, level, limit = each.rule.record, each.state, each.compiled.limit
    used, left, ratio = None, None, None
    share = _HeldPart()
    if limit is not None and is_used:
        used, left = _texts(limit, each.counted), limit.remaining(each.counted)
        ratio = limit.spent_ratio(each.counted)
        since = each.rule.counted_since
        share = _held(limit, each.counted, held.counted(level.key, since, limit.nothing))
    return ScopeView(
        scope=record.scope,
        name=record.name,
        analyst=level.name if level.team else None,
        version=record.version,
        part=record.part,
        policy=record.policy,
        budget=record.budget,
        used=used,
        left=left,
        spent_ratio=ratio,
        pace=_period_limit_view(each, held),
        reserved=_share_view(record, level),
        until=record.until,
        held=share.texts,
        held_ratio=share.ratio,
    )


class _HeldPart(NamedTuple):
    texts: Texts | None = None
    ratio: float | None = None


def _held(limit: CompiledLimit, used: Sums, held: Sums) -> _HeldPart:
    """Return what open reservations hold of a limit, and which part of its budget that is."""
    if not any(held):
        return _HeldPart()
    without = limit.spent_ratio(after_refund(used, held))
    return _HeldPart(_texts(limit, held), ratio_between(without, limit.spent_ratio(used)))


def _period_limit_view(each: ApplicableLimit, held: HeldAtLimits) -> PeriodLimitView | None:
    record, period_limit, periods = (
        each.rule.record.pace,
        each.compiled.period_limit,
        each.rule.periods,
    )
    if record is None or period_limit is None or periods is None:
        return None
    begins_at = periods.begin(each.period)
    amounts = held.paced(each.state.key, begins_at, period_limit.nothing)
    share = _held(period_limit, each.period_used, amounts)
    return PeriodLimitView(
        part=record.part,
        period=record.period,
        budget=record.budget,
        used=_texts(period_limit, each.period_used),
        left=period_limit.remaining(each.period_used),
        spent_ratio=period_limit.spent_ratio(each.period_used),
        begins_at=iso(begins_at),
        ends_at=iso(periods.end(each.period)),
        held=share.texts,
        held_ratio=share.ratio,
    )


def _share_view(record: LimitRecord, level: LimitState) -> ShareView | None:
    share = record.reserved
    if share is None:
        return None
    left = zip(share.budget, map(_down, level.unused), strict=True)
    return ShareView(
        part=share.part,
        budget=share.budget,
        left={name: format_units(amount) for name, amount in left},
        team=share.team,
        cut=_cut(level),
        cut_by=(level.rule.cut_by or None) if level.rule is not None else None,
    )


def _cut(level: LimitState) -> Texts | None:
    rule = level.rule
    if rule is None or not rule.cut:
        return None
    return dict(zip(rule.share_sums, map(format_units, rule.cut), strict=True))


def _texts(bound: CompiledLimit, spent: Sums) -> Texts:
    """Return what was used of each sum, rounded up."""
    amounts = round_up_amounts(spent)[: len(bound.kind.sums)]
    return dict(zip(bound.kind.sums, map(format_units, amounts), strict=True))


def _down(amount: Units) -> Units:
    return whole_down(amount) if isinstance(amount, int) else amount
