"""A budget ready to decide with: a filter and its capacity, of a dataset or of a limit."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from operator import gt
from typing import NamedTuple

from accountant.amounts import INFINITE, UNIT, Units, format_units, parse_units, part_up
from accountant.claims import CheckedClaim
from accountant.claims.price import Price, price
from accountant.filters import BesideBasic, Filter
from accountant.filters.settlement import voidable_price
from accountant.fractional import round_up_amounts
from accountant.policy import filter_of
from accountant.policy.cap import CappedFilter
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.policy.in_force import BrakedFilter
from accountant.records.limit_fields import own_policy
from accountant.records.limit_records import LimitName, LimitRecord, Texts


class CompiledLimit(NamedTuple):
    """A budget that must admit a claim.

    Attributes:
        kind: the dataset's filter, or the limit's own.
        capacity: the maximum of each of its sums, in units of 1e-40.
        place: which limit it is; None for the dataset's whole budget.
        own: the limit has its own filter, so a claim has another price there.
        thresholds: the spent amount at each of the dataset's `alert_at`.
        cap: the maximum of one request.
        brake: the budget in force, of a dataset's whole budget.
    """

    kind: Filter
    capacity: tuple[Units, ...]
    place: LimitName | None = None
    own: bool = False
    thresholds: tuple[int, ...] = ()
    cap: CappedFilter | None = None
    brake: BrakedFilter | None = None

    @property
    def search_filter(self) -> Filter | CappedFilter | BrakedFilter:
        """The filter for the search for the largest claim that fits, with cap and brake if any."""
        return self.brake or self.cap or self.kind

    @property
    def nothing(self) -> tuple[Units, ...]:
        """The spent amounts before anything is charged."""
        return (0,) * len(self.kind.state)

    def price(self, claim: CheckedClaim, asked: Price) -> Price:
        """Return the cost of a claim under this limit.

        Args:
            asked: its cost to the dataset.
        """
        return price(claim, self.kind.needs) if self.own else asked

    def charge(self, spent: tuple[Units, ...], cost: Price) -> tuple[Units, ...] | None:
        """Return the spent amounts after a claim, None if it does not fit."""
        if self.own and self.is_over(spent):
            return None
        if self.cap is not None and not self.cap.admits(cost):
            return None
        after = self.kind.charge(self.capacity, spent, cost)
        return after if after is None or self._is_within_brake(after) else None

    def charge_above(
        self, spent: tuple[Units, ...], claim: CheckedClaim, asked: Price
    ) -> tuple[Units, ...]:
        """Return the spent amounts after a claim that nothing refuses, above the capacity too.

        A sum that the filter cannot bound is used up.

        Args:
            asked: its cost to the dataset.
        """
        kind = self.kind
        cost = self.price(claim, asked)
        if not kind.adds_up:
            cost = voidable_price(kind, kind.needs, claim)
        return tuple(
            [
                max(before, most) if after == INFINITE else after
                for before, after, most in zip(
                    spent,
                    kind.add(spent, cost),
                    (*self.capacity, *(UNIT for _ in spent[len(self.capacity) :])),
                    strict=True,
                )
            ]
        )

    def _is_within_brake(self, after: tuple[Units, ...]) -> bool:
        return self.brake is None or self.brake.admits(after)

    def charge_reserved(
        self, spent: tuple[Units, ...], claim: CheckedClaim, cost: Price
    ) -> tuple[Units, ...] | None:
        """Return the spent amounts after a reservation, which may be voided later.

        Only under gdp_residue that is not `charge`: there what always returns is dearer, each pure
        mechanism being charged as a Gaussian. Where that does not fit, or where only basic
        composition beside the filter would admit it, the claim is charged its own cost, which
        never returns to another state.

        Args:
            cost: the claim's own, which the cap of one request is compared with.
        """
        kind = self.kind
        after = self.charge(spent, cost)
        if after is None or kind.adds_up:
            return after
        dearer = kind.charge(self.capacity, spent, voidable_price(kind, kind.needs, claim))
        if dearer is None or (isinstance(kind, BesideBasic) and dearer[-1] != spent[-1]):
            return after
        return dearer if self._is_within_brake(dearer) else after

    def is_over(self, spent: tuple[Units, ...]) -> bool:
        """Tell whether a lowered limit with a filter of its own is below what was spent.

        Filters that compare sums refuse by themselves. A filter with a state must be checked here:
        a residue below 0 has no square root.
        """
        return self.own and not self.kind.adds_up and any(map(gt, spent, self.capacity))

    def remaining(self, spent: tuple[Units, ...]) -> Texts:
        """Return the remaining amount of each sum, rounded down and never below 0."""
        room = self.kind.remaining(self.capacity, round_up_amounts(spent))
        return {
            name: format_units(max(0, amount))
            for name, amount in zip(self.kind.sums, room, strict=True)
        }

    def spent_ratio(self, spent: tuple[Units, ...]) -> float:
        """Return the used part of the additive budget, rounded up, in [0, 1]."""
        return part_up(self.kind.progress(self.capacity, spent), self.capacity[0])

    def count_reached(self, spent: tuple[Units, ...]) -> int:
        """Return how many of the thresholds a spent amount has reached."""
        if not self.thresholds:
            return 0
        return bisect_right(self.thresholds, self.kind.progress(self.capacity, spent))

    def reaches(self, ratio: str, spent: tuple[Units, ...]) -> bool:
        """Tell whether a spent amount is this part of the additive budget, or more."""
        return _threshold(ratio, int(self.capacity[0])) <= self.kind.progress(self.capacity, spent)


class CompiledLimits(NamedTuple):
    """The budgets of a limit under the policy of its dataset: in total, and per period."""

    limit: CompiledLimit | None
    period_limit: CompiledLimit | None


@lru_cache(maxsize=4096)
def whole_of(plan: CompiledPolicy) -> CompiledLimit:
    """Return the whole budget of a dataset."""
    return CompiledLimit(plan.kind, plan.capacity, cap=plan.cap, brake=plan.brake)


@lru_cache(maxsize=4096)
def reserved_of(plan: CompiledPolicy) -> CompiledLimit:
    """Return the dataset's budget for comparison with spent plus reserved amounts."""
    return CompiledLimit(plan.kind, plan.limits, LimitName("dataset", None, "reserved"))


