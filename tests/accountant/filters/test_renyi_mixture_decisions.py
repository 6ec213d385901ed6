"""What several Renyi orders prove together: random decisions against the theorem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from operator import gt
from typing import NamedTuple

import numpy as np
import pytest

from accountant.amounts import UNIT, Units
from accountant.conversions.renyi_mixture import RenyiMixtureRule
from accountant.errors import RequestInvalid
from accountant.filters.renyi_mixture import RenyiMixtureFilter
from accountant.policy import ParsedBudget
from tests.accountant.formulas.renyi_mixture import mixture_delta
from tests.nightly import rounds

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
SEED = 20261124


def budget(epsilon: str, delta: str) -> ParsedBudget:
    return ParsedBudget(
        epsilon=Decimal(epsilon),
        rho=None,
        delta_for_claims=Decimal(0),
        delta_for_filter=Decimal(delta),
    )


class Setting(NamedTuple):
    """A budget, and the orders that share its delta."""

    epsilon: str
    delta: str
    orders: tuple[str, ...]
    weights: tuple[str, ...]

    @property
    def kind(self) -> RenyiMixtureFilter:
        return RenyiMixtureFilter(self.orders, self.weights)

    @property
    def capacity(self) -> tuple[Units, ...]:
        return self.kind.capacity(budget(self.epsilon, self.delta))

    def log_proved(self, spent: Floats) -> Floats:
        """Return ln of the delta that each row of sums proves, by halving.

        sup over x > 0 of ln(1 - e^-x) - ln sum_j w_j e^((alpha_j - 1)(epsilon + x - S_j)).
        """
        power = np.array([float(a) - 1 for a in self.orders])
        at_budget = power * (float(self.epsilon) - spent) + np.log([float(w) for w in self.weights])
        low = np.full(len(spent), math.log1p(1 / power.max()))
        high = np.full(len(spent), math.log1p(1 / power.min()))
        for _ in range(45):
            x = np.sqrt(low * high)
            logs = at_budget + power * x[:, None]
            each = np.exp(logs - logs.max(axis=1, keepdims=True))
            rises = (each @ power) * np.expm1(x) < each.sum(axis=1)
            low, high = np.where(rises, x, low), np.where(rises, high, x)
        logs = at_budget + power * low[:, None]
        top = logs.max(axis=1)
        found = np.log(-np.expm1(-low)) - top - np.log(np.exp(logs - top[:, None]).sum(axis=1))
        return np.asarray(found)

    def proved(self, spent: tuple[Units, ...]) -> Fraction:
        """Return the delta that sums prove, rounded up, by 60 digits."""
        return Fraction(
            mixture_delta(
                Decimal(self.epsilon),
                orders=[Decimal(a) for a in self.orders],
                weights=[Fraction(w) for w in self.weights],
                spent=[Fraction(int(s), UNIT) for s in spent],
            )
        )


def settings(count: int, seed: int) -> Iterator[Setting]:
    """Yield so many settings that leave each of their orders a budget."""
    chance = np.random.default_rng(seed)
    while count:
        k = int(chance.integers(1, 6))
        orders = sorted({f"{1 + 10 ** chance.uniform(-0.5, 3):.4g}" for _ in range(k)}, key=float)
        shares = chance.dirichlet(np.ones(len(orders))) * chance.uniform(0.5, 1)
        found = Setting(
            f"{10 ** chance.uniform(-1, 1.3):.3g}",
            f"{10 ** chance.uniform(-10, -0.5):.3g}",
            tuple(orders),
            tuple(f"{max(share, 1e-6):.6f}" for share in shares * 0.99),
        )
        try:
            assert found.capacity
        except RequestInvalid:
            continue
        count -= 1
        yield found


def at_the_end(setting: Setting, chance: np.random.Generator, count: int) -> Floats:
    """Return rows of sums at the end of the budget, by halving along rays of all directions."""
    limits = np.array([limit / UNIT for limit in setting.capacity])
    rays = limits * 10 ** chance.uniform(-0.3, 0.7, (count, len(limits)))
    low, high = np.zeros(count), np.full(count, 100.0)
    log_delta = math.log(float(setting.delta))
    for _ in range(45):
        middle = (low + high) / 2
        fits = setting.log_proved(rays * middle[:, None]) <= log_delta
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.asarray(rays * low[:, None])


def units(row: Floats, factor: Fraction = Fraction(1)) -> tuple[int, ...]:
    # A product with a power of 2 is exact.
    whole = [int(s * 2.0**80) for s in row.tolist()]
    above, below = factor.numerator * UNIT, factor.denominator << 80
    return tuple([-(-s * above // below) for s in whole])


class TestRandomDecisions:
    """Nothing is admitted beyond the theorem, and what it refuses is at its very edge."""

    SETTINGS, EACH = 100, rounds(1_000, 10_000)

    @pytest.mark.slow
    def test_a_hundred_thousand(self) -> None:
        chance = np.random.default_rng(SEED)
        decided = beyond_each = 0
        for setting in settings(self.SETTINGS, SEED):
            kind, capacity = setting.kind, setting.capacity
            log_delta = math.log(float(setting.delta))
            rows = np.repeat(at_the_end(setting, chance, self.EACH // 10), 10, axis=0)
            rows *= 1 + 10 ** chance.uniform(-8, 0, (self.EACH, 1)) * chance.choice(
                [-0.5, 1], (self.EACH, 1)
            )
            logs = setting.log_proved(rows)
            for row, log in zip(rows, logs, strict=True):
                spent = units(row)
                if kind.holds(capacity, spent):
                    assert log <= log_delta + 1e-9
                    beyond_each += all(map(gt, spent, capacity))
                else:
                    assert log >= log_delta - 1e-9
                decided += 1
        assert decided >= 100_000
        assert beyond_each > decided / 20  # where no order alone is within its budget

    @pytest.mark.slow
    def test_next_to_the_edge_where_floats_cannot_tell(self) -> None:
        chance = np.random.default_rng(SEED + 1)
        admitted = refused = 0
        for setting in settings(rounds(6, 1_000), SEED + 1):
            kind, capacity, delta = setting.kind, setting.capacity, Fraction(setting.delta)
            for row in at_the_end(setting, chance, 1):
                low, high = Fraction(1) - Fraction(1, 10**6), Fraction(1) + Fraction(1, 10**6)
                assert kind.holds(capacity, units(row, low))
                assert not kind.holds(capacity, units(row, high))
                while high - low > Fraction(1, 10**26):
                    middle = (low + high) / 2
                    fits = kind.holds(capacity, units(row, middle))
                    low, high = (middle, high) if fits else (low, middle)
                    proved = setting.proved(units(row, middle))
                    if fits:
                        assert proved <= delta * (1 + Fraction(1, 10**24))
                        admitted += 1
                    else:
                        # Budgets are stored with 20 digits, which may cost an order of 1000
                        # times 1e-16 of delta.
                        assert proved >= delta * (1 - Fraction(1, 10**14))
                        refused += 1
        assert min(admitted, refused) > 120


def test_a_decision_by_floats_always_equals_that_by_decimals() -> None:
    chance = np.random.default_rng(SEED + 2)
    clear = unclear = 0
    for setting in settings(rounds(20, 3_000), SEED + 2):
        mixture, capacity = RenyiMixtureRule([Decimal(a) for a in setting.orders]), setting.capacity
        for row in at_the_end(setting, chance, 8):
            away = Fraction(f"{chance.choice([-1, 1]) * 10 ** chance.uniform(-16, -3):.6g}")
            spent = units(row, 1 + away)
            over = [s - limit for s, limit in zip(spent, capacity, strict=True)]
            if min(over) <= 0:
                continue
            said = mixture.by_floats(over)
            if said is None:
                unclear += 1
                assert abs(away) < 1e-8
            else:
                clear += 1
                assert said == mixture.by_decimals(over)
    assert min(clear, unclear) >= 5
