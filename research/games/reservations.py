"""The rules of reservations of the live ledger, as the moves of a game.

Each record goes through the functions that decide it: `adjudicate` and `decide_step`. An adversary
sends every record in every state; what is granted is a move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from accountant.amounts import Units
from accountant.claims import Claim, check_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import adjudicate
from accountant.limits.store import LimitTable
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.records import ReservationStep
from accountant.records.members import MemberRow
from accountant.records.outcomes import Outcome
from accountant.records.requests import Begin, MechanismRequest, Reserve, Settle, Void
from accountant.reservations.held import drop_final, reservation_of_grant, with_reservation
from accountant.reservations.reservation import Reservation
from accountant.reservations.steps import decide_step
from accountant.reservations.table import first_final
from accountant.times import NO_RESETS
from research.games.optimal_stopping import SILENT, Move
from research.games.pairs import Pair

_NOW: Final = 0
_HOUR: Final = 3_600_000
"""Time from a reservation to its deadline, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Reservable:
    """A mechanism that may be reserved.

    Attributes:
        claim: what is reserved.
        answers: the laws of its answers, one after another, each given those before it.
        levels: of a session, the level at which each answer is shown; empty for what settles in
            full.
        mu_squared: of Gaussian answers, mu^2 of each.
    """

    claim: Claim
    answers: tuple[Pair, ...]
    levels: tuple[str, ...] = ()
    mu_squared: tuple[float, ...] = ()


class HeldReservation(NamedTuple):
    """A reservation of the adversary.

    Attributes:
        which: its place among the mechanisms that may be reserved.
        shown: number of answers shown.
        reservation: as the ledger has it; None for one that began, and is open no more.
    """

    which: int
    shown: int
    reservation: Reservation | None


class LedgerState(NamedTuple):
    """The state of the ledger, and what the adversary holds; times count from now."""

    totals: tuple[Units, ...]
    held: tuple[HeldReservation, ...] = ()


