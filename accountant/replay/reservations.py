"""Reservations rebuilt from decisions and from rows of `state`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import msgspec

from accountant.amounts import Units
from accountant.checksum import crc_of_row
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged
from accountant.limits.applicable_limits import limit_at
from accountant.limits.charge import LimitCharge, after_refund, charge_of, growth
from accountant.limits.reserved_totals import plus
from accountant.partition import Partition
from accountant.records import Decision, ReservationStep
from accountant.records.outcomes import Outcome
from accountant.records.request_names import claim_of
from accountant.records.requests import MechanismRequest, Resolve
from accountant.records.reservation_rows import (
    decode_reservation_row,
    length_ms,
    parse_reservation_key,
    reservation_row_key,
)
from accountant.replay.members_and_limits import limit_after_update
from accountant.reservations.continuation import settled_row
from accountant.reservations.held import (
    reservation_of_grant,
    with_change,
    with_reservation,
)
from accountant.reservations.reservation import Reservation, reservation_of
from accountant.reservations.table import ReservationTable, first_final
from accountant.times import from_iso

_decode_request = msgspec.json.Decoder(MechanismRequest).decode
_decode_step = msgspec.json.Decoder(ReservationStep | Resolve).decode


class ReplayedReservations:
    """A partition's reservations as decisions of the log change them."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._table: ReservationTable = partition.reservations

    def take_final(self, dataset: str, at: int, maximum: int) -> list[Reservation]:
        """Remove and return final reservations, as `ReservationChanges.take_final`."""
        if at < self._table.next_due(dataset):
            return []
        taken = first_final(self._table.of(dataset).values(), at, maximum)
        for row in taken:
            self.remove(row)
        left = self._table.of(dataset).values()
        if left:
            self._table.set_next_due(dataset, min(row.due for row in left))
        return taken

    def put(self, row: Reservation) -> None:
        """Replace a reservation."""
        self._forget(row)
        self._table.put(row)

    def remove(self, row: Reservation) -> None:
        """Drop a reservation."""
        self._forget(row)
        self._table.remove(*row.key)

    def _forget(self, row: Reservation) -> None:
        self._partition.checksum.forget(reservation_row_key(*row.key).decode())


def limit_charges(
    partition: Partition, ledger: DatasetLedger, decision: Decision
) -> tuple[LimitCharge, ...]:
    """Return what a reservation was charged at each limit, or what a step gave back of it.

    Args:
        partition: before the decision's limits are applied.
        ledger: the dataset's, after the decision.
    """
    if decision.reservation is None:
        return ()
    found = []
    for update in decision.levels:
        before, limit, after = limit_after_update(partition, ledger, decision, update)
        if decision.outcome.charges:
            rule, at = limit.rule, partition.decided_at
            assert rule is not None
            applied = limit_at(before, rule, ledger.plan, at, partition.resets)
            found.append(charge_of(before, after, rule, update, applied))
        elif before.counted is not None and after.counted is not None:
            back = growth(after.counted.amounts, before.counted.amounts)
            found.append(LimitCharge(after.key, counted=back))
    return tuple(found)


def take_reservation(
    partition: Partition,
    before: DatasetLedger,
    after: DatasetLedger,
    decision: Decision,
    digest: str,
    charges: tuple[LimitCharge, ...],
) -> DatasetLedger:
    """Apply what a decision says about a reservation; return the ledger with what it holds.

    Args:
        before, after: the dataset's, without what reservations hold of it after the decision.
        digest: hash of the decision.
        charges: of a grant, what each limit was charged; of a step, what it gave back.
    Raises: LogDamaged: the decision contradicts the reservation.
    """
    table = ReplayedReservations(partition)
    if decision.outcome.reserves:
        new = _new(before, after, decision, digest, charges)
        table.put(new)
        return with_reservation(after, new)
    reservation = _named(partition, decision)
    if decision.outcome is Outcome.BEGUN:
        begun = _begun(reservation, before, after, charges)
        table.put(begun)
        return with_change(after, reservation, begun)
    if decision.outcome is Outcome.SETTLED:
        shown = decision.reservation and decision.reservation.shown
        settled = settled_row(before, reservation, shown or None)
        if settled is not None:
            table.put(settled)
            return with_change(after, reservation, settled)
    if decision.outcome.ends_reservation:
        table.remove(reservation)
        return with_change(after, reservation, None)
    if decision.reservation is not None and decision.reservation.stage == "broken":
        broken = msgspec.structs.replace(reservation, stage="broken")
        table.put(broken)
        return with_change(after, reservation, broken)
    return after


