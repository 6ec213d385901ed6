"""Accountants for parameters fixed in advance are caught where parameters are chosen.

The optimiser finds the choice that adds up what each alternative alone may have.
"""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq

from research.games.pairs import Pair, name_and_shame, randomized_response, symmetric_atom
from tests.research.games.rules_of_the_past import Names, composed, worst


class TestAPrivacyLossAccountantWithAdaptiveParameters:
    """docs/theory.md P7: admit while the composition of what was chosen so far has H <= delta."""

    EPSILON, DELTA = 1.0, 1e-3

    def menu(self) -> dict[str, Pair]:
        first = randomized_response(0.1)
        mass = self.DELTA / first.p[0] / -math.expm1(-0.2)
        return {
            "response": first,
            "A": symmetric_atom(1.1, mass),
            "B": name_and_shame(self.DELTA),
        }

    def test_either_choice_fixed_in_advance_has_exactly_delta(self) -> None:
        menu = self.menu()
        for second in "AB":
            pairs = [menu["response"], menu[second]]
            assert composed(pairs, self.EPSILON) == pytest.approx(self.DELTA, rel=1e-12)

    def test_choosing_by_the_outcome_has_1_475_delta(self) -> None:
        menu = self.menu()

        def admits(past: Names) -> bool:
            allowed = self.DELTA * (1 + 1e-12)
            return composed([menu[name] for name in past], self.EPSILON) <= allowed

        found = worst(menu, admits, self.EPSILON) / self.DELTA
        assert found == pytest.approx(2 - 1 / (1 + math.exp(-0.1)), rel=1e-9)
        assert found == pytest.approx(1.475, abs=5e-4)


class TestRenyiOrdersWithDeltaUndivided:
    """`Some order fits`, each order with the whole delta (docs/theory.md P5, section 7)."""

    EPSILON, DELTA = 8.0, 1e-3

    def divergence(self, pair: Pair, order: float) -> float:
        return pair.log_moment(order - 1) / (order - 1)

    def budget(self, order: float, share: float) -> float:
        c = (1 - 1 / order) ** (order - 1) / order
        return self.EPSILON - math.log(c / (self.DELTA * share)) / (order - 1)

    def menu(self, shares: dict[float, float], first: float) -> dict[str, Pair]:
        """For each order and what the first rounds may tell, the atom that uses it up."""
        response = randomized_response(first)
        menu = {"first": response, "second": response}
        for order, share in shares.items():
            for rounds in (1, 2):
                room = self.budget(order, share) - rounds * self.divergence(response, order)
                for steps in {-rounds, rounds - 2, 2 - rounds, rounds}:
                    # The loss at which the order's bound on the hockey-stick is exact.
                    loss = self.EPSILON + math.log(order / (order - 1)) - steps * first
                    menu[f"{order}, {rounds} rounds, {steps}"] = self.largest(loss, order, room)
        return menu

    def largest(self, loss: float, order: float, room: float) -> Pair:
        def excess(mass: float) -> float:
            return self.divergence(symmetric_atom(loss, mass), order) - room

        maximum = (1 - 1e-9) / (1 + math.exp(-loss))
        mass = (
            brentq(excess, 1e-18, maximum, xtol=1e-18, rtol=1e-13)
            if excess(maximum) > 0
            else maximum
        )
        return symmetric_atom(loss, float(mass) * (1 - 1e-9))

    def value(self, shares: dict[float, float], first: float) -> float:
        """Return the best H_epsilon in units of delta.

        Args:
            shares: order -> the part of delta that its budget is worth.
            first: epsilon of the randomized response that the adversary chooses by.
        """
        menu = self.menu(shares, first)
        spent = {name: [self.divergence(x, order) for order in shares] for name, x in menu.items()}
        budgets = [self.budget(order, share) for order, share in shares.items()]

        def admits(past: Names) -> bool:
            if len(set(past)) < len(past):
                return False
            totals = [sum(column) for column in zip(*(spent[n] for n in past), strict=True)]
            return any(x <= maximum for x, maximum in zip(totals, budgets, strict=True))

        return worst(menu, admits, self.EPSILON) / self.DELTA

    def test_two_orders_undivided_have_1_48_delta(self) -> None:
        assert self.value({2.5: 1, 400: 1}, 0.02) == pytest.approx(1.48, abs=0.001)

    def test_three_orders_undivided_have_1_7_delta(self) -> None:
        assert self.value({2.5: 1, 15: 1, 200: 1}, 0.03) > 1.7

    def test_renyi_orders_with_divided_delta_stay_within_delta_and_near_it(self) -> None:
        assert 0.7 < self.value({2.5: 0.5, 400: 0.5}, 0.02) <= 1
        assert 0.5 < self.value({2.5: 1 / 3, 15: 1 / 3, 200: 1 / 3}, 0.03) <= 1

    @pytest.mark.parametrize("order", [2.5, 15.0])
    def test_a_single_renyi_order_reaches_its_delta(self, order: float) -> None:
        assert 0.99 < self.value({order: 1}, 0.02) <= 1
