"""The ledger of one dataset: its compiled policy and its totals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Self, get_args

import msgspec

from accountant.amounts import Units
from accountant.fractional import round_up_amounts
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.dataset_facts import NO_FACTS, DatasetFacts
from accountant.records.reservation_rows import GuaranteeState

_STATES: Final[tuple[GuaranteeState, ...]] = get_args(GuaranteeState)


def worst(states: Sequence[GuaranteeState]) -> GuaranteeState:
    """Return the worst of some states of a guarantee."""
    return max(states, key=_STATES.index)


def guarantee_after_resolving(
    before: GuaranteeState, *, mistaken: bool, charged: bool
) -> GuaranteeState:
    """Return what an owner's record on a broken reservation makes of a guarantee.

    A live decision and a replay both call this.

    Args:
        mistaken: nothing was released beyond the maximum.
        charged: what was released was charged.
    """
    found: GuaranteeState = "explained" if mistaken else "if_bounded" if charged else "void"
    return worst((before, found))


class Held(msgspec.Struct, frozen=True, gc=False):
    """The reservations of a dataset, in sum.

    Attributes:
        count, broken: how many are open, and how many of them released beyond their maximum.
        amounts: what they hold of each of the dataset's totals.
        latest_at: the latest time of the log at which the dataset was decided on, milliseconds
            since 1970: later than `changed_at` only after the clock was set back.
        settled: how many settled sessions a claim may continue.
    """

    count: int
    broken: int
    amounts: tuple[Units, ...]
    latest_at: int
    settled: int = 0


class DatasetLedger(msgspec.Struct, frozen=True, gc=False):
    """One dataset's state, of constant size. It never changes; a decision makes a new one.

    Attributes:
        dataset: its name.
        plan: its compiled policy.
        sequence: number of its last decision; 1 is its opening.
        mechanisms: number of granted mechanisms.
        totals: the spent amounts in the order of `plan.sums`, in units of 1e-40.
        crossed: number of crossed thresholds of `plan.thresholds`.
        exhausted: the budget is reached, or a refusal came within 5 % of it or halted the dataset.
        closed: nothing more is granted.
        opened_at, changed_at: milliseconds since 1970.
        generation: its number within its lifetime, 1 for one that renews no other.
        halted: a request did not fit, and the policy grants nothing after that.
        fractional: some total is a `Fractional`, no whole number of units.
        owners, members: how many of its members are owners, and how many there are.
        granted_at: milliseconds of the first grant, 0 before it; only of datasets whose policy
            names a population.
        levels, limits: how many rows of levels it has, and how many limits are in force.
        held: of its reservations, None where it has none.
        guarantee, note: what became of its guarantee, but for reservations that are broken now, and
            an owner's words about it.
        facts: what its owners have said of it, on which no sum depends.
        pending: how many rows of requests above `approve_above` it has.
    """

    dataset: str
    plan: CompiledPolicy
    sequence: int
    mechanisms: int
    totals: tuple[Units, ...]
    crossed: int
    exhausted: bool
    closed: bool
    opened_at: int
    changed_at: int
    generation: int = 1
    halted: bool = False
    fractional: bool = False
    owners: int = 0
    members: int = 0
    granted_at: int = 0
    levels: int = 0
    limits: int = 0
    held: Held | None = None
    guarantee: GuaranteeState = ""
    note: str = ""
    facts: DatasetFacts = NO_FACTS
    pending: int = 0

    @classmethod
    def new(
        cls, dataset: str, plan: CompiledPolicy, at: int, facts: DatasetFacts = NO_FACTS
    ) -> Self:
        """Return a new ledger with nothing spent."""
        zero: tuple[Units, ...] = (0,) * len(plan.sums)
        return cls(dataset, plan, 1, 0, zero, 0, False, False, at, at, facts=facts)

    @property
    def suspended(self) -> bool:
        """Whether nothing is granted because a reservation released beyond its maximum."""
        return self.held is not None and self.held.broken > 0

    @property
    def is_void(self) -> bool:
        """Whether no theorem covers what was released, so that odometers read infinity."""
        return self.stated_guarantee == "void"

    @property
    def stated_guarantee(self) -> GuaranteeState:
        """What became of its guarantee, as decisions and views state it."""
        return "void" if self.suspended else self.guarantee

    def has_changed_since(self, follows: int | None) -> bool:
        """Tell whether another decision came after the one that a record follows; None for any."""
        return follows is not None and follows != self.sequence

    def clock(self, at: int) -> int:
        """Return the time that deadlines are compared with: it never falls.

        Args:
            at: the decision's time, milliseconds since 1970.
        """
        return at if self.held is None else max(at, self.changed_at, self.held.latest_at)

    @property
    def readings(self) -> tuple[float, ...]:
        """The odometers in nats, rounded up; infinite where no theorem covers the releases."""
        plan = self.plan
        return (math.inf,) * len(plan.readers) if self.is_void else plan.readings(self.totals)

    @property
    def spent(self) -> tuple[Units, ...]:
        """The spent amounts of the filter's own sums."""
        return self.totals[: self.plan.width]

    @property
    def remaining(self) -> tuple[Units, ...]:
        """The amounts left in the filter's own sums, rounded down to units."""
        return self.plan.remaining(round_up_amounts(self.spent))

    @property
    def spent_ratio(self) -> float:
        """The spent part of the additive budget, rounded up, in [0, 1]."""
        return self.plan.spent_ratio(self.totals)
