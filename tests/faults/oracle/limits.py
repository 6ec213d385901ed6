"""What an owner has said of one scope and name, and what was used of it, in fractions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tests.faults.oracle.expected import Fields
from tests.faults.oracle.meter import Amounts, Meter

DAY: Final = 86_400_000


@dataclass
class Use:
    """What somebody has used. Each amount is told with the version since which it counts.

    Attributes:
        window: number of the period that `paced` is of.
        resets: how often the clock had been set back at the last grant under the pace.
        sequence: of the decision that has moved it last.
    """

    counted: tuple[int, Amounts] = (0, {})
    paced: tuple[int, Amounts] = (0, {})
    window: int | None = None
    resets: int = 0
    used: tuple[int, Amounts] = (0, {})
    sequence: int = 0


@dataclass
class Limit:
    """All that was ever said of one scope and name.

    Attributes:
        told: `limit` of the last record's decision.
        kind: of the filter whose sums are counted, also while no limit is in force.
        counted_since, paced_since, shared_since: the version from which each counts.
        paced_at: the time from which periods run.
        booked: the team within whose share that of an analyst lies.
        uses: under `each`, of every analyst.
    """

    scope: str
    name: str
    version: int = 0
    sequence: int = 0
    told: Fields = field(default_factory=dict)
    meter: Meter | None = None
    capacity: Amounts = field(default_factory=dict)
    kind: str | None = None
    counted_since: int = 0
    pace: Amounts | None = None
    period: str | None = None
    paced_since: int = 0
    paced_at: int = 0
    share: Amounts | None = None
    shared_since: int = 0
    booked: str | None = None
    use: Use = field(default_factory=Use)
    uses: dict[str, Use] = field(default_factory=dict)

    @property
    def in_force(self) -> bool:
        return self.meter is not None or self.pace is not None or self.share is not None

    @property
    def head(self) -> Fields:
        """How decisions name it."""
        name = {"name": self.name} if self.name else {}
        return {"scope": self.scope, **name}

    def use_of(self, analyst: str) -> Use:
        return self.uses.get(analyst, Use()) if self.scope == "each" else self.use

    def counted(self, use: Use) -> Amounts:
        assert self.meter is not None
        since, amounts = use.counted
        return amounts if since == self.counted_since else self.meter.nothing()

    def paced(self, use: Use, whole: Meter, clock: Clock) -> tuple[int, Amounts]:
        """Return the period into which a grant falls now, and what was used in it."""
        now = self.index(clock.at)
        if use.paced[0] != self.paced_since or use.window is None:
            return now, whole.nothing()
        held = use.window
        if clock.resets > use.resets:
            held = self.index(clock.reset_at)
        return (now, whole.nothing()) if now > held else (held, use.paced[1])

    def index(self, at: int) -> int:
        return (at - self.paced_at) // self._length

    def begin(self, index: int) -> int:
        """Return when a period begins, in milliseconds since 1970."""
        return self.paced_at + index * self._length

    @property
    def _length(self) -> int:
        assert self.period is not None
        return int(self.period[1:-1]) * DAY

    def used(self) -> Amounts:
        assert self.share is not None
        since, amounts = self.use.used
        return amounts if since == self.shared_since else dict.fromkeys(self.share, 0)

    def spare(self) -> Amounts:
        """Return what is left of a share."""
        assert self.share is not None
        used = self.used()
        return {name: max(most - used[name], 0) for name, most in self.share.items()}

    def removed(self) -> None:
        """Take a record that says nothing."""
        self.version += 1
        self.told = {**self.head, "version": self.version}
        self.meter = self.pace = self.period = self.share = self.booked = None


@dataclass
class Clock:
    """The partition's clock, and how often and to when it was set back."""

    at: int
    resets: int = 0
    reset_at: int = 0
