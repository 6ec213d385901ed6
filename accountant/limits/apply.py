"""The state of a limit after a decision: a record that sets it, or a grant."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.filters import BesideBasic, Filter
from accountant.limits.compiled_limit import part_of
from accountant.limits.periods import Periods
from accountant.limits.state import (
    Count,
    LimitRule,
    LimitState,
    PeriodUsage,
    amounts_from,
    unused_of,
)
from accountant.limits.thresholds import with_reported
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records.limit_fields import kind_of, own_policy, stored_policy
from accountant.records.limit_records import (
    LimitRecord,
    LimitUpdate,
    PeriodLimitRecord,
    ReservedRecord,
    length_of,
)
from accountant.records.requests import SetLimit

RESERVABLE_FILTERS: Final = (
    "basic",
    "ex_post",
    "zcdp",
    "zcdp_tight",
    "fully_adaptive",
    "unified_brownian",
    "renyi",
)
"""Filters under which a part of each sum can be reserved: docs/theory.md, section 3."""


def is_possible(record: SetLimit, plan: CompiledPolicy) -> bool:
    """Return whether the filter supports the parts and the reserved share of a record."""
    period_part = None if record.pace is None else record.pace.part
    parts = [part for part in (record.part, period_part) if part is not None]
    if parts and not allows_parts(plan.kind):
        return False
    if record.reserved is not None:
        if not allows_reserved_shares(plan.kind):
            return False
        parts.append(record.reserved)
    return not any(_rounds_to_zero(part, plan) for part in parts)


def allows_parts(kind: Filter) -> bool:
    """Return whether a limit may be a part of the budget, or a period limit."""
    # A residue has no parts: what a pure mechanism costs depends on what was spent before.
    return kind.adds_up


def allows_reserved_shares(kind: Filter) -> bool:
    """Return whether a share of the budget can be reserved."""
    return kind.name in RESERVABLE_FILTERS and not isinstance(kind, BesideBasic)


def _rounds_to_zero(part: str, plan: CompiledPolicy) -> bool:
    budget = part_of(part, plan).values()
    return any(
        text == "0" and capacity for text, capacity in zip(budget, plan.capacity, strict=True)
    )


def limit_record_of(
    record: SetLimit, plan: CompiledPolicy, version: int, team: str | None
) -> LimitRecord:
    """Return an owner's record with its budgets in units, as its decision stores it.

    Args:
        version: the next one of this scope and name.
        team: of an analyst, at this time.
    """
    resolved = LimitRecord(record.scope, record.name, version, record.part)
    if record.part is not None:
        resolved = _with(resolved, budget=part_of(record.part, plan))
    elif record.policy is not None:
        own = open_plan(own_policy(record.policy))
        resolved = _with(resolved, policy=stored_policy(record.policy), budget=own.budget_wire)
    if record.pace is not None:
        budget = part_of(record.pace.part, plan)
        resolved = _with(
            resolved, pace=PeriodLimitRecord(record.pace.part, record.pace.period, budget)
        )
    if record.reserved is not None:
        within = team if record.scope == "analyst" else None
        share = ReservedRecord(record.reserved, part_of(record.reserved, plan), within)
        resolved = _with(resolved, reserved=share)
    return resolved if record.until is None else _with(resolved, until=record.until)


def _with(resolved: LimitRecord, **fields: object) -> LimitRecord:
    return msgspec.structs.replace(resolved, **fields)


def apply_record(
    before: LimitState | None,
    dataset: str,
    record: LimitRecord,
    plan: CompiledPolicy,
    at: int,
    sequence: int,
) -> LimitState:
    """Return the limit's state after a record. A live decision and a replay both call this.

    Args:
        before: None for the first record of its scope and name.
        record: as its decision stores it.
        at: the decision's time, milliseconds since 1970.
        sequence: the decision's number in the dataset.
    """
    state = before or LimitState(dataset, record.scope, "", record.name or "")
    old = state.rule or LimitRule(LimitRecord(record.scope))
    kind, counted_since, counted = old.kind, old.counted_since, state.counted
    if record.limits:
        kind = kind_of(plan.policy if record.policy is None else own_policy(record.policy))
        if kind != old.kind:
            counted_since, counted = record.version, None
    # Periods continue without a period limit: the current usage counts when one is set again.
    periods = old.periods
    if record.pace is not None:
        length = length_of(record.pace.period)
        periods = periods.with_length(length, at) if periods else Periods(length, at, length)
    shared_since, used = 0, None
    if record.reserved is not None:  # an earlier share that has ended counts no more
        shared_since, used = old.shared_since or record.version, state.used
    set_by = sequence if record.reserved is not None else 0
    rule = LimitRule(record, kind, counted_since, periods, shared_since, set_by)
    unused = unused_of(rule, used)
    return LimitState(
        dataset,
        record.scope,
        "",
        state.name,
        sequence,
        rule,
        counted,
        state.period_usage,
        used,
        unused,
        state.reported,
    )


def apply_grant(
    state: LimitState,
    limit: LimitState,
    update: LimitUpdate,
    sequence: int,
    resets: int,
    plan: CompiledPolicy | None,
) -> LimitState:
    """Return the limit's state after a grant.

    Args:
        state: before the grant.
        limit: the limit whose rule applies: `state` itself, or the team's per-analyst default.
        update: what the decision says about this limit.
        sequence: number of the decision in its dataset.
        resets: number of the partition's clock resets at that time.
        plan: of the dataset; without it the reported thresholds stay as they were.
    Raises: ValueError: a text is not an amount.
    """
    rule = limit.rule
    assert rule is not None
    counted, period_usage, used = state.counted, state.period_usage, state.used
    if update.totals is not None:
        amounts = amounts_from(update.totals, update.rounded_up)
        counted = Count(rule.counted_since, tuple(update.totals), amounts)
    if update.paced is not None and update.window is not None and rule.periods is not None:
        amounts = amounts_from(update.paced, update.paced_rounded_up)
        begins_at = rule.periods.begin(update.window)
        period_usage = PeriodUsage(begins_at, tuple(update.paced), amounts, resets)
    if update.used is not None:
        amounts = amounts_from(update.used, update.used_rounded_up)
        used = Count(rule.shared_since, tuple(update.used), amounts)
    after = state.after_grant(
        sequence, counted, period_usage, used, unused_of(state.rule, used), state.reported
    )
    if plan is None or not update.crossed:
        return after
    return with_reported(state, after, rule, plan, update.crossed, sequence)
