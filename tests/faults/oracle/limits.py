"""The limits of one scope and name, and their use, in fractions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.oracle.expected import Fields
from tests.faults.oracle.meter import Amounts, Meter
from tests.faults.oracle.periods import Periods


@dataclass
class Use:
    """The use of somebody; for a limit and a share with the version since which it counts.

    Attributes:
        paced: when the period begins that it is of, and what was used in that.
        resets: how often the clock had been set back at the last grant under the pace.
        sequence: of the decision that has moved it last.
        reported: a version, 0 for none, with the thresholds reported under it, and those reported
            under earlier ones and still reached since.
    """

    counted: tuple[int, Amounts] = (0, {})
    paced: tuple[int, Amounts] | None = None
    resets: int = 0
    used: tuple[int, Amounts] = (0, {})
    sequence: int = 0
    reported: tuple[int, set[str], set[str]] = (0, set(), set())


@dataclass
class Limit:
    """The history of the limits of one scope and name.

    Attributes:
        fields: `limit` of the last record's decision.
        kind: of the filter whose sums are counted, also while no limit is in force.
        counted_since, shared_since: the version from which each counts.
        periods: of the pace, also while there is none.
        cut: what was cut of the share; empty for nothing. `cut_by`: the last decision that did.
        until: when it ends; `over`: it has ended, which no clock that is set back undoes.
        booked: the team within whose share that of an analyst lies.
        uses: under `each`, of every analyst.
    """

    scope: str
    name: str
    version: int = 0
    sequence: int = 0
    fields: Fields = field(default_factory=dict)
    meter: Meter | None = None
    capacity: Amounts = field(default_factory=dict)
    kind: str | None = None
    counted_since: int = 0
    pace: Amounts | None = None
    period: str | None = None
    periods: Periods = field(default_factory=Periods)
    share: Amounts | None = None
    shared_since: int = 0
    cut: Amounts = field(default_factory=dict)
    cut_by: int = 0
    until: int | None = None
    over: bool = False
    booked: str | None = None
    use: Use = field(default_factory=Use)
    uses: dict[str, Use] = field(default_factory=dict)

    @property
    def in_force(self) -> bool:
        return self.meter is not None or self.pace is not None or self.share is not None

    @property
    def is_set(self) -> bool:
        """Whether its last record set it, also if it has ended since."""
        return bool(self.fields.keys() - {"scope", "name", "version"})

    def end(self, at: int, sequence: int | None) -> None:
        """End it, if its time has come.

        Args:
            sequence: the dataset's decision that finds it over; None for a command's.
        """
        if self.over or self.until is None or at < self.until:
            return
        self.over = True
        self.meter = self.pace = self.period = self.share = self.booked = None
        self.cut = {}
        if sequence is not None:
            self.use.sequence = sequence

    @property
    def head(self) -> Fields:
        """The name in decisions."""
        name = {"name": self.name} if self.name else {}
        return {"scope": self.scope, **name}

    def use_of(self, analyst: str) -> Use:
        return self.uses.get(analyst, Use()) if self.scope == "each" else self.use

    def counted(self, use: Use) -> Amounts:
        assert self.meter is not None
        since, amounts = use.counted
        return amounts if since == self.counted_since else self.meter.nothing()

    def paced(self, use: Use, whole: Meter, clock: Clock) -> tuple[int, Amounts]:
        """Return the start of the period of a grant now, and the amount used in it."""
        now, _ = self.periods.around(clock.at)
        if use.paced is None:
            return now, whole.nothing()
        held, amounts = use.paced
        if clock.resets > use.resets:
            held, _ = self.periods.around(clock.reset_at)
        return (now, whole.nothing()) if now > held else (held, amounts)

    def used(self) -> Amounts:
        assert self.share is not None
        since, amounts = self.use.used
        return amounts if since == self.shared_since else dict.fromkeys(self.share, 0)

    def spare(self) -> Amounts:
        """Return the remaining amount of a share."""
        assert self.share is not None
        used = self.used()
        return {name: max(most - used[name], 0) for name, most in self.share.items()}

    def removed(self) -> None:
        """Apply a record that removes the limit."""
        self.version += 1
        self.fields = {**self.head, "version": self.version}
        self.meter = self.pace = self.period = self.share = self.booked = None
        self.cut, self.until, self.over = {}, None, False


@dataclass
class Clock:
    """The partition's clock, with the number and times of its resets."""

    at: int
    resets: int = 0
    reset_at: int = 0
