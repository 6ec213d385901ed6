"""The ledger of one dataset: its plan and what has been spent."""

from __future__ import annotations

from typing import Self

import msgspec

from accountant.amounts import Units
from accountant.policy.compiled import CompiledPolicy


class Ledger(msgspec.Struct, frozen=True, gc=False):
    """One dataset's state, O(1) whatever its history. Never changed, only replaced.

    Attributes:
        dataset: its name.
        plan: its policy, worked out.
        sequence: number of its last decision; 1 is its opening.
        mechanisms: how many mechanisms were granted.
        totals: what was spent, in units of 1e-40, by `plan.sums`.
        crossed: how many of `plan.thresholds` were crossed.
        exhausted: the budget was reached, or a request refused within 5 % of it, or halted on.
        closed: nothing more is granted.
        opened_at, changed_at: milliseconds since 1970.
        generation: 1; a later opening of the same dataset would be the next.
        readings: the odometers at `totals`, in nats, rounded up.
        halted: a request did not fit, and the policy lets that be the end.
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

    @classmethod
    def opened(cls, dataset: str, plan: CompiledPolicy, at: int) -> Self:
        """Return a new ledger with nothing spent."""
        zero: tuple[Units, ...] = (0,) * len(plan.sums)
        return cls(dataset, plan, 1, 0, zero, 0, False, False, at, at, 1, plan.readings(zero))

    @property
    def spent(self) -> tuple[Units, ...]:
        """What the filter's own sums have reached."""
        return self.totals[: self.plan.width]

    @property
    def left(self) -> tuple[Units, ...]:
        """What the filter's own sums may still grow by, rounded down."""
        return self.plan.kind.left(self.plan.capacity, self.spent)

    @property
    def spent_ratio(self) -> float:
        """What part of the additive budget is spent, rounded up, in [0, 1]."""
        return self.plan.spent_ratio(self.totals)
