"""Several Renyi orders together: how much they admit, and how much of it is spent."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from accountant.amounts import INFINITE, UNIT, Units
from accountant.claims import check_claim
from accountant.claims.price import Price, price
from accountant.claims.text import parse_claim
from accountant.filters.renyi import RenyiFilter
from accountant.filters.renyi_mixture import RenyiMixtureFilter
from accountant.filters.renyi_weighted import RenyiWeightedFilter
from accountant.policy import ParsedBudget
from tests.accountant import exact
from tests.accountant.formulas.renyi_mixture import mixture_delta

SEED = 20261124


def budget(epsilon: str, delta: str) -> ParsedBudget:
    return ParsedBudget(
        epsilon=Decimal(epsilon),
        rho=None,
        delta_for_claims=Decimal(0),
        delta_for_filter=Decimal(delta),
    )


ORDERS = ("16", "22", "32", "64")


class TestCounts:
    @pytest.mark.parametrize(
        ("orders", "claim", "weighted", "mixed"),
        [
            (ORDERS, "pure:0.01", 430, 449),
            (ORDERS, "laplace:scale=100,sensitivity=1", 431, 451),
            (ORDERS, "gaussian:sigma=31.6228,sensitivity=1", 42, 44),
            (("16", "22", "40"), "pure:0.01", 442, 453),
            (("22", "27.25", "32.5", "43"), "pure:0.01", 433, 460),
            (("22", "2000"), "pure:0.01", 460, 460),
            (("22", "2000"), "pure:0.1", 10, 10),
        ],
    )
    def test_renyi_mixture_admits_at_least_as_many_as_renyi_weighted(
        self, orders: tuple[str, ...], claim: str, weighted: int, mixed: int
    ) -> None:
        found = []
        for kind in (RenyiWeightedFilter(orders), RenyiMixtureFilter(orders)):
            one = price(check_claim(parse_claim(claim)), kind.needs)
            nothing = (0,) * len(orders)
            capacity = kind.capacity(budget("1", "1e-6"))
            found.append(kind.count(capacity, nothing, one))
        assert found == [weighted, mixed]

    def test_the_theorem_by_60_digits_gives_the_same_count(self) -> None:
        one = price(check_claim(parse_claim("pure:0.01")), RenyiMixtureFilter(ORDERS).needs).amounts

        def proved(times: int) -> Decimal:
            return mixture_delta(
                Decimal(1),
                orders=[Decimal(order) for order in ORDERS],
                weights=[Fraction(1, 4)] * 4,
                spent=[Fraction(times * int(amount), UNIT) for amount in one],
            )

        assert proved(449) <= Decimal("1e-6") < proved(450)

    def test_no_more_than_the_best_order_known_in_advance(self) -> None:
        """docs/theory.md P5b: logarithms of moments are convex in the order."""
        one = price(check_claim(parse_claim("pure:0.01")), RenyiFilter("22").needs)
        alone = RenyiFilter("22").count(RenyiFilter("22").capacity(budget("1", "1e-6")), (0,), one)
        assert alone == 490


def test_one_order_with_all_of_delta_is_the_fixed_order() -> None:
    one, fixed = RenyiMixtureFilter(("22",), ("1",)), RenyiFilter("22")
    capacity = one.capacity(budget("1", "1e-6"))
    assert (one.sums, capacity) == (fixed.sums, fixed.capacity(budget("1", "1e-6")))
    assert one.holds(capacity, capacity)
    assert not one.holds(capacity, (capacity[0] + 1,))


def test_a_sum_without_end_leaves_the_other_orders() -> None:
    kind = RenyiMixtureFilter(ORDERS)
    capacity = kind.capacity(budget("1", "1e-6"))
    for gone in range(len(ORDERS)):
        spent = tuple(INFINITE if j == gone else limit for j, limit in enumerate(capacity))
        assert kind.holds(capacity, spent)
        kept = [j for j in range(len(ORDERS)) if j != gone]
        less = RenyiMixtureFilter(tuple(ORDERS[j] for j in kept), ("0.25",) * 3)
        limits = tuple(capacity[j] for j in kept)
        for times in range(60):
            over = [limit * (100 + times) // 100 for limit in map(int, capacity)]
            here = tuple(INFINITE if j == gone else s for j, s in enumerate(over))
            assert kind.holds(capacity, here) == less.holds(limits, tuple(over[j] for j in kept))
    endless = (INFINITE,) * len(ORDERS)
    assert not kind.holds(capacity, endless)
    assert kind.progress(capacity, endless) == capacity[0]
    assert kind.excess(capacity, capacity, Price(1, endless, {})) == math.inf


class TestProgress:
    KIND = RenyiMixtureFilter(("16", "22", "40"))
    CAPACITY = KIND.capacity(budget("1", "1e-6"))

    def spent(self, *claims: str) -> tuple[Units, ...]:
        found = [price(check_claim(parse_claim(text)), self.KIND.needs).amounts for text in claims]
        return tuple(map(sum, zip(*found, strict=True)))

    def ratio(self, spent: tuple[Units, ...]) -> Fraction:
        return Fraction(int(self.KIND.progress(self.CAPACITY, spent)), int(self.CAPACITY[0]))

    def test_progress_is_the_fraction_of_the_admitted_requests(self) -> None:
        """The 453rd of pure:0.01 is the last one, so each takes about 1/453 of the budget."""
        assert self.ratio((0, 0, 0)) == 0
        for times in (1, 100, 226, 452):
            part = self.ratio(self.spent(f"{times}*pure:0.01"))
            assert Fraction(times, 454) < part <= Fraction(times, 453)
        assert self.ratio(self.spent("453*pure:0.01")) < 1
        assert self.ratio(self.spent("454*pure:0.01")) == 1

    def test_progress_never_falls_and_reaches_1_only_at_the_end(self) -> None:
        chance = np.random.default_rng(SEED)
        for _ in range(20):
            spent, before = self.spent("pure:1e-9"), Fraction(0)
            while True:
                epsilon = f"{10 ** chance.uniform(-3, -0.7):.3g}"
                one = price(check_claim(parse_claim(f"pure:{epsilon}")), self.KIND.needs)
                after = self.KIND.charge(self.CAPACITY, spent, one)
                if after is None:
                    break
                part = self.ratio(after)
                assert before <= part <= 1
                more = tuple(math.ceil(int(s) * (1 + 2e-8)) for s in after)
                assert (part == 1) <= (not self.KIND.holds(self.CAPACITY, more))
                spent, before = after, part

    def test_progress_is_the_smallest_fraction_whose_scaled_sums_fit(self) -> None:
        spent = self.spent("100*pure:0.01", "gaussian:sigma=10,sensitivity=1")
        parts = 10**8
        part = int(self.ratio(spent) * parts)
        fits = [
            self.KIND.holds(self.CAPACITY, tuple(-(-int(s) * parts // each) for s in spent))
            for each in (part - 1, part)
        ]
        assert fits == [False, True]
        weighted = RenyiWeightedFilter(("16", "22", "40")).progress(self.CAPACITY, spent)
        assert self.ratio(spent) < Fraction(int(weighted), int(self.CAPACITY[0]))

    @pytest.mark.parametrize(
        ("orders", "epsilon", "delta"),
        [
            (("1.5", "1e8"), "10", "0.1"),
            (("2", "1e8"), "10", "1e-3"),
            (("1.5", "4", "1e6"), "100", "1e-6"),
            (("1.001", "1e9"), "1000", "0.9"),
        ],
    )
    def test_progress_is_the_smallest_fraction_for_distant_orders(
        self, orders: tuple[str, ...], epsilon: str, delta: str
    ) -> None:
        kind, parts = RenyiMixtureFilter(orders), 10**8
        capacity = kind.capacity(budget(epsilon, delta))
        for first, last in ((1, 1), (3, 3), (3, 1), (1, 3), (7, 7)):
            spent = (*(int(limit) * first // 8 for limit in capacity[:-1]), int(capacity[-1]))
            spent = (*spent[:-1], spent[-1] * last // 8)
            part = int(kind.progress(capacity, spent)) * parts // int(capacity[0])
            for each, fits in ((part - 1, False), (part, True)):
                assert kind.holds(capacity, tuple(-(-s * parts // each) for s in spent)) == fits

    @pytest.mark.parametrize("times", [0, 200, 445, 450])
    def test_excess_is_0_where_a_claim_just_fits(self, times: int) -> None:
        spent = self.spent(f"{times}*pure:0.01") if times else (0, 0, 0)
        for epsilon in ("1e-4", "0.01", "0.1"):
            one = price(check_claim(parse_claim(f"pure:{epsilon}")), self.KIND.needs)
            found = self.KIND.excess(self.CAPACITY, spent, one)
            assert found is not None
            factor = math.exp(-found)
            for share, fits in ((1 - 1e-6, True), (1 + 1e-6, False)):
                asked = tuple(
                    s + round(int(amount) * factor * share)
                    for s, amount in zip(spent, one.amounts, strict=True)
                )
                assert self.KIND.holds(self.CAPACITY, asked) == fits


class TestWrongRulesAreCaught:
    """Rules that look like P5b and are not, each with an adversary who gets beyond delta."""

    EPSILON, DELTA = mpmath.mpf(8), mpmath.mpf("1e-3")
    ORDERS = ("2.5", "400")

    def sums(self, loss: mpmath.mpf, mass: mpmath.mpf) -> tuple[Units, ...]:
        """Return the divergences of loss +-`loss`, the first with probability `mass` under P."""
        found = []
        for order in self.ORDERS:
            power = mpmath.mpf(order) - 1
            grown = mpmath.expm1(power * loss)
            shrunk = mpmath.exp(-loss) * mpmath.expm1(-power * loss)
            found.append(mpmath.log1p(mass * (grown + shrunk)) / power)
        return tuple(int(mpmath.ceil(d * UNIT)) for d in found)

    def test_a_rule_at_one_loss_alone_would_admit_a_nearly_revealing_claim(self) -> None:
        kind = RenyiMixtureFilter(self.ORDERS)
        capacity = kind.capacity(budget("8", "1e-3"))

        def at_one_loss(spent: tuple[Units, ...]) -> bool:
            """The rule with the supremum replaced by order 2.5's own worst loss."""
            worst = self.EPSILON + mpmath.log(mpmath.mpf("2.5") / mpmath.mpf("1.5"))
            terms = [
                mpmath.exp((mpmath.mpf(a) - 1) * (worst - exact.units(s))) / 2
                for a, s in zip(self.ORDERS, spent, strict=True)
            ]
            excess = 1 - mpmath.exp(self.EPSILON - worst)
            return bool(excess / mpmath.fsum(terms) <= self.DELTA)

        loss = self.EPSILON + mpmath.mpf("0.3")
        reported = self.sums(loss, mpmath.mpf("0.9"))
        reached = mpmath.mpf("0.9") * (1 - mpmath.exp(self.EPSILON - loss))
        assert reached > 200 * self.DELTA
        assert at_one_loss(reported)
        assert not kind.holds(capacity, reported)

    def test_every_admitted_single_answer_stays_within_delta(self) -> None:
        kind = RenyiMixtureFilter(self.ORDERS)
        capacity = kind.capacity(budget("8", "1e-3"))
        maximum = mpmath.mpf(0)
        for beyond in mpmath.linspace(0.001, 2, 60):
            loss = self.EPSILON + beyond
            low, high = mpmath.mpf(0), 1 / (1 + mpmath.exp(-loss))
            for _ in range(60):
                mass = (low + high) / 2
                fits = kind.holds(capacity, self.sums(loss, mass))
                low, high = (mass, high) if fits else (low, mass)
            maximum = max(maximum, low * (1 - mpmath.exp(-beyond)))
        assert 0.5 * self.DELTA < maximum <= self.DELTA
