"""The state of a limit after a decision: a record that sets it, or a grant."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.filters import BesideBasic
from accountant.limits.compiled_limit import part_of
from accountant.limits.periods import Periods
from accountant.limits.state import (
    Count,
    Level,
    LimitState,
    PeriodUsage,
    amounts_from,
    unused_of,
)
from accountant.limits.wire import (
    LevelMoved,
    LimitRecord,
    PaceRecord,
    ReservedRecord,
    length_of,
)
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records.limit_fields import kind_of, own_policy, stored_policy
from accountant.records.requests import SetLimit

_RESERVABLE_FILTERS: Final = (
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
    pace = None if record.pace is None else record.pace.part
    parts = [part for part in (record.part, pace) if part is not None]
    # A residue has no parts: what a pure mechanism costs depends on what was spent before.
    if parts and not plan.kind.adds_up:
        return False
    if record.reserved is not None:
        if plan.policy.filter not in _RESERVABLE_FILTERS or isinstance(plan.kind, BesideBasic):
            return False
        parts.append(record.reserved)
    return not any(_rounds_to_zero(part, plan) for part in parts)


def _rounds_to_zero(part: str, plan: CompiledPolicy) -> bool:
    budget = part_of(part, plan).values()
    return any(
        text == "0" and capacity for text, capacity in zip(budget, plan.capacity, strict=True)
    )


def record_of(
    record: SetLimit, plan: CompiledPolicy, version: int, team: str | None
) -> LimitRecord:
    """Return a record as its decision stores it.

    Args:
        version: of this scope and name.
        team: that of an analyst at this time.
    """
    found = LimitRecord(record.scope, record.name, version, record.part)
    if record.part is not None:
        found = _with(found, budget=part_of(record.part, plan))
    elif record.policy is not None:
        own = open_plan(own_policy(record.policy))
        found = _with(found, policy=stored_policy(record.policy), budget=own.budget_wire)
    if record.pace is not None:
        budget = part_of(record.pace.part, plan)
        found = _with(found, pace=PaceRecord(record.pace.part, record.pace.period, budget))
    if record.reserved is not None:
        within = team if record.scope == "analyst" else None
        share = ReservedRecord(record.reserved, part_of(record.reserved, plan), within)
        found = _with(found, reserved=share)
    return found


def _with(found: LimitRecord, **fields: object) -> LimitRecord:
    return msgspec.structs.replace(found, **fields)


def apply_record(
    before: Level | None,
    dataset: str,
    record: LimitRecord,
    plan: CompiledPolicy,
    at: int,
    sequence: int,
) -> Level:
    """Return the level after a record, as its decision stores it; the same live and in a replay.

    Args:
        before: None for the first record about it.
        at: the decision's time, milliseconds since 1970.
        sequence: the decision's number in the dataset.
    """
    level = before or Level(dataset, record.scope, "", record.name or "")
    old = level.rule or LimitState(LimitRecord(record.scope))
    kind, counted_since, counted = old.kind, old.counted_since, level.counted
    if record.limits:
        kind = kind_of(plan.policy if record.policy is None else own_policy(record.policy))
        if kind != old.kind:
            counted_since, counted = record.version, None
    # Periods continue without a period limit: the current usage counts when one is set again.
    periods = old.periods
    if record.pace is not None:
        length = length_of(record.pace.period)
        periods = periods.changed(length, at) if periods else Periods(length, at, length)
    shared_since, used = 0, None
    if record.reserved is not None:
        shared_since, used = old.shared_since or record.version, level.used
    rule = LimitState(record, kind, counted_since, periods, shared_since)
    unused = unused_of(rule, used)
    return Level(
        dataset, record.scope, "", level.name, sequence, rule, counted, level.paced, used, unused
    )


def apply_grant(level: Level, limit: Level, moved: LevelMoved, sequence: int, resets: int) -> Level:
    """Return a level as a grant has left it.

    Args:
        level: before the grant.
        limit: the level whose rule applies: `level` itself, or the team's per-analyst default.
        sequence: number of the decision in its dataset.
        resets: how often the partition's clock had been set back.
    Raises: ValueError: a text is not an amount.
    """
    rule = limit.rule
    assert rule is not None
    counted, paced, used = level.counted, level.paced, level.used
    if moved.totals is not None:
        amounts = amounts_from(moved.totals, moved.rounded_up)
        counted = Count(rule.counted_since, tuple(moved.totals), amounts)
    if moved.paced is not None and moved.window is not None and rule.periods is not None:
        amounts = amounts_from(moved.paced, moved.paced_rounded_up)
        begins_at = rule.periods.begin(moved.window)
        paced = PeriodUsage(begins_at, tuple(moved.paced), amounts, resets)
    if moved.used is not None:
        amounts = amounts_from(moved.used, moved.used_rounded_up)
        used = Count(rule.shared_since, tuple(moved.used), amounts)
    return level.moved(sequence, counted, paced, used, unused_of(level.rule, used))
