"""Each rule of reservations is needed: without it an adversary exceeds what is guaranteed.

Each planted rule changes one thing of the live ledger's. Where it has a right twin here, the same
adversary stays within the guarantee.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pytest
from scipy.special import ndtr

from accountant import claims as c
from accountant.amounts import UNIT
from accountant.policy import Policy
from accountant.records import ReservationStep
from accountant.records.requests import Begin, Settle, Void
from research.games.ledgers import FilterLedger, Offer
from research.games.optimal_stopping import Move, solve
from research.games.pairs import Pair
from research.games.payoffs import hockey_stick
from research.games.reservations import HeldReservation, LedgerState, LiveRules, Reservable
from tests.research.games import menus as m
from tests.research.games.reservation_attacks import (
    GAUSSIAN,
    ReservationAttack,
    brownian,
    once,
    policy,
)

ZCDP: Final = policy("zcdp_tight", delta="0.01")


def returned(state: LedgerState, held: HeldReservation, names: tuple[str, ...]) -> LedgerState:
    """Return the state after a reservation gave back what it was charged in some totals."""
    row = held.reservation
    assert row is not None
    totals = tuple(
        total - charged if name in names else total
        for name, total, charged in zip(row.sums, state.totals, row.charged, strict=True)
    )
    rest = [each for each in state.held if each is not held]
    return state._replace(totals=totals, held=tuple(rest))


class VoidAfterBegin(LiveRules):
    """A reservation that has begun can be voided."""

    def step(self, state: LedgerState, place: int, record: ReservationStep) -> LedgerState | None:
        held = state.held[place]
        if isinstance(record, Void | Settle) and held.reservation is not None:
            return returned(state, held, held.reservation.sums)
        return super().step(state, place, record)


class NothingShownIsFree(LiveRules):
    """A session that says nothing of what it has shown settles at 0, as after a crash."""

    def step(self, state: LedgerState, place: int, record: ReservationStep) -> LedgerState | None:
        held = state.held[place]
        if isinstance(record, Settle) and record.shown is msgspec.UNSET and held.reservation:
            return returned(state, held, held.reservation.sums)
        return super().step(state, place, record)


@pytest.mark.parametrize(
    ("planted", "kind"),
    [(VoidAfterBegin, once(m.pure("0.3"))), (NothingShownIsFree, brownian("8", cut=0.18))],
)
def test_what_was_looked_at_and_given_back_is_learned_for_nothing(
    planted: type[LiveRules], kind: Reservable
) -> None:
    attack = ReservationAttack(ZCDP, (kind,), (), (GAUSSIAN,), rules=planted)
    assert attack.solve(150, most=1).value > 0.4
    assert replace(attack, rules=LiveRules).solve(12, most=1).value <= 0.01


class ExpiryFrees(LiveRules):
    """A lapsed reservation gives its charge back, and its mechanism runs all the same."""

    def step(self, state: LedgerState, place: int, record: ReservationStep) -> LedgerState | None:
        held, after = state.held[place], super().step(state, place, record)
        lapsed = held.reservation is not None and held.reservation.is_lapsed(0)
        if after is None or not isinstance(record, Void) or not lapsed:
            return after
        return after._replace(held=(*after.held, held._replace(reservation=None)))


def test_a_lapsed_reservation_that_runs_after_its_charge_came_back_spends_twice() -> None:
    """Two responses of the whole epsilon: P(both up) (1 - 1/e)."""
    whole = once(m.pure("1"))
    basic = policy("basic", delta="1e-9")
    attack = ReservationAttack(basic, (whole,), (), (), rules=ExpiryFrees)
    expected = (1 / (1 + math.exp(-1))) ** 2 * -math.expm1(-1)
    assert attack.solve(7).value == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(0.338, abs=5e-4)
    assert replace(attack, rules=LiveRules).solve(7).value == 0


class DeltaReturns(LiveRules):
    """A settlement gives the delta of its claim back."""

    def step(self, state: LedgerState, place: int, record: ReservationStep) -> LedgerState | None:
        held = state.held[place]
        if isinstance(record, Settle) and held.reservation is not None:
            return returned(state, held, ("delta",))
        return super().step(state, place, record)


def test_a_delta_that_comes_back_when_it_was_at_stake_names_the_neighbour() -> None:
    attack = ReservationAttack(ZCDP, (once(m.shame("0.01")),), (), (), rules=DeltaReturns)
    attack = replace(attack, policy=policy("basic", delta="0.01"))
    named = 1 - 0.99**100
    assert attack.solve(300, most=1).value == pytest.approx(named, rel=1e-9)
    assert named == pytest.approx(0.634, abs=5e-4)
    once_only = replace(attack, rules=LiveRules).solve(300, most=1).value
    assert once_only == pytest.approx(0.01, rel=1e-9)


class TestAStopByAValueThatIsNotReleased:
    """A session ends at its first level, and the end says on which side its finest answer fell.

    The ledger's own rules then charge next to nothing: that a stop is a function of released
    values is a condition on the mechanism, which no ledger can check.
    """

    POLICY = policy("zcdp_tight", delta="1e-6")
    FIRST = "1e9"

    def value(self, sessions: int) -> float:
        rho = float(FilterLedger(self.POLICY).capacity[0]) / UNIT
        finest = f"{1 / (2 * rho) * 1.00002:.12f}"
        likely = float(ndtr(math.sqrt(2 * rho) / 2))
        assert math.log(likely / (1 - likely)) == pytest.approx(0.176, abs=5e-4)
        side = Pair.of((likely, 1 - likely), (1 - likely, likely))
        kind = Reservable(c.Brownian(finest, "1", first=self.FIRST), (side,), (self.FIRST,))
        rules = LiveRules(self.POLICY, (kind,), most=1)

        def moves(state: LedgerState) -> list[Move[LedgerState]]:
            names = {"reserve", "begin", "answer", f"settle at {self.FIRST}"}
            return [move for move in rules.moves(state, ()) if move.name in names]

        return solve(rules.start, moves, hockey_stick(1.0), depth=4 * sessions).value

    def test_a_hundred_such_sessions_have_0_42(self) -> None:
        assert self.value(100) == pytest.approx(0.42, abs=0.005)

    def test_four_hundred_have_0_87(self) -> None:
        assert self.value(400) == pytest.approx(0.87, abs=0.005)


class ResidueReturns(LiveRules):
    """Under gdp_residue each cost depends on the state that it found, and always comes back."""

    def reserve(self, state: LedgerState, which: int) -> LedgerState | None:
        after = super().reserve(state, which)
        plain = self.ask(state, self.kinds[which].claim)
        if after is None or plain is None:
            return None
        (new,) = set(after.held) - set(state.held)
        assert new.reservation is not None
        cost = tuple(b - a for a, b in zip(state.totals, plain.totals, strict=True))
        row = msgspec.structs.replace(new.reservation, charged=cost)
        return LedgerState(plain.totals, (*state.held, new._replace(reservation=row)))

    def step(self, state: LedgerState, place: int, record: ReservationStep) -> LedgerState | None:
        held = state.held[place]
        if isinstance(record, Void) and held.reservation is not None:
            return returned(state, held, held.reservation.sums)
        if isinstance(record, Begin) and held.reservation is not None:
            row = msgspec.structs.replace(held.reservation, stage="begun")
            return state._replace(held=(held._replace(reservation=row),))
        return super().step(state, place, record)


@pytest.mark.parametrize(
    ("epsilon", "delta", "gain"),
    [("1", "0.3", 1.059), ("1", "0.05", 1.070), ("0.5", "0.05", 1.073)],
)
def test_a_residue_cost_returned_to_another_state_exceeds_delta(
    epsilon: str, delta: str, gain: float
) -> None:
    """A reserved response, then noise that takes nearly all; voided by its outcome."""
    residue = policy("gdp_residue", epsilon=epsilon, delta=delta)
    pure, noise = _response_and_noise(residue)
    attack = ReservationAttack(residue, (once(pure),), (noise,), (GAUSSIAN,), rules=ResidueReturns)
    assert attack.solve(4, most=1).value / float(delta) == pytest.approx(gain, abs=0.001)
    right = replace(attack, rules=LiveRules).solve(4, most=1)
    assert 0.99 < right.value / float(delta) <= 1


def _response_and_noise(residue: Policy) -> tuple[Offer, Offer]:
    """Return 0.8 of the largest response that fits, and 0.999 of the noise that fits after it."""
    ledger = FilterLedger(residue)
    full = _state(ledger, 0)
    largest = math.log(ndtr(full / 2) / ndtr(-full / 2))
    pure = m.pure(f"{0.8 * largest:.6f}")
    spent = ledger.charge(ledger.start, pure.claim)
    assert spent is not None
    left = 0.999 * _state(ledger, int(spent[0]))
    return pure, m.gaussian(f"{left:.9f}", list(np.linspace(-3, 4, 40) + left / 2))


def _state(ledger: FilterLedger, spent: int) -> float:
    return math.sqrt((int(ledger.capacity[0]) - spent) / UNIT)


class VoidRevives(LiveRules):
    """A void takes back that basic composition beside the filter has ended it."""

    def step(self, state: LedgerState, place: int, record: ReservationStep) -> LedgerState | None:
        held = state.held[place]
        if isinstance(record, Void) and held.reservation is not None:
            return returned(state, held, held.reservation.sums)
        return super().step(state, place, record)


def test_a_void_that_revives_an_ended_filter_has_1_200_delta() -> None:
    """A response ends the filter, another runs uncharged, the first is voided; then noise."""
    beside = policy("zcdp_tight", delta="1e-6", beside="basic")
    response = m.pure("0.3")
    attack = ReservationAttack(
        beside, (once(response),), (response,), (GAUSSIAN,), rules=VoidRevives
    )
    assert attack.solve(4, most=1).value / 1e-6 == pytest.approx(1219, abs=1)
    assert replace(attack, rules=LiveRules).solve(4, most=1).value <= 1e-6
