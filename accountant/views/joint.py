"""What datasets of one population promise together, as people see it."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.field_rules import Delta, Epsilon, Name

_MAX_NAMED: Final = 20
BOUNDED_RELEASES: Final = (
    "if two things were fixed before anything was released: each budget, and the size of each "
    "release that was recorded afterwards or went beyond a maximum"
)
"""On what a guarantee depends once an owner has recorded a release made elsewhere."""
BOUNDED_EXCESS: Final = (
    "if the size of what a reservation released beyond its maximum was bounded before anything was "
    "released"
)
"""On what a guarantee depends once a reservation released more than its maximum."""


class JointGuarantee(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one person's data may do to everything that datasets of one population release.

    Attributes:
        population: its name.
        datasets: those that count and that the reader may see, by name, the closed ones among
            them, but for those that were closed before anything was granted on any.
        others: how many more count whose names the reader may not see.
        epsilon, delta: the sums of all their guarantees, exact; None where none holds.
        condition: on what it depends, as it is read after a comma; left out where on nothing.
        why: why none holds.
    """

    population: Name
    datasets: tuple[str, ...]
    others: int = 0
    epsilon: Epsilon | None = None
    delta: Delta | None = None
    condition: str | None = None
    why: str | None = None

    @property
    def holds(self) -> bool:
        """Whether there is one."""
        return self.why is None

    @property
    def with_condition(self) -> str:
        """What follows its constants: `, if ...`, "" where it depends on nothing."""
        return f", {self.condition}" if self.condition else ""

    @property
    def names(self) -> str:
        """The datasets as a text, the first of very many; what has no name there is counted."""
        parts = list(self.datasets[:_MAX_NAMED])
        if len(self.datasets) > _MAX_NAMED:
            parts.append(f"{len(self.datasets) - _MAX_NAMED:,} more")
        if self.others:
            parts.append(f"{self.others:,} other dataset{'s' if self.others > 1 else ''}")
        if len(parts) > 1 and parts[-1] not in self.datasets:
            return f"{', '.join(parts[:-1])} and {parts[-1]}"
        return ", ".join(parts) or "no dataset that counts"
