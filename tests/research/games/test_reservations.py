"""Reservations by the rules of the live ledger never get an adversary beyond the guarantee."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from accountant.filters import FILTERS
from accountant.policy import Policy
from research.games.optimal_stopping import solve
from research.games.payoffs import crossing
from research.games.reservations import LiveRules
from tests.nightly import rounds
from tests.research.games import menus as m
from tests.research.games.coverage import promised
from tests.research.games.exact_interval import interval
from tests.research.games.odometer_attacks import ODOMETER_ATTACKS
from tests.research.games.reservation_attacks import (
    ATTACKS,
    ATTACKS_BESIDE,
    ReservationAttack,
    noise_reduction,
    once,
)

EVERY = {**ATTACKS, **{f"{name} beside basic": each for name, each in ATTACKS_BESIDE.items()}}
DEPTH = rounds(4, 7)
SLOW_DEPTH = rounds(3, 6)  # under gdp_residue each cost is the root of an equation


def test_every_filter_is_attacked() -> None:
    assert set(ATTACKS) == set(FILTERS)
    assert set(ATTACKS_BESIDE) == {name for name, kind in FILTERS.items() if kind.takes_beside}
    for name, attack in EVERY.items():
        assert attack.policy.filter == name.split()[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_no_records_get_an_adversary_beyond_the_guarantee(name: str) -> None:
    attack = EVERY[name]
    maximum = promised(attack.policy, attack.epsilon)
    solution = attack.solve(SLOW_DEPTH if attack.policy.filter == "gdp_residue" else DEPTH)
    assert attack.near * maximum <= solution.value <= maximum * (1 + 1e-12)
    gained = solution.simulate(20_000, np.random.default_rng(20261127))
    count = int((np.random.default_rng(7).random(len(gained)) < gained).sum())
    low, high = interval(count, len(gained))
    assert low <= solution.value <= high


@pytest.mark.parametrize("name", EVERY)
def test_reservations_are_worth_no_less_than_plain_requests(name: str) -> None:
    """Whoever reserves nothing plays one of the strategies of whoever may."""
    attack = EVERY[name]
    plain = ReservationAttack(attack.policy, (), attack.asks, attack.endings, at=attack.at)
    assert plain.solve(3).value <= attack.solve(3).value * (1 + 1e-12)


POLICIES: Final[dict[str, dict[str, str]]] = {
    "zcdp": {"filter": "zcdp", "rho": "100"},
    "basic": {"filter": "basic", "epsilon": "100", "delta": "1e-9"},
}
"""Budgets that admit everything below."""
KINDS: Final = {"zcdp": once(m.pure("0.4")), "basic": noise_reduction("5", "2.5")}
"""Losses are multiples of 0.2, as that of what runs at once."""


@pytest.mark.parametrize("name", ODOMETER_ATTACKS)
@pytest.mark.parametrize("filter_name", POLICIES)
def test_no_loss_exceeds_a_reading_more_often_than_its_delta(filter_name: str, name: str) -> None:
    """A reservation counts at its maximum until it is settled or voided."""
    odometer = ODOMETER_ATTACKS[name][0].odometer
    policy = Policy(**POLICIES[filter_name], odometers=(odometer,))
    rules = LiveRules(policy, (KINDS[filter_name],), most=1)
    response = m.pure("0.2")
    asks = [("pure", response.claim, response.pair)]
    solution = solve(
        rules.start,
        lambda state: rules.moves(state, asks),
        crossing(rules.reading),
        depth=rounds(16, 60),
    )
    # So few responses never exceed the other odometers.
    assert solution.value > 0 or name in {"basic", "advanced_2016_n", "stitched"}
    assert solution.value <= float(odometer.failure())