def _named(partition: Partition, decision: Decision) -> Reservation:
    grant, dataset = _decode_step(bytes(decision.request)).grant, str(decision.dataset)
    found = partition.reservations.get(dataset, grant)
    if found is None or not found.is_open:
        raise LogDamaged(
            f"decision {decision.partition_sequence} is about the reservation {grant} of "
            f"dataset {dataset}, which is not open"
        )
    return found


def _new(
    before: DatasetLedger,
    after: DatasetLedger,
    decision: Decision,
    digest: str,
    charges: tuple[LimitCharge, ...],
) -> Reservation:
    request, number = _decode_request(bytes(decision.request)), decision.partition_sequence
    claim = claim_of(decision)
    if not request.reserve or decision.reservation is None or claim is None:
        raise LogDamaged(f"decision {number} reserves, its request does not")
    # One dataset's clock may be behind that of another one of the request.
    deadline = from_iso(decision.reservation.until)
    reserved_at = deadline - length_ms(request.reserve.until)
    reserved = reservation_of_grant(before, after, request, claim, charges, reserved_at)
    return msgspec.structs.replace(reserved, grant=digest, partition_sequence=number)


def _begun(
    reservation: Reservation,
    before: DatasetLedger,
    after: DatasetLedger,
    back: tuple[LimitCharge, ...],
) -> Reservation:
    """Return a reservation that has begun: charged less by what came back to totals and limits."""
    returned = tuple(_growth_back(before.totals, after.totals))
    of_limits = {each.key: each.counted for each in back}
    charges = [
        msgspec.structs.replace(own, counted=after_refund(own.counted, of_limits[own.key]))
        if own.key in of_limits
        else own
        for own in reservation.charges
    ]
    return msgspec.structs.replace(
        reservation,
        stage="begun",
        charged=after_refund(reservation.charged, returned),
        charges=tuple(charges),
    )


def _growth_back(before: tuple[Units, ...], after: tuple[Units, ...]) -> Iterator[Units]:
    for was, now in zip(before, after, strict=True):
        yield 0 if isinstance(was, float) else was - now


def take_reservation_row(partition: Partition, key: bytes, value: bytes | None) -> None:
    """Apply a reservation's row of `state`, None for one that is open no more.

    Raises: ValueError, msgspec.MsgspecError: the row cannot be read or does not match its key.
    """
    partition.checksum.forget(key.decode())
    if value is None:
        partition.reservations.remove(*parse_reservation_key(key))
        return
    row = reservation_of(decode_reservation_row(value))
    if reservation_row_key(*row.key) != key:
        raise ValueError(f"it holds the reservation {row.grant} of dataset {row.dataset}")
    partition.reservations.put(row)
    partition.checksum.put(key.decode(), crc_of_row(value))


def miscounted_reservations(partition: Partition) -> str | None:
    """Return in words which dataset's row disagrees with its reservations, or None."""
    counted = 0
    for name, ledger in partition.ledgers.items():
        rows = partition.reservations.of(name).values()
        counted += len(rows)
        settled = sum(not row.is_open for row in rows)
        held = ledger.held
        zero: tuple[Units, ...] = (0,) * len(ledger.plan.sums)
        found = reduce(plus, (row.held for row in rows), zero)
        stated = zero if held is None else held.amounts
        broken = sum(row.stage == "broken" for row in rows)
        numbers = (0, 0, 0) if held is None else (held.count, held.broken, held.settled)
        count = len(rows) - settled
        if (count, broken, settled) != numbers or found != stated:
            return (
                f"`state` has {count} open reservations of dataset {name}, which hold {found}, "
                f"but its row says {numbers[0]} and {stated}"
            )
    if counted != partition.reservations.count:
        return "`state` has reservations of a dataset that it does not have"
    return None
