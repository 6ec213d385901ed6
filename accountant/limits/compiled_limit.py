"""A budget ready to decide with: a filter and its capacity, of a dataset or of a limit."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from operator import gt
from typing import NamedTuple

from accountant.amounts import Units, format_units, parse_units, part_up
from accountant.claims import CheckedClaim
from accountant.claims.price import Price, price
from accountant.filters import Filter
from accountant.fractional import written
from accountant.limits.wire import LevelNamed, LimitRecord, Texts
from accountant.policy import filter_of
from accountant.policy.cap import CappedFilter
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.limit_fields import own_policy


class CompiledLimit(NamedTuple):
    """A budget that must admit a claim.

    Attributes:
        kind: the dataset's filter, or the limit's own.
        capacity: the limit of each of its sums, in units of 1e-40.
        place: which limit it is; None of the dataset's whole budget.
        own: the filter is the limit's own, so a claim has another price there.
        thresholds: the spent amounts that cross each of the dataset's `alert_at`.
        cap: what one request may take at most.
    """

    kind: Filter
    capacity: tuple[Units, ...]
    place: LevelNamed | None = None
    own: bool = False
    thresholds: tuple[int, ...] = ()
    cap: CappedFilter | None = None

    @property
    def offered(self) -> Filter | CappedFilter:
        """What the search for the largest claim that fits goes by."""
        return self.cap or self.kind

    @property
    def nothing(self) -> tuple[Units, ...]:
        """The spent amounts before anything is charged."""
        return (0,) * len(self.kind.state)

    def price(self, claim: CheckedClaim, asked: Price) -> Price:
        """Return what a claim costs here.

        Args:
            asked: what it costs the dataset.
        """
        return price(claim, self.kind.needs) if self.own else asked

    def charge(self, spent: tuple[Units, ...], cost: Price) -> tuple[Units, ...] | None:
        """Return the spent amounts after a claim, None if it does not fit."""
        if self.own and self.is_over(spent):
            return None
        if self.cap is not None and not self.cap.admits(cost):
            return None
        return self.kind.charge(self.capacity, spent, cost)

    def is_over(self, spent: tuple[Units, ...]) -> bool:
        """Tell whether a lowered limit of a filter that has a state leaves nothing of it.

        Filters that compare sums refuse by themselves; a residue below 0 has no square root.
        """
        return self.own and not self.kind.adds_up and any(map(gt, spent, self.capacity))

    def remaining(self, spent: tuple[Units, ...]) -> Texts:
        """Return what each sum may still grow by, rounded down; a lowered limit may leave 0."""
        room = self.kind.remaining(self.capacity, written(spent))
        return {
            name: format_units(max(0, amount))
            for name, amount in zip(self.kind.sums, room, strict=True)
        }

    def spent_ratio(self, spent: tuple[Units, ...]) -> float:
        """Return the used part of the additive budget, rounded up, in [0, 1]."""
        return part_up(self.kind.progress(self.capacity, spent), self.capacity[0])

    def reached(self, spent: tuple[Units, ...]) -> int:
        """Return how many of the thresholds a spent amount has reached."""
        used = self.kind.progress(self.capacity, spent)
        return sum(each <= used for each in self.thresholds)

    def crossed(self, before: tuple[Units, ...], after: tuple[Units, ...]) -> tuple[int, ...]:
        """Return the places of the thresholds above one spent amount, up to another."""
        if not self.thresholds:
            return ()
        kind, now = self.kind, self.kind.progress(self.capacity, after)
        if now < self.thresholds[0]:
            return ()
        was = kind.progress(self.capacity, before)
        return tuple([i for i, each in enumerate(self.thresholds) if was < each <= now])


class CompiledLimits(NamedTuple):
    """What a limit comes to under the policy of its dataset: its budget, and that of a period."""

    limit: CompiledLimit | None
    pace: CompiledLimit | None


@lru_cache(maxsize=4096)
def whole_of(plan: CompiledPolicy) -> CompiledLimit:
    """Return the whole budget of the datasets with a policy."""
    return CompiledLimit(plan.kind, plan.capacity, cap=plan.cap)


@lru_cache(maxsize=4096)
def reserved_of(plan: CompiledPolicy) -> CompiledLimit:
    """Return the same where what is reserved for others counts as spent."""
    return CompiledLimit(plan.kind, plan.capacity, LevelNamed("dataset", None, "reserved"))


def compile_limit(record: LimitRecord, plan: CompiledPolicy) -> CompiledLimits:
    """Return a limit ready to decide with, by the budgets that its decision has stored."""
    return CompiledLimits(_limit(record, plan), _pace(record, plan))


def _limit(record: LimitRecord, plan: CompiledPolicy) -> CompiledLimit | None:
    if record.budget is None:
        return None
    capacity = amounts_of(record.budget)
    kind = plan.kind if record.policy is None else filter_of(own_policy(record.policy))
    maximum = int(capacity[0])
    thresholds = tuple([math.ceil(Fraction(ratio) * maximum) for ratio in plan.policy.alert_at])
    place = LevelNamed(record.scope, record.name, "limit")
    return CompiledLimit(kind, capacity, place, record.policy is not None, thresholds)


def _pace(record: LimitRecord, plan: CompiledPolicy) -> CompiledLimit | None:
    if record.pace is None:
        return None
    place = LevelNamed(record.scope, record.name, "pace")
    return CompiledLimit(plan.kind, amounts_of(record.pace.budget), place)


def amounts_of(texts: Texts) -> tuple[Units, ...]:
    """Return amounts in the order in which they are written."""
    return tuple([parse_units(text) for text in texts.values()])


def part_of(ratio: str, plan: CompiledPolicy) -> Texts:
    """Return a part of each sum that a dataset's filter limits, rounded down."""
    part = Fraction(ratio)
    return {
        name: format_units(math.floor(part * int(limit)))
        for name, limit in zip(plan.kind.sums, plan.capacity, strict=True)
    }
