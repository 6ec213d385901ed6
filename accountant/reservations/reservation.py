"""A reservation as a partition stores it, and its row of `state`."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import INFINITE, Units
from accountant.claims import Claim
from accountant.limits.charge import LimitCharge
from accountant.limits.reserved_totals import Sums
from accountant.limits.state import amounts_from, texts_of
from accountant.records.limit_records import Texts
from accountant.records.reservation_rows import ChargeRow, ReservationRow, Stage
from accountant.versions import FORMAT

NEVER: Final = 1 << 62
"""The time at which a broken reservation is dropped: only a record ends it."""


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """A grant at its maximum that is neither voided nor final; once settled, a session alone.

    Attributes:
        grant: hash of the decision `reserved`, by which records name it.
        sequence, partition_sequence: numbers of that decision in the dataset and the partition.
        analyst, via: the holder, and the engine that asked for the holder, "" for none.
        purpose: of the request.
        claim: what was reserved; of a settled session, at the variance that it settled at.
        stage: `reserved`, `begun`, `broken` where it released beyond its maximum, or `settled`.
        reserved_at, deadline: milliseconds since 1970.
        sums, charged: names of the dataset's totals, and what each was charged, exactly.
        after: of a charge that depended on the filter's state, the state that it left, in the sum
            `mu_squared`; None where nothing depended on it.
        charges: what each limit was charged.
        datasets: of one over several datasets, all of them, its steps' key first; each has a
            reservation of the same grant.
        is_question: a curator runs a question, and alone begins and settles.
    """

    dataset: str
    grant: str
    sequence: int
    partition_sequence: int
    analyst: str
    via: str
    purpose: str
    claim: Claim
    stage: Stage
    reserved_at: int
    deadline: int
    sums: tuple[str, ...]
    charged: Sums
    after: Units | None = None
    charges: tuple[LimitCharge, ...] = ()
    datasets: tuple[str, ...] = ()
    is_question: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Its key in a `ReservationTable`."""
        return self.dataset, self.grant

    @property
    def is_open(self) -> bool:
        """Whether it has not settled."""
        return self.stage != "settled"

    @property
    def holders(self) -> tuple[str, ...]:
        """The names that hold it while it is open: the analyst, and the engine if there is one."""
        if not self.is_open:
            return ()
        return (self.analyst, self.via) if self.via not in {"", self.analyst} else (self.analyst,)

    @property
    def due(self) -> int:
        """The time from which it is final: nothing can begin, settle or void it any more."""
        if self.stage == "reserved":
            return 2 * self.deadline - self.reserved_at
        return NEVER if self.stage == "broken" else self.deadline

    @property
    def order(self) -> tuple[int, int]:
        """Its place in the order in which final reservations are dropped."""
        return self.deadline, self.sequence

    def is_lapsed(self, at: int) -> bool:
        """Tell whether its deadline has passed, at a time of the log."""
        return self.stage != "broken" and self.deadline <= at

    @property
    def held(self) -> Sums:
        """What it holds of each of the dataset's totals; 0 where that is infinite for ever."""
        return tuple([0 if amount == INFINITE else amount for amount in self.charged])


def row_of(reservation: Reservation) -> ReservationRow:
    """Return a reservation's row in `state`."""
    totals, rounded_up = texts_of(reservation.sums, reservation.charged)
    after, after_rounded_up = _state_texts(reservation.after)
    return ReservationRow(
        version=FORMAT,
        dataset=reservation.dataset,
        grant=reservation.grant,
        sequence=reservation.sequence,
        partition_sequence=reservation.partition_sequence,
        analyst=reservation.analyst,
        via=reservation.via or UNSET,
        purpose=reservation.purpose or UNSET,
        claim=reservation.claim,
        stage=reservation.stage,
        reserved_at=reservation.reserved_at,
        deadline=reservation.deadline,
        totals=totals,
        rounded_up=rounded_up or UNSET,
        after=after,
        after_rounded_up=after_rounded_up,
        levels=tuple(map(_charge_row, reservation.charges)) or UNSET,
        datasets=reservation.datasets or UNSET,
        is_question=True if reservation.is_question else UNSET,
    )


def reservation_of(row: ReservationRow) -> Reservation:
    """Return the reservation from its row.

    Raises: ValueError: a text is not an amount.
    """
    return Reservation(
        row.dataset,
        row.grant,
        row.sequence,
        row.partition_sequence,
        row.analyst,
        row.via or "",
        row.purpose or "",
        row.claim,
        row.stage,
        row.reserved_at,
        row.deadline,
        tuple(row.totals),
        amounts_from(row.totals, row.rounded_up or None),
        _state(row.after, row.after_rounded_up),
        tuple([_charge(row.dataset, each) for each in row.levels or ()]),
        row.datasets or (),
        bool(row.is_question),
    )


_STATE: Final = ("mu_squared",)


def _state_texts(state: Units | None) -> tuple[Texts | UnsetType, Texts | UnsetType]:
    if state is None:
        return UNSET, UNSET
    texts, rounded_up = texts_of(_STATE, (state,))
    return texts, rounded_up or UNSET


def _state(texts: Texts | UnsetType, rounded_up: Texts | UnsetType) -> Units | None:
    return None if texts is UNSET else amounts_from(texts, rounded_up or None)[0]


def _charge_row(charge: LimitCharge) -> ChargeRow:
    _, scope, team, name = charge.key
    counted, counted_rounded_up = _texts(charge.counted_sums, charge.counted)
    paced, paced_rounded_up = _texts(charge.period_sums, charge.period_used)
    used, used_rounded_up = _texts(charge.share_sums, charge.used)
    after, after_rounded_up = _state_texts(charge.after)
    return ChargeRow(
        scope=scope,
        team=team,
        name=name,
        counted=counted,
        counted_rounded_up=counted_rounded_up,
        counted_since=charge.counted_since,
        paced=paced,
        paced_rounded_up=paced_rounded_up,
        begins_at=charge.begins_at,
        resets=charge.resets,
        used=used,
        used_rounded_up=used_rounded_up,
        shared_since=charge.shared_since,
        after=after,
        after_rounded_up=after_rounded_up,
    )


def _texts(sums: tuple[str, ...], amounts: Sums) -> tuple[Texts | UnsetType, Texts | UnsetType]:
    if not sums:
        return UNSET, UNSET
    texts, rounded_up = texts_of(sums, amounts)
    return texts, rounded_up or UNSET


def _charge(dataset: str, row: ChargeRow) -> LimitCharge:
    counted, counted_sums = _amounts(row.counted, row.counted_rounded_up)
    paced, period_sums = _amounts(row.paced, row.paced_rounded_up)
    used, share_sums = _amounts(row.used, row.used_rounded_up)
    return LimitCharge(
        key=(dataset, row.scope, row.team, row.name),
        counted=counted,
        counted_sums=counted_sums,
        counted_since=row.counted_since,
        period_used=paced,
        period_sums=period_sums,
        begins_at=row.begins_at,
        resets=row.resets,
        used=used,
        share_sums=share_sums,
        shared_since=row.shared_since,
        after=_state(row.after, row.after_rounded_up),
    )


def _amounts(
    texts: Texts | UnsetType, rounded_up: Texts | UnsetType
) -> tuple[Sums, tuple[str, ...]]:
    if texts is UNSET:
        return (), ()
    return amounts_from(texts, rounded_up or None), tuple(texts)
