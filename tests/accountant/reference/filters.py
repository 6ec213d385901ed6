"""What filters admit, and the budgets that they store."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import chain, repeat
from typing import Any, Final

from accountant import claims as c
from accountant.amounts import UNIT, Units
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.conversions.optimal_composition import most_composed
from accountant.filters import FILTERS
from accountant.filters.advanced_2016 import advanced_2016_bound
from accountant.filters.optimal_homogeneous import MAX_MECHANISMS
from accountant.policy import ParsedBudget
from tests.accountant.reference.common import Bound, Inputs, Inverse, total


def budget(epsilon: str, delta: str, *, for_claims: str = "0") -> ParsedBudget:
    return ParsedBudget(
        epsilon=Decimal(epsilon),
        rho=None,
        delta_for_claims=Decimal(for_claims),
        delta_for_filter=Decimal(delta),
    )


def capacity(name: str, epsilon: str, delta: str) -> Fraction:
    return Fraction(int(FILTERS[name]().capacity(budget(epsilon, delta))[0]), UNIT)


def admitted(inputs: Inputs) -> int:
    """Return how many claims the fully adaptive filter admits before it first refuses."""
    kind = FILTERS["fully_adaptive"]()
    limits = kind.capacity(budget(inputs["eg"], inputs["d1"], for_claims=inputs["d2"]))
    spent: tuple[Units, ...] = (0,) * len(limits)
    # The two lists need not change at the same places.
    pairs = zip(each(inputs["rle_eps"]), each(inputs["rle_del"]), strict=True)
    count = 0
    for epsilon, delta in pairs:
        after = kind.charge(
            limits, spent, price(check_claim(c.Approximate(epsilon, delta)), kind.needs)
        )
        if after is None:
            return count
        spent = after
        count += 1
    return count


def each(rle: list[list[Any]]) -> Iterator[str]:
    """Yield the values of a run-length encoded list one by one."""
    return chain.from_iterable(repeat(value, times) for value, times in rle)


def advanced_2016(inputs: Inputs) -> Decimal:
    return advanced_2016_bound(
        time=total(inputs, "epsilon_squared"),
        mean=total(inputs, "kl_mean"),
        epsilon=Decimal(inputs["eg"]),
        delta=Decimal(inputs["dg"]),
    )


def equal_claims(inputs: Inputs) -> int:
    count = most_composed(
        epsilon=Decimal(inputs["e"]),
        target=Decimal(inputs["eg"]),
        delta=Decimal(inputs["d"]),
        maximum=MAX_MECHANISMS,
    )
    assert count is not None
    return count


BOUNDS: Final[dict[str, Bound | Inverse]] = {
    "zcdp_capacity_tight": Bound("lower", lambda i: capacity("zcdp_tight", i["eg"], i["d"])),
    "advanced_2016_filter_K": Bound("upper", advanced_2016),
    "filter_N_WRRW": Bound("equal", admitted),
    "optimal_count": Bound("equal", equal_claims),
    "fully_adaptive_filter_epsilon": Inverse(
        lambda value, i: (
            capacity("fully_adaptive", value, i["d"]),
            sum((Fraction(e) ** 2 * n for e, n in i["rle"]), Fraction(0)),
        )
    ),
}
