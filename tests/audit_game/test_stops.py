"""At which level a session stops shows no more than what it is charged by then."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from accountant.questions import Stop, levels_of
from tests.accountant.noise.laws import bits_of
from tests.audit_game.auditor import play_games, probability_bounds
from tests.audit_game.executor import ask

GAMES: Final = 4_000
RULE: Final = Stop(relative_error="0.5", confidence="0.9")
# One table has no rows, where noise alone may stop a session; the other has two.
ASKED: Final = ask("count", "epsilon: 3, laplace_reduction from 16", others=())
LEVELS: Final = levels_of(ASKED.derivation.draws[0])


def finds_a_leak(last_level: Callable[[bool], int]) -> bool:
    """Tell whether stopping at some level or before is likelier than its cost allows.

    Args:
        last_level: plays a session, and returns how many levels it showed.
    """
    tables = play_games(lambda neighbour: (last_level(neighbour),), GAMES).tables
    counts = [
        np.array([sum(shown <= i for (shown,) in table) for i in range(1, len(LEVELS) + 1)])
        for table in tables
    ]
    growth = np.array([math.exp(level.cost) for level in LEVELS])
    for one, other in (counts, counts[::-1]):
        least, most = probability_bounds(one, other, GAMES // 2)
        if np.any(least > growth * most):
            return True
    return False


def test_a_rule_on_released_values_shows_no_more_than_is_charged() -> None:
    bits = bits_of(1)
    shown = list[int]()

    def last_level(neighbour: bool) -> int:
        shown.append(len(ASKED.levels(neighbour, bits, RULE)))
        return shown[-1]

    assert not finds_a_leak(last_level)
    assert len(set(shown)) > 1, "every session stops at the same level"


def test_a_rule_on_exact_values_is_found() -> None:
    assert finds_a_leak(lambda neighbour: 1 if neighbour else len(LEVELS))
