"""A limit record: what it comes to, and the level after it."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.filters import BesideBasic
from accountant.ledger.levels.bound import part_of
from accountant.ledger.levels.level import Level, Rule, unused_of
from accountant.ledger.levels.periods import Periods
from accountant.policy.compiled import CompiledPolicy, open_plan
from accountant.records.limits.check import kind_of, length_of, own_policy, told_policy
from accountant.records.limits.limits import LimitTold, PaceTold, ReservedTold
from accountant.records.requests import SetLimit

_SHARED: Final = (
    *("basic", "ex_post", "zcdp", "zcdp_tight", "fully_adaptive", "unified_brownian"),
    "renyi",
)
"""Filters under which a part of each sum can be kept for somebody: docs/theory.md, section 3."""


def is_possible(record: SetLimit, plan: CompiledPolicy) -> bool:
    """Tell whether a dataset's filter lets itself be divided as a record says."""
    pace = None if record.pace is None else record.pace.part
    parts = [part for part in (record.part, pace) if part is not None]
    # A residue has no parts: what a pure mechanism costs depends on what was spent before.
    if parts and not plan.kind.adds_up:
        return False
    if record.reserved is not None:
        if plan.policy.filter not in _SHARED or isinstance(plan.kind, BesideBasic):
            return False
        parts.append(record.reserved)
    return not any(_is_nothing(part, plan) for part in parts)


def _is_nothing(part: str, plan: CompiledPolicy) -> bool:
    budget = part_of(part, plan).values()
    return any(text == "0" and limit for text, limit in zip(budget, plan.capacity, strict=True))


def told_of(record: SetLimit, plan: CompiledPolicy, version: int, team: str | None) -> LimitTold:
    """Return a record as its decision tells it.

    Args:
        version: of this scope and name.
        team: that of an analyst at this time.
    """
    told = LimitTold(record.scope, record.name, version, record.part)
    if record.part is not None:
        told = _with(told, budget=part_of(record.part, plan))
    elif record.policy is not None:
        own = open_plan(own_policy(record.policy))
        told = _with(told, policy=told_policy(record.policy), budget=own.budget_wire)
    if record.pace is not None:
        budget = part_of(record.pace.part, plan)
        told = _with(told, pace=PaceTold(record.pace.part, record.pace.period, budget))
    if record.reserved is not None:
        within = team if record.scope == "analyst" else None
        share = ReservedTold(record.reserved, part_of(record.reserved, plan), within)
        told = _with(told, reserved=share)
    return told


def _with(told: LimitTold, **fields: object) -> LimitTold:
    return msgspec.structs.replace(told, **fields)


def level_after_setting(
    before: Level | None,
    dataset: str,
    told: LimitTold,
    plan: CompiledPolicy,
    at: int,
    sequence: int,
) -> Level:
    """Return the level after a record, as its decision tells it; live as in a refold.

    Args:
        before: None for the first record about it.
        at: the decision's time, milliseconds since 1970.
        sequence: the decision's number in the dataset.
    """
    level = before or Level(dataset, told.scope, "", told.name or "")
    old = level.rule or Rule(LimitTold(told.scope))
    kind, counted_since, counted = old.kind, old.counted_since, level.counted
    if told.limits:
        kind = kind_of(plan.policy if told.policy is None else own_policy(told.policy))
        if kind != old.kind:
            counted_since, counted = told.version, None
    # Periods go on without a pace: the running one's use counts when there is a pace again.
    periods = old.periods
    if told.pace is not None:
        length = length_of(told.pace.period)
        periods = periods.changed(length, at) if periods else Periods(length, at, length)
    shared_since, used = 0, None
    if told.reserved is not None:
        shared_since, used = old.shared_since or told.version, level.used
    rule = Rule(told, kind, counted_since, periods, shared_since)
    withheld = unused_of(rule, used)
    return Level(
        dataset, told.scope, "", level.name, sequence, rule, counted, level.paced, used, withheld
    )
