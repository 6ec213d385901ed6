"""An interactive mechanism is charged at its opening: by the message it over-spends (P12).

The mechanism first shows a coin that falls to 1 with probability delta, whatever the data, and
next, if it fell to 1, names the neighbour. Its whole transcript is (0, delta)-DP against everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import pytest

from accountant import claims as c
from accountant.policy import Policy
from research.games.ledgers import FilterLedger, Totals

DELTA = "0.01"
CLAIM = c.Interactive(c.Approximate("0", DELTA))
FREE = c.Interactive(c.Pure("0"))
POLICIES = {
    "basic": {"delta": DELTA},
    "zcdp_tight": {"delta": "0.02", "delta_for_claims": DELTA},
    "gdp_residue": {"delta": "0.02", "delta_for_claims": DELTA},
    "optimal_homogeneous": {"delta": "0.02", "delta_for_claims": DELTA, "epsilon_each": "0.1"},
}

Value = Callable[[Totals, int], Fraction]


def best(name: str, *, by_message: bool, opened: int) -> Fraction:
    """Return the best chance to learn the neighbour, which is H_x at every x, in Fractions.

    Args:
        by_message: the second message is charged when it is sent, the first one nothing.
        opened: how many mechanisms at most.
    """
    ledger = FilterLedger(Policy(filter=name, epsilon="1", **POLICIES[name]))
    first, second = (FREE, CLAIM) if by_message else (CLAIM, FREE)
    rises = Fraction(DELTA)

    @cache
    def value(spent: Totals, left: int) -> Fraction:
        """Return the chance from here on, nothing being known and `left` yet to be opened."""
        after = ledger.charge(spent, first) if left else None
        if after is None:
            return Fraction(0)
        reported = ledger.charge(after, second)
        shown = value(after, left - 1) if reported is None else Fraction(1)
        return rises * shown + (1 - rises) * value(after, left - 1)

    return value(ledger.start, opened)


@pytest.mark.parametrize("name", POLICIES)
def test_an_interactive_mechanism_charged_at_its_opening_has_its_delta(name: str) -> None:
    assert best(name, by_message=False, opened=100) == Fraction(DELTA)


@pytest.mark.parametrize("name", POLICIES)
def test_charged_by_the_message_a_hundred_have_63_times_as_much(name: str) -> None:
    found = best(name, by_message=True, opened=100)
    assert found == 1 - (1 - Fraction(DELTA)) ** 100
    assert found > 63 * Fraction(DELTA)
