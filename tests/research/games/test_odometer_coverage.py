"""Every odometer against every adaptive adversary over a menu: exact, and simulated beside it."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from accountant.odometers import AnyOdometer
from research.games.ledgers import OdometerLedger, Totals
from research.games.optimal_stopping import Move, Solution, solve
from research.games.payoffs import hockey_stick
from tests.nightly import rounds
from tests.research.games.exact_interval import interval
from tests.research.games.odometer_attacks import ODOMETER_ATTACKS, OdometerAttack

RUNS = rounds(20_000, 100_000)
# Longer walks of one mechanism are simulated in test_stopping_time.
MOST_SIMULATED = 100
CASES = [
    pytest.param(attack, id=f"{name}-{i}")
    for name, attacks in ODOMETER_ATTACKS.items()
    for i, attack in enumerate(attacks)
]


def test_every_odometer_is_attacked() -> None:
    """One that is added without an attack on it fails here."""
    names = {str(kind.__struct_config__.tag) for kind in get_args(AnyOdometer)}
    assert names == set(ODOMETER_ATTACKS)


@pytest.mark.slow
@pytest.mark.parametrize("attack", CASES)
def test_no_adversary_crosses_an_odometer_more_often_than_its_delta(
    attack: OdometerAttack,
) -> None:
    solution = attack.solve()
    assert attack.near * attack.failure <= solution.value <= attack.failure * (1 + 1e-12)
    if attack.depth <= MOST_SIMULATED:
        check_by_simulation(solution, attack.failure)


@pytest.mark.parametrize("attack", [case for case in CASES if str(case.id).endswith("-1")])
def test_swapped_neighbours_cross_an_odometer_no_more_often_than_its_delta(
    attack: OdometerAttack,
) -> None:
    solution = attack.solve(swapped=True)
    assert solution.value <= attack.failure * (1 + 1e-12)


def check_by_simulation(solution: Solution[tuple[int | float, ...]], failure: float) -> None:
    generator = np.random.default_rng(20261121)
    crossed = int(solution.simulate(RUNS, generator).sum())
    low, high = interval(crossed, RUNS)
    assert low <= solution.value <= high
    assert low <= failure


@pytest.mark.parametrize("name", ["linear", "one_sided_mixture_exact", "combined"])
def test_stopping_an_odometer_at_a_fixed_target_is_a_filter(name: str) -> None:
    """A rule fixed in advance: run nothing that takes the reading beyond epsilon* (section 4)."""
    attack, target = ODOMETER_ATTACKS[name][0], 1.5
    ledger = OdometerLedger(attack.odometer)

    def moves(totals: Totals) -> list[Move[Totals]]:
        found = ledger.moves(totals, attack.offers)
        return [move for move in found if ledger.reading(move.after[0]) <= target]

    solution = solve(ledger.start, moves, hockey_stick(target), depth=60)
    assert 0 < solution.value <= attack.failure
