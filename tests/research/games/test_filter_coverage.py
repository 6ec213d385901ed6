"""Every filter against every adaptive adversary over a menu: exact, and simulated beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from accountant.filters import FILTERS
from accountant.policy import Policy
from research.games.composition import Query, Round, privacy_filter_comp
from research.games.ledgers import FilterLedger, Totals
from research.games.optimal_stopping import Solution, solve
from research.games.payoffs import crossing, hockey_stick, moment
from tests.nightly import rounds
from tests.research.games import menus as m
from tests.research.games.coverage import ATTACKS, Attack, promised
from tests.research.games.exact_interval import interval

RUNS = rounds(20_000, 100_000)
LEAST_SEEN = 10 / RUNS  # below it so many runs show nothing
CASES = [
    pytest.param(attack, id=f"{name}-{i}")
    for name, attacks in ATTACKS.items()
    for i, attack in enumerate(attacks)
]


def test_every_filter_is_attacked() -> None:
    """A new one is, in the standard way, until it has attacks of its own."""
    assert set(FILTERS) == set(ATTACKS)
    assert all(ATTACKS.values())
    for name, attacks in ATTACKS.items():
        assert {attack.policy.filter for attack in attacks} == {name}


@pytest.mark.slow
@pytest.mark.parametrize("attack", CASES)
def test_no_adversary_gets_beyond_the_guarantee(attack: Attack) -> None:
    maximum = promised(attack.policy, attack.epsilon)
    solution = attack.solve()
    assert attack.near * maximum <= solution.value <= maximum * (1 + 1e-12)
    if maximum > LEAST_SEEN:
        check_by_simulation(solution, maximum)


@pytest.mark.parametrize("attack", [case for case in CASES if str(case.id).endswith("-0")])
def test_swapped_neighbours_gain_an_adversary_no_more_than_the_filters_delta(
    attack: Attack,
) -> None:
    maximum = promised(attack.policy, attack.epsilon)
    assert attack.solve(swapped=True).value <= maximum * (1 + 1e-12)


@pytest.mark.parametrize("attack", [case for case in CASES if str(case.id).endswith("-0")])
def test_a_cap_never_increases_the_gain_of_an_adversary(attack: Attack) -> None:
    """Whoever is capped plays one of the strategies of whoever is not."""
    free = FilterLedger(attack.policy)
    capped = replace(attack, policy=structs.replace(attack.policy, most_per_request="0.3"))
    ledger = FilterLedger(capped.policy)
    largest = [free.maximum(free.start, ending.claims) for ending in attack.endings]
    allowed = [ledger.maximum(ledger.start, ending.claims) for ending in attack.endings]
    assert any(maximum is not None for maximum in largest)
    for maximum, less in zip(largest, allowed, strict=True):
        assert less is None or (maximum is not None and less < maximum)
    value = capped.solve().value
    assert 0 <= value <= attack.solve().value * (1 + 1e-12)
    assert value <= promised(attack.policy, attack.epsilon) * (1 + 1e-12)


def check_by_simulation(solution: Solution[Totals], maximum: float) -> None:
    generator = np.random.default_rng(20261121)
    gained = solution.simulate(RUNS, generator)
    # What a run gains is in [0, 1]: a coin that falls with that chance makes it binomial.
    count = int((generator.random(RUNS) < gained).sum())
    low, high = interval(count, RUNS)
    assert low <= solution.value <= high
    assert low <= maximum


@pytest.mark.parametrize("order", [0.1, 1.0, 4.0, 25.0])
@pytest.mark.parametrize(
    "attack", [a for a in ATTACKS["zcdp"] if FilterLedger(a.policy).guarantee.delta == 0]
)
def test_zcdp_bounds_every_moment(attack: Attack, order: float) -> None:
    ledger = FilterLedger(attack.policy)
    menu = attack.menu()
    bound = order * (order + 1) * float(ledger.guarantee.amount)
    worst = solve(
        ledger.start,
        lambda spent: ledger.moves(spent, menu),
        moment(order, lambda spent: attack.last_log_moments(ledger, spent, order)),
        depth=attack.depth,
    ).value
    assert 0.99 * bound < math.log(worst) <= bound * (1 + 1e-12)


class Best:
    """Plays the best strategy in the game as Rogers 2016 prints it."""

    def __init__(self, attack: Attack, solution: Solution[Totals]) -> None:
        self.ledger, self.menu = FilterLedger(attack.policy), attack.menu()
        self.solution = solution

    def standing(self, view: Sequence[Round]) -> tuple[Totals, float]:
        """Return what is spent, and the loss."""
        spent = self.ledger.start
        for played in view:
            spent = self.ledger.charge(spent, played.query.claim) or spent
        return spent, sum(played.loss for played in view)

    def choose(self, view: Sequence[Round], generator: np.random.Generator) -> Query | None:
        spent, loss = self.standing(view)
        move = self.solution.choose(len(view), spent, loss)
        if move is None:
            return None
        offer = next(offer for offer in self.menu if offer.pair == move.pair)
        return Query(offer.claim, offer.pair)


def test_the_best_strategy_gains_as_much_in_the_printed_game() -> None:
    attack = ATTACKS["gdp_residue"][0]
    solution = attack.solve()
    ledger, adversary = FilterLedger(attack.policy), Best(attack, solution)
    generator, runs, won = np.random.default_rng(8), 2_000, 0
    payoff = hockey_stick(attack.epsilon, lambda spent: attack.last(ledger, spent))
    for _ in range(runs):
        view = privacy_filter_comp(
            adversary, ledger, rounds=attack.depth, b=0, halt=True, generator=generator
        )
        assert None not in [played.outcome for played in view.rounds]
        spent, loss = adversary.standing(view.rounds)
        won += generator.random() < payoff(spent, np.array([loss]))[0]
    low, high = interval(won, runs)
    assert low <= solution.value <= high


@pytest.mark.parametrize(
    ("name", "near"), [("basic", 0.0), ("advanced_2016", 0.008), ("fully_adaptive", 0.33)]
)
def test_some_filters_bound_the_loss_itself_at_every_time(name: str, near: float) -> None:
    """P(some n: L_n > epsilon) <= delta, more than the hockey-stick of their guarantee."""
    ledger = FilterLedger(Policy(filter=name, epsilon="1", delta="0.3"))
    offers = [m.pure("0.02")]
    solution = solve(
        ledger.start,
        lambda spent: ledger.moves(spent, offers),
        crossing(lambda spent: 1.0),
        depth=1200,
    )
    assert near * 0.3 <= solution.value <= 0.3