def compile_limit(record: LimitRecord, plan: CompiledPolicy) -> CompiledLimits:
    """Return the budgets of a limit, from the amounts that its decision stored."""
    return CompiledLimits(_budget_limit(record, plan), _period_limit(record, plan))


def _budget_limit(record: LimitRecord, plan: CompiledPolicy) -> CompiledLimit | None:
    if record.budget is None:
        return None
    capacity = amounts_of(record.budget)
    kind = plan.kind if record.policy is None else filter_of(own_policy(record.policy))
    maximum = int(capacity[0])
    thresholds = tuple([_threshold(ratio, maximum) for ratio in plan.policy.alert_at])
    place = LimitName(record.scope, record.name, "limit")
    return CompiledLimit(kind, capacity, place, record.policy is not None, thresholds)


def _threshold(ratio: str, maximum: int) -> int:
    return math.ceil(Fraction(ratio) * maximum)


def _period_limit(record: LimitRecord, plan: CompiledPolicy) -> CompiledLimit | None:
    if record.pace is None:
        return None
    place = LimitName(record.scope, record.name, "pace")
    return CompiledLimit(plan.kind, amounts_of(record.pace.budget), place)


def amounts_of(texts: Texts) -> tuple[Units, ...]:
    """Return amounts in the order in which they are written."""
    return tuple([parse_units(text) for text in texts.values()])


def part_of(ratio: str, plan: CompiledPolicy) -> Texts:
    """Return this part of each of the dataset's sums, rounded down."""
    part = Fraction(ratio)
    return {
        name: format_units(math.floor(part * int(limit)))
        for name, limit in zip(plan.kind.sums, plan.capacity, strict=True)
    }
