"""The ledger of one dataset: its compiled policy and its totals."""

from __future__ import annotations

from typing import Self

import msgspec

from accountant.amounts import Units
from accountant.fractional import round_up_amounts
from accountant.policy.compiled_policy import CompiledPolicy


class Ledger(msgspec.Struct, frozen=True, gc=False):
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
        generation: 1; another opening of the same dataset would be generation 2.
        readings: the odometers at `totals`, in nats, rounded up.
        halted: a request did not fit, and the policy grants nothing after that.
        fractional: some total is a `Fractional`, no whole number of units.
        owners, members: how many of its members are owners, and how many there are.
        granted_at: milliseconds of the first grant, 0 before it; only of datasets whose policy
            names a population.
        closed_at: milliseconds of its closing, 0 before it; only of such datasets, too.
        levels, limits: how many rows of levels it has, and how many limits are in force.
        paused: nothing is granted until it is resumed.
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
    readings: tuple[float, ...] = ()
    halted: bool = False
    fractional: bool = False
    owners: int = 0
    members: int = 0
    granted_at: int = 0
    levels: int = 0
    limits: int = 0
    closed_at: int = 0
    paused: bool = False

    @classmethod
    def new(cls, dataset: str, plan: CompiledPolicy, at: int) -> Self:
        """Return a new ledger with nothing spent."""
        zero: tuple[Units, ...] = (0,) * len(plan.sums)
        return cls(dataset, plan, 1, 0, zero, 0, False, False, at, at, 1, plan.readings(zero))

    @property
    def spent(self) -> tuple[Units, ...]:
        """The spent amounts of the filter's own sums."""
        return self.totals[: self.plan.width]

    @property
    def remaining(self) -> tuple[Units, ...]:
        """The amounts left in the filter's own sums, rounded down to units."""
        return self.plan.kind.remaining(self.plan.capacity, round_up_amounts(self.spent))

    @property
    def spent_ratio(self) -> float:
        """The spent part of the additive budget, rounded up, in [0, 1]."""
        return self.plan.spent_ratio(self.totals)