class LiveRules:
    """The rules of a live ledger for one dataset.

    A planted rule overrides `reserve` or `step`.

    Args:
        kinds: what may be reserved.
        most: how many reservations an adversary holds at once.
    """

    def __init__(self, policy: Policy, kinds: Sequence[Reservable] = (), *, most: int = 2) -> None:
        self.kinds = tuple(kinds)
        self.most = most
        self._opened = DatasetLedger.new("census", open_plan(resolve(policy)), 0)
        self.plan = self._opened.plan
        self.start = LedgerState(self._opened.totals)
        self._store = LimitTable()

    def ledger(self, state: LedgerState) -> DatasetLedger:
        """Return the dataset's ledger in a state."""
        ledger = msgspec.structs.replace(self._opened, totals=state.totals)
        for each in state.held:
            if each.reservation is not None:
                ledger = with_reservation(ledger, each.reservation)
        return ledger

    def reading(self, state: LedgerState) -> float:
        """Return what the policy's first odometer reads, in nats."""
        return self.ledger(state).readings[0]

    def ask(self, state: LedgerState, claim: Claim) -> LedgerState | None:
        """Return the state after a plain request, None if it is refused."""
        ledger, state = self._next(state)
        after = self._adjudicated(ledger, claim, reserve=False)
        return None if after is None else state._replace(totals=after.totals)

    def reserve(self, state: LedgerState, which: int) -> LedgerState | None:
        """Return the state after a reservation, None if it is refused."""
        before, state = self._next(state)
        claim = self.kinds[which].claim
        after = self._adjudicated(before, claim, reserve=True)
        if after is None:
            return None
        policy = self.plan.policy
        request = MechanismRequest(
            1, "", "ana", "census", claim, policy.unit, policy.neighbours, reserve=Reserve("PT1H")
        )
        clock = before.clock(_NOW)
        new = reservation_of_grant(before, after, request, claim, (), clock)
        new = msgspec.structs.replace(new, sequence=0)
        return self._state(
            with_reservation(after, new),
            (*state.held, HeldReservation(which, 0, new)),
        )

    def steps(self, state: LedgerState, place: int) -> Iterator[tuple[str, LedgerState]]:
        """Yield the name and the state after each record about a reservation that is granted."""
        held = state.held[place]
        records: dict[str, ReservationStep] = {"begin": _BEGIN, "void": _VOID}
        if held.shown:
            records["settle in full"] = _SETTLE
            for level in self.kinds[held.which].levels[held.shown - 1 : held.shown]:
                records[f"settle at {level}"] = msgspec.structs.replace(_SETTLE, shown=level)
        for name, record in records.items():
            after = self.step(state, place, record)
            if after is not None:
                yield name, after

    def step(self, state: LedgerState, place: int, record: ReservationStep) -> LedgerState | None:
        """Return the state after a record about a reservation, None if it is refused."""
        held = state.held[place]
        ledger, dropped = self._next(state)
        is_open = held in dropped.held
        result = decide_step(
            ledger,
            held.reservation if is_open else None,
            record,
            _find_no_member,
            self._store,
            _NOW,
            NO_RESETS,
            ledger.clock(_NOW),
        )
        if not result.outcome.is_step:
            return None
        rest = list(dropped.held)
        rest.remove(held)
        # The row of a session that has settled holds nothing: it serves claims that continue it.
        if result.reservation is not None and result.reservation.is_open:
            rest.append(held._replace(reservation=result.reservation))
        return self._state(result.ledger, rest)

    def moves(
        self, state: LedgerState, asks: Sequence[tuple[str, Claim, Pair]]
    ) -> list[Move[LedgerState]]:
        """Return every move: requests, records about reservations, answers, and an hour of waiting.

        Args:
            asks: what runs at once where it is granted: name, claim and laws.
        """
        found = []
        for name, claim, pair in asks:
            after = self.ask(state, claim)
            if after is not None:
                found.append(Move(name, pair, (after,) * len(pair.p)))
        for which in range(len(self.kinds) if len(state.held) < self.most else 0):
            after = self.reserve(state, which)
            if after is not None:
                found.append(Move("reserve", SILENT, (after,)))
        for place, held in enumerate(state.held):
            found += [Move(name, SILENT, (after,)) for name, after in self.steps(state, place)]
            if held.reservation is None or held.reservation.stage == "begun":
                found += self._answers(state, place)
        if any(each.reservation is not None for each in state.held):
            found.append(Move("wait", SILENT, (self._wait(state),)))
        return found

    def _wait(self, state: LedgerState) -> LedgerState:
        """Return the state an hour later, as the next decision finds it."""
        later = [each._replace(reservation=_an_hour_older(each.reservation)) for each in state.held]
        return self._next(state._replace(held=_sorted(later)))[1]

    def _answers(self, state: LedgerState, place: int) -> list[Move[LedgerState]]:
        held = state.held[place]
        kind = self.kinds[held.which]
        if held.shown == len(kind.answers):
            return []
        rest = list(state.held)
        shown = rest[place] = held._replace(shown=held.shown + 1)
        after = state._replace(held=_sorted(rest))
        if shown.shown == len(kind.answers):
            if shown.reservation is None:
                rest.remove(shown)
                after = state._replace(held=_sorted(rest))
            elif not kind.levels:
                after = self.step(after, after.held.index(shown), _SETTLE) or after
        pair = kind.answers[held.shown]
        return [Move("answer", pair, (after,) * len(pair.p))]

    def _adjudicated(
        self, ledger: DatasetLedger, claim: Claim, *, reserve: bool
    ) -> DatasetLedger | None:
        policy, checked = self.plan.policy, check_claim(claim)
        unit, neighbours = policy.unit, policy.neighbours
        after, verdict = adjudicate(ledger, checked, unit, neighbours, _NOW, reserve=reserve)
        granted = Outcome.RESERVED if reserve else Outcome.GRANTED
        return after if verdict.outcome is granted else None

    def _next(self, state: LedgerState) -> tuple[DatasetLedger, LedgerState]:
        """Return the ledger and the state as the next decision finds them: final rows dropped."""
        rows = _OpenRows(state.held)
        ledger = drop_final(rows, self.ledger(state), _NOW)
        return ledger, state._replace(held=rows.left()) if rows.final else state

    @staticmethod
    def _held(ledger: DatasetLedger) -> tuple[Units, ...]:
        return ledger.held.amounts if ledger.held else (0,) * len(ledger.totals)

    def _state(self, ledger: DatasetLedger, held: Sequence[HeldReservation]) -> LedgerState:
        found = LedgerState(ledger.totals, _sorted(held))
        if self._held(ledger) != self._held(self.ledger(found)):
            raise ValueError("the sum of open reservations is not that of their rows")
        return found


class _OpenRows:
    """The open reservations of a state, of which those that are final are dropped."""

    def __init__(self, held: tuple[HeldReservation, ...]) -> None:
        self._held = held
        self.final: list[Reservation] = []

    def take_final(self, dataset: str, at: int, maximum: int) -> list[Reservation]:
        del dataset
        rows = [each.reservation for each in self._held if each.reservation is not None]
        self.final = first_final(rows, at, maximum)
        return self.final

    def left(self) -> tuple[HeldReservation, ...]:
        """Return what the adversary holds: what began may still answer, though no row is left."""
        left = []
        for each in self._held:
            row = each.reservation
            if row is None or row not in self.final:
                left.append(each)
            elif row.stage == "begun":
                left.append(each._replace(reservation=None))
        return tuple(left)


_BEGIN: Final = Begin(1, "", "ana", "census", "")
_VOID: Final = Void(1, "", "ana", "census", "")
_SETTLE: Final = Settle(1, "", "ana", "census", "")


def _sorted(held: Sequence[HeldReservation]) -> tuple[HeldReservation, ...]:
    """Return what is held in an order that does not depend on that of the records."""
    return tuple(sorted(held, key=_order))


def _order(held: HeldReservation) -> tuple[int, int, int, str, str]:
    row = held.reservation
    if row is None:
        return held.which, held.shown, -1, "", ""
    return held.which, held.shown, row.reserved_at, row.stage, str(row.charged)


def _an_hour_older(row: Reservation | None) -> Reservation | None:
    if row is None:
        return None
    return msgspec.structs.replace(
        row, reserved_at=row.reserved_at - _HOUR, deadline=row.deadline - _HOUR
    )


def _find_no_member(name: str) -> MemberRow | None:
    del name
    return None
