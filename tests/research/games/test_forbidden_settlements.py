"""Settling and voiding by outcome, and refunding what was charged by the state, are caught."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

from accountant.amounts import UNIT
from accountant.claims import Pure
from accountant.policy import Policy
from research.games.ledgers import FilterLedger, Totals
from research.games.optimal_stopping import SILENT, Move, solve
from research.games.pairs import Pair, randomized_response
from research.games.payoffs import hockey_stick


class TestSettlingByTheOutcome:
    """Outcome a with P = .01 and L = -3, or b with P = .99, L = .2142, each at its own rho."""

    POLICY = Policy(filter="zcdp_tight", epsilon="20.55", delta="1e-6")

    def value(self, *, by_outcome: bool) -> float:
        ledger = FilterLedger(self.POLICY)
        rare = 0.01
        q = rare * math.exp(3)
        loss = math.log((1 - rare) / (1 - q))
        assert loss == pytest.approx(0.2142, abs=1e-4)
        pair = Pair((rare, 1 - rare), (q, 1 - q), (-3.0, loss))
        # What randomized response of each outcome's loss would cost.
        maximum, minimum = (round(x * math.tanh(x / 2) * UNIT) for x in (3.0, loss))

        def moves(spent: Totals) -> list[Move[Totals]]:
            if spent[0] + maximum > ledger.capacity[0]:
                return []  # the maximum is reserved before it runs
            settled = minimum if by_outcome else maximum
            return [Move("run", pair, ((spent[0] + maximum, 0), (spent[0] + settled, 0)))]

        return solve(ledger.start, moves, hockey_stick(20.55), depth=300).value

    def test_a_ledger_that_claims_20_55_and_1e_6_has_0_21(self) -> None:
        assert self.value(by_outcome=True) == pytest.approx(0.21, abs=0.003)

    def test_settlement_in_full_stays_within_delta(self) -> None:
        assert self.value(by_outcome=False) <= 1e-6


class Held(NamedTuple):
    spent: Totals
    before: Totals | None


def test_voiding_after_an_answer_reveals_it_without_a_charge() -> None:
    ledger = FilterLedger(Policy(filter="zcdp_tight", epsilon="1", delta="0.01"))
    pair = randomized_response(0.2)

    def moves(held: Held, *, looks: bool) -> list[Move[Held]]:
        if held.before is not None:
            return [Move("void", SILENT, (Held(held.before, None),))]
        after = ledger.charge(held.spent, Pure("0.2"))
        if after is None:
            return []
        if looks:
            return [Move("reserve and look", pair, (Held(after, held.spent),) * 2)]
        return [
            Move("reserve", SILENT, (Held(after, held.spent),)),
            Move("reserve and run", pair, (Held(after, None),) * 2),
        ]

    start = Held(ledger.start, None)
    caught = solve(start, lambda s: moves(s, looks=True), hockey_stick(1.0), depth=200)
    assert caught.value > 0.5
    # Voided before the mechanism read anything, it costs nothing and tells nothing.
    fair = solve(start, lambda s: moves(s, looks=False), hockey_stick(1.0), depth=200)
    assert 0 <= fair.value <= 0.01
