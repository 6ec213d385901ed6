"""The optimiser against every strategy written out, and against what is known in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from research.games.optimal_stopping import SILENT, Move, solve
from research.games.pairs import (
    Pair,
    coarsened_gaussian,
    name_and_shame,
    randomized_response,
)
from research.games.payoffs import crossing, hockey_stick, hockey_stick_at, moment
from tests.research.games.exact_interval import interval

Count = tuple[int, ...]

PAIRS = (
    randomized_response(0.5),
    coarsened_gaussian(0.9, [-0.3, 0.8]),
    coarsened_gaussian(0.9, [-0.3, 0.8]).swapped(),
    name_and_shame(0.01),
)
# Weights that no two paths share, so that states differ as much as they can.
COSTS = (5, 9, 9, 2)


def moves(spent: int) -> list[Move[int]]:
    return [
        Move(str(i), pair, (spent + cost,) * len(pair.p))
        for i, (pair, cost) in enumerate(zip(PAIRS, COSTS, strict=True))
        if spent + cost <= 20
    ]


def best_written_out(epsilon: float, spent: int, p: float, q: float, depth: int) -> float:
    """Return the most of sum (p - e^epsilon q)_+ over all strategies, by nothing but recursion."""
    best = max(p - math.exp(epsilon) * q, 0.0)
    if depth:
        for move in moves(spent):
            rows = zip(move.pair.p, move.pair.q, move.after, strict=True)
            gains = [best_written_out(epsilon, s, p * x, q * y, depth - 1) for x, y, s in rows]
            best = max(best, math.fsum(gains))
    return best


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 1.7])
def test_the_optimiser_finds_the_best_of_all_strategies(epsilon: float) -> None:
    solution = solve(0, moves, hockey_stick(epsilon), depth=4)
    assert solution.value == pytest.approx(best_written_out(epsilon, 0, 1.0, 1.0, 4), rel=1e-11)
    assert solution.nodes > 100


def once_each(state: Count) -> list[Move[Count]]:
    pair = randomized_response(0.1)
    return [Move("rr", pair, ((state[0] + 1,),) * 2)] if state[0] < 300 else []


def test_the_optimum_for_one_mechanism_is_the_binomial_hockey_stick() -> None:
    # Kairouz, Oh and Viswanath 2015: the composition of k RR_epsilon.
    k, up = 300, 1 / (1 + math.exp(-0.1))
    losses = (2 * np.arange(k + 1) - k) * 0.1
    gains = np.maximum(0, -np.expm1(np.minimum(2.0 - losses, 0)))
    known = float((binom.pmf(np.arange(k + 1), k, up) * gains).sum())
    assert solve((0,), once_each, hockey_stick(2.0), depth=400).value == pytest.approx(known)


def test_moments_of_randomized_response_multiply() -> None:
    solution = solve((0,), once_each, moment(1.5), depth=7)
    each = math.cosh(2 * 0.1) / math.cosh(0.05)
    assert solution.value == pytest.approx(each**7, rel=1e-9)


def test_stopping_at_will_counts_where_the_target_moves() -> None:
    # Two rounds; the target falls to 0 after one, and rises again after two.
    targets = {0: 1.0, 1: 0.0, 2: 1.0}
    solution = solve(
        (0,),
        lambda s: once_each(s) if s[0] < 2 else [],
        hockey_stick_at(lambda s: targets[s[0]]),
        depth=2,
    )
    assert solution.value == pytest.approx(randomized_response(0.1).hockey_stick(0.0))


def test_a_crossing_counts_even_if_the_loss_falls_again() -> None:
    bounds = {0: 1.0, 1: 0.05, 2: 10.0}
    solution = solve(
        (0,), lambda s: once_each(s) if s[0] < 2 else [], crossing(lambda s: bounds[s[0]]), depth=2
    )
    assert solution.value == pytest.approx(1 / (1 + math.exp(-0.1)), rel=1e-14)


def test_moves_without_an_answer_gain_nothing_even_in_a_cycle() -> None:
    def toggled(state: bool) -> Sequence[Move[bool]]:
        return [Move("toggle", SILENT, (not state,))]

    assert solve(False, toggled, hockey_stick(0.0), depth=20).value == 0.0
    assert solve(False, toggled, crossing(lambda s: -1.0 if s else 1.0), depth=20).value == 1.0


def test_the_returned_strategy_gains_its_value_in_a_simulation() -> None:
    solution = solve(0, moves, hockey_stick(0.4), depth=4)
    generator = np.random.default_rng(5)
    gained = solution.simulate(100_000, generator)
    # A coin that falls with the chance of what was gained makes it a binomial count.
    count = int((generator.random(len(gained)) < gained).sum())
    low, high = interval(count, len(gained))
    assert low <= solution.value <= high
    assert high - low < solution.value / 5


def test_walking_the_strategy_by_hand_gains_the_same() -> None:
    solution = solve(0, moves, hockey_stick(0.4), depth=3)
    total = 0.0
    for path in product(range(3), repeat=3):
        state, loss, chance, depth = 0, 0.0, 1.0, 0
        for outcome in path:
            move = solution.choose(depth, state, loss)
            if move is None:
                # Count each stopped prefix once.
                chance *= outcome == 0
                continue
            rows = move.outcomes()
            if outcome >= len(rows):
                chance = 0.0
                break
            likely, more, state = rows[outcome]
            chance, loss, depth = chance * likely, loss + more, depth + 1
        total += chance * max(0.0, 1 - math.exp(0.4 - loss)) if chance else 0.0
    assert total == pytest.approx(solution.value, rel=1e-11)


def test_the_optimum_equals_that_in_fractions_for_rational_odds() -> None:
    """Odds of 2 and 3: the loss of each path is a fraction's logarithm, the value a fraction."""
    laws = [(Fraction(2, 3), Fraction(1, 3)), (Fraction(3, 4), Fraction(1, 4))]

    def best(used: tuple[int, int], p: Fraction, q: Fraction) -> Fraction:
        value = max(p - 4 * q, Fraction(0))
        for i, (high, low) in enumerate(laws):
            if used[i] < 2:
                after = (used[0] + (i == 0), used[1] + (i == 1))
                value = max(value, best(after, p * high, q * low) + best(after, p * low, q * high))
        return value

    def rules(used: tuple[int, int]) -> list[Move[tuple[int, int]]]:
        found = []
        for i, (high, low) in enumerate(laws):
            if used[i] < 2:
                pair = Pair.of((float(high), float(low)), (float(low), float(high)))
                after = (used[0] + (i == 0), used[1] + (i == 1))
                found.append(Move(str(i), pair, (after, after)))
        return found

    exact = best((0, 0), Fraction(1), Fraction(1))
    found = solve((0, 0), rules, hockey_stick(math.log(4)), depth=4).value
    assert found == pytest.approx(float(exact), rel=1e-13)
