"""The open reservations of datasets, by following decisions and rows of `state`.

Rows and decisions may come twice and out of order. A reservation only moves on: from reserved to
begun or broken, and then it is gone. So of two reports of one, the one that is further holds.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import INFINITE, parse_units
from accountant.limits.charge import LimitCharge, after_refund
from accountant.records.header import DecisionHeader
from accountant.records.outcomes import Outcome
from accountant.records.request_names import claim_of
from accountant.records.requests import Reserve
from accountant.records.reservation_rows import ReservationRow, Stage, length_ms
from accountant.reservations.reservation import Reservation, reservation_of
from accountant.reservations.table import first_final
from accountant.times import from_iso

_MOST_CLOSED: Final = 20_000
"""How many closed reservations are remembered: an older row must not open one again."""
_FURTHER: Final[dict[Stage, int]] = {"reserved": 0, "begun": 1, "broken": 2, "settled": 3}


class _ReservingRequest(msgspec.Struct):
    request_id: str
    analyst: str
    reserve: Reserve
    via: str = ""
    purpose: str = ""
    question: msgspec.Raw | UnsetType = UNSET


class _NamedGrant(msgspec.Struct):
    grant: str


class _HeldCount(msgspec.Struct):
    count: int


class _WithHeld(msgspec.Struct):
    held: _HeldCount | UnsetType = UNSET


_decode_request = msgspec.json.Decoder(_ReservingRequest).decode
_decode_step = msgspec.json.Decoder(_NamedGrant).decode
_decode_held = msgspec.json.Decoder(_WithHeld).decode


class _OpenOfDataset:
    """The open reservations of one dataset by grant, and the latest time of its decisions."""

    __slots__ = ("latest_at", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, Reservation] = {}
        self.latest_at = 0


class ReservationFollower:
    """Follows the open reservations of some partitions."""

    def __init__(self) -> None:
        self._datasets: dict[str, _OpenOfDataset] = {}
        self._request_ids: dict[tuple[str, str], str] = {}
        self._closed: OrderedDict[tuple[str, str], None] = OrderedDict()

    def has(self, dataset: str | None) -> bool:
        """Tell whether a dataset has open reservations."""
        return dataset in self._datasets

    def of(self, dataset: str) -> list[Reservation]:
        """Return a dataset's open reservations, in the order of their decisions."""
        known = self._datasets.get(dataset)
        rows = [] if known is None else list(known.rows.copy().values())
        return sorted(rows, key=lambda row: row.sequence)

    def get(self, dataset: str, grant: str) -> Reservation | None:
        """Return an open reservation, None for any other grant."""
        known = self._datasets.get(dataset)
        return None if known is None else known.rows.get(grant)

    def request_ids(self, dataset: str) -> dict[str, str]:
        """Return the ids of the requests that reserved, by grant, of those that were read."""
        known = self._datasets.get(dataset)
        rows = {} if known is None else known.rows.copy()
        found = ((grant, self._request_ids.get((dataset, grant))) for grant in rows)
        return {grant: request_id for grant, request_id in found if request_id is not None}

    def latest_at(self, dataset: str) -> int:
        """Return the latest time of the log at which a dataset was decided on, 0 if unknown."""
        known = self._datasets.get(dataset)
        return 0 if known is None else known.latest_at

    def take_row(self, row: ReservationRow) -> None:
        """Take in a reservation's row of `state`.

        Raises: ValueError: an amount in it is none.
        """
        if row.stage != "settled":
            self._put(reservation_of(row))
        elif (known := self._datasets.get(row.dataset)) is not None:
            self._close(known, row.dataset, row.grant)

    def take_line(
        self,
        line: DecisionHeader,
        value: bytes,
        digest: str,
        charges: tuple[LimitCharge, ...],
    ) -> None:
        """Take in a decision.

        Args:
            value: its bytes. `digest`: their hash, of a decision `reserved`; else "".
            charges: of a decision `reserved`, what each limit was charged; of a step, what it
                gave back.
        Raises: ValueError, msgspec.MsgspecError: it cannot be read.
        """
        if line.dataset is None or line.sequence is None:
            return
        known = self._datasets.get(line.dataset)
        if line.outcome.reserves and (known is None or digest not in known.rows):
            # A row is exact; the decision may be read again, when its limits have moved on.
            self._put(self._new(line, digest, charges))
            known = self._datasets.get(line.dataset)
        if known is None:
            return
        at = from_iso(line.decided_at)
        known.latest_at = max(known.latest_at, at)
        if line.outcome.is_step or line.outcome.ends_reservation:
            self._take_step(known, line, charges)
        elif line.reservation is not None and line.reservation.stage == "broken":
            row = known.rows.get(_decode_step(line.request).grant)
            if row is not None:
                self._put(msgspec.structs.replace(row, stage="broken"))
        self._drop_final(known, line.sequence, value)
        if all(row.sequence == line.sequence for row in known.rows.values()):
            known.latest_at = at  # the first one: the clock may have been set back before it
        if not known.rows:
            del self._datasets[line.dataset]

    def _new(
        self, line: DecisionHeader, digest: str, charges: tuple[LimitCharge, ...]
    ) -> Reservation:
        request, update, cost = _decode_request(line.request), line.reservation, line.cost or {}
        claim = claim_of(line)
        assert update is not None
        assert claim is not None
        self._request_ids[str(line.dataset), digest] = request.request_id
        deadline = from_iso(update.until)
        return Reservation(
            dataset=str(line.dataset),
            grant=digest,
            sequence=line.sequence or 0,
            partition_sequence=line.partition_sequence,
            analyst=request.analyst,
            via=request.via,
            purpose=request.purpose,
            claim=claim,
            stage="reserved",
            reserved_at=deadline - length_ms(request.reserve.until),
            deadline=deadline,
            sums=tuple(cost),
            charged=tuple(map(parse_units, cost.values())),
            charges=charges,
            is_question=request.question is not UNSET,
        )

    def _take_step(
        self, known: _OpenOfDataset, line: DecisionHeader, back: tuple[LimitCharge, ...]
    ) -> None:
        grant = _decode_step(line.request).grant
        row = known.rows.get(grant)
        if line.outcome is not Outcome.BEGUN:
            self._close(known, str(line.dataset), grant)
        elif row is not None and row.stage == "reserved":
            self._put(_begun(row, line, back))

    def _put(self, row: Reservation) -> None:
        if row.key in self._closed:
            return
        known = self._datasets.setdefault(row.dataset, _OpenOfDataset())
        before = known.rows.get(row.grant)
        if before is None or _FURTHER[before.stage] <= _FURTHER[row.stage]:
            known.rows[row.grant] = row

    def _close(self, known: _OpenOfDataset, dataset: str, grant: str) -> None:
        known.rows.pop(grant, None)
        self._request_ids.pop((dataset, grant), None)
        self._closed[dataset, grant] = None
        if len(self._closed) > _MOST_CLOSED:
            self._closed.popitem(last=False)

    def _drop_final(self, known: _OpenOfDataset, sequence: int, value: bytes) -> None:
        """Drop what the decision has dropped: by its count, the first that are final."""
        older = [row for row in known.rows.values() if row.sequence <= sequence]
        held = _decode_held(value).held
        surplus = len(older) - (0 if held is UNSET else held.count)
        if surplus > 0:
            for row in first_final(older, known.latest_at, surplus):
                self._close(known, row.dataset, row.grant)


def _begun(row: Reservation, line: DecisionHeader, back: tuple[LimitCharge, ...]) -> Reservation:
    """Return a reservation that has begun: charged less by what came back at that."""
    update = line.reservation
    returned = {} if update is None else update.returned or {}
    of_limits = {each.key: each.counted for each in back}
    charges = [
        msgspec.structs.replace(own, counted=after_refund(own.counted, of_limits[own.key]))
        if own.key in of_limits and own.counted
        else own
        for own in row.charges
    ]
    less = tuple(parse_units(returned.get(name, "0")) for name in row.sums)
    assert INFINITE not in less
    return msgspec.structs.replace(
        row, stage="begun", charged=after_refund(row.charged, less), charges=tuple(charges)
    )
