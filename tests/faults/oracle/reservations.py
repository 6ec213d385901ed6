"""Open reservations: what each was charged, and when it ends: docs/reference/reservations.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle.amounts import INFINITE
from tests.faults.oracle.limits import Limit
from tests.faults.oracle.meter import Amounts, Meter

_WORSE: Final = ("", "explained", "if_bounded", "void")
MOST_OPEN: Final = 10_000
MOST_SETTLED: Final = 1_000
MOST_DROPPED: Final = 16
_UNTIL: Final = re.compile(r"P([1-9][0-9]?)D|PT([1-9][0-9]{0,2})H|PT([1-9][0-9]{0,4})M")
_UNITS_MS: Final = 86_400_000, 3_600_000, 60_000
_GRANT: Final = re.compile(r"sha256:[0-9a-f]{64}")


def length_of(until: Any) -> int:
    """Return the milliseconds of `P1D`, `PT12H` or `PT30M`, 0 of another text."""
    found = _UNTIL.fullmatch(until) if isinstance(until, str) else None
    if found is None:
        return 0
    return sum(
        int(part) * unit for part, unit in zip(found.groups(), _UNITS_MS, strict=True) if part
    )


def is_reserve(value: Any) -> bool:
    """Return whether a value says how long a reservation may last: at most 30 days."""
    if not isinstance(value, dict) or value.keys() != {"until"}:
        return False
    return 0 < length_of(value["until"]) <= 30 * _UNITS_MS[0]


def is_grant(value: Any) -> bool:
    """Return whether a value is the hash of a decision."""
    return isinstance(value, str) and _GRANT.fullmatch(value) is not None


@dataclass
class Charge:
    """What one limit was charged by a grant.

    Attributes:
        analyst: whose use it is, under a default.
        counted, paced, used: amounts, None where nothing of the kind was charged.
        since, begin, resets, shared: which count, period and share.
        meter: of the limit itself.
        after: of gdp_residue, the state that the grant left.
        by_state: what was charged depended on that state.
    """

    limit: Limit
    analyst: str
    counted: Amounts | None = None
    since: int = 0
    meter: Meter | None = None
    after: Any = None
    by_state: bool = False
    paced: Amounts | None = None
    begin: int = 0
    resets: int = 0
    used: Amounts | None = None
    shared: int = 0


@dataclass
class Reservation:
    """An open reservation.

    Attributes:
        grant: hash of the decision that granted it; `number` of that decision.
        request: its request.
        charged: of each of the dataset's totals, exactly; `after` and `by_state` as of a charge.
        stage: `reserved`, `begun`, `broken` where it showed more than it reserved, or `settled`
            where a claim may continue it.
        settled: the variance at which a session has settled.
        datasets: of one over several datasets: all of them, the first one first.
    """

    grant: str
    sequence: int
    number: int
    request: dict[str, Any]
    reserved_at: int
    deadline: int
    charged: Amounts
    after: Any = None
    by_state: bool = False
    charges: list[Charge] = field(default_factory=list)
    stage: str = "reserved"
    settled: str = ""
    datasets: tuple[str, ...] = ()

    @property
    def final_at(self) -> float:
        """When it cannot begin, settle or be voided any more."""
        if self.stage == "broken":
            return INFINITE
        if self.stage in {"begun", "settled"}:
            return self.deadline
        return self.deadline + (self.deadline - self.reserved_at)

    @property
    def held(self) -> Amounts:
        """What it holds of each total: nothing of one that is infinite for ever."""
        return {name: 0 if each == INFINITE else each for name, each in self.charged.items()}


class Reservations:
    """The reservations of a dataset that have a row.

    Attributes:
        rows: by grant, open ones and sessions that have settled.
        latest: the latest time at which the dataset was decided on while it had some.
        guarantee, note: what became of the dataset's guarantee, and an owner's words about it.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Reservation] = {}
        self.latest = 0
        self.guarantee = ""
        self.note = ""

    @property
    def open(self) -> dict[str, Reservation]:
        """Those that have not settled, by grant."""
        return {grant: each for grant, each in self.rows.items() if each.stage != "settled"}

    @property
    def broken(self) -> int:
        return sum(each.stage == "broken" for each in self.rows.values())

    @property
    def settled(self) -> int:
        """How many settled sessions a claim may continue."""
        return sum(each.stage == "settled" for each in self.rows.values())

    def worsen(self, became: str) -> None:
        """Take what an owner has said of a release: nothing ever becomes better."""
        self.guarantee = max(self.guarantee, became, key=_WORSE.index)

    @property
    def stated_guarantee(self) -> str:
        """What became of the guarantee as decisions state it, while it is suspended, too."""
        return "void" if self.broken else self.guarantee

    def settle(self, reservation: Reservation, shown: str | None) -> None:
        """Close one that has settled; of a Brownian session a row is left, which holds nothing."""
        claim, full = reservation.request["claim"], self.settled >= MOST_SETTLED
        if claim["type"] != "brownian" or full:
            del self.rows[reservation.grant]
            return
        reservation.stage, reservation.settled = "settled", shown or claim["variance"]
        reservation.charged = dict.fromkeys(reservation.charged, 0)
        reservation.after, reservation.charges = None, []

    def may_continue(
        self, claims: list[dict[str, Any]], analyst: str, at: int, datasets: tuple[str, ...]
    ) -> bool:
        """Return whether each session that claims continue has shown what they say.

        Args:
            datasets: over which the claims are, as in `Reservation`.
        """
        for claim in claims:
            if "continues" not in claim:
                continue
            found = self.rows.get(claim["continues"])
            if found is None or found.stage != "settled" or found.request["analyst"] != analyst:
                return False
            if set(found.datasets) != set(datasets):
                return False
            early = found.deadline > self.time(at)
            if not early or Fraction(claim["previous"]) < Fraction(found.settled):
                return False
            if Fraction(claim["sensitivity"]) > Fraction(found.request["claim"]["sensitivity"]):
                return False
        return True

    @property
    def is_void(self) -> bool:
        """Whether no theorem covers what was released."""
        return self.stated_guarantee == "void"

    def time(self, at: int) -> int:
        """Return the time of deadlines: what had lapsed before a clock reset stays lapsed."""
        return max(at, self.latest) if self.rows else at

    def add(self, reservation: Reservation, at: int) -> None:
        """Open one more by a decision of a time."""
        self.latest = self.time(at)
        self.rows[reservation.grant] = reservation

    def drop_final(self, at: int) -> None:
        """Drop up to 16 that are final, as each decision on the dataset does first."""
        dropped = self.dropped_at(at)
        self.latest = self.time(at)
        for grant in dropped:
            del self.rows[grant]

    def dropped_at(self, at: int) -> list[str]:
        """Return the grants that a decision at a time drops."""
        now = self.time(at)
        final = [each for each in self.rows.values() if each.final_at <= now]
        final.sort(key=lambda each: (each.deadline, each.sequence))
        return [each.grant for each in final[:MOST_DROPPED]]

    def held(self, names: list[str]) -> Amounts:
        """Return what they hold of each total."""
        return {
            name: sum((Fraction(each.held[name]) for each in self.rows.values()), Fraction(0))
            for name in names
        }


def less(amounts: Amounts, returned: Amounts) -> Amounts:
    """Return amounts after a refund; an infinite amount never comes back."""
    return {
        name: amount if INFINITE in (amount, returned[name]) else amount - returned[name]
        for name, amount in amounts.items()
    }


def growth(before: Amounts, after: Amounts) -> Amounts:
    """Return what each amount has grown by; infinite where it is infinite now."""
    return {
        name: amount if amount == INFINITE else amount - before[name]
        for name, amount in after.items()
    }
