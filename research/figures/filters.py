"""How much each filter admits: Whitehouse 2023 Fig. 1a, counts over epsilon, the optimum."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from accountant.conversions.mean_loss import mean_loss
from accountant.conversions.standard_zcdp import standard_epsilon
from accountant.conversions.tight_zcdp import tight_epsilon
from accountant.conversions.zcdp import pure_rho
from accountant.filters.advanced_2016 import advanced_2016_bound
from research.comparators import basic_epsilon, strong_epsilon
from research.figures.picture import Curve, Panel, Picture, even

EPSILON: Final = Decimal("0.1")
"""Of each mechanism, as in Whitehouse 2023 Fig. 3."""

DELTA: Final = Decimal("1e-6")
COUNTS: Final = range(1, 101)
_CLOSE: Final = Decimal("1e-6")


_LABELS: Final = {
    "basic": "basic: Σε",
    "advanced_2016": "advanced_2016: ε(e^ε - 1)/2",
    "fully_adaptive": "fully_adaptive: ε²/2",
    "zcdp_tight": "zcdp_tight: ε tanh(ε/2)",
    "strong": "strong composition, fixed in advance: ε tanh(ε/2)",
}


def lower_order_terms() -> Panel:
    """Return what one mechanism adds to the term that is linear in the number of them."""
    epsilons = even(0.0, 1.5, 76)
    exact = [Fraction(epsilon) for epsilon in epsilons]
    terms: dict[str, list[Fraction | Decimal]] = {
        "advanced_2016": [mean_loss(e) for e in exact],
        "fully_adaptive": [e**2 / 2 for e in exact],
        "zcdp_tight": [pure_rho(e) for e in exact],
    }
    return Panel(
        title="the lower-order term of one mechanism",
        x_label="ε of one mechanism  (nats)",
        y_label="added to the bound  (nats)",
        curves=tuple(
            Curve(
                key=key,
                label=_LABELS[key],
                x=epsilons,
                y=tuple(float(value) for value in values),
            )
            for key, values in terms.items()
        ),
    )


def needed(name: str, count: int) -> float:
    """Return the budget epsilon that so many mechanisms of pure `EPSILON` need under a filter.

    Args:
        name: basic, advanced_2016, fully_adaptive or zcdp_tight; or strong, for composition
            of parameters fixed in advance.
    """
    runs = [(EPSILON, count)]
    square = Fraction(EPSILON) ** 2 * count
    if name == "basic":
        return float(basic_epsilon(runs))
    if name == "strong":
        return float(strong_epsilon(runs, delta=DELTA))
    if name == "fully_adaptive":
        # Its rule sqrt(2LV) + V/2 is the conversion of rho = V/2.
        return float(standard_epsilon(rho=square / 2, delta=DELTA))
    if name == "zcdp_tight":
        return float(tight_epsilon(rho=Fraction(pure_rho(Fraction(EPSILON))) * count, delta=DELTA))
    return float(_needed_2016(count))


@lru_cache(maxsize=256)
def _needed_2016(count: int) -> Decimal:
    """Solve K(epsilon) = epsilon: the bound of Rogers 2016 Thm 5.1 depends on the budget."""
    square = Fraction(EPSILON) ** 2 * count
    mean = Fraction(mean_loss(Fraction(EPSILON))) * count

    def enough(epsilon: Decimal) -> bool:
        bound = advanced_2016_bound(time=square, mean=mean, epsilon=epsilon, delta=DELTA)
        return bound <= epsilon

    low, high = Decimal("0.01"), Decimal(64)
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def filters() -> Picture:
    """Return Whitehouse 2023's comparison of filters, with what each needs for n mechanisms."""
    x = tuple(map(float, COUNTS))
    curves = tuple(
        Curve(
            key=name,
            label=label,
            x=x,
            y=tuple(needed(name, count) for count in COUNTS),
            adaptive=name != "strong",
        )
        for name, label in _LABELS.items()
    )
    return Picture(
        name="filters",
        title="Filters: what n mechanisms need",
        source="Whitehouse 2023 Thm 1 and Fig. 1a; Rogers 2016 Thm 5.1; theory sections 1 and 3",
        panels=(
            lower_order_terms(),
            Panel(
                title="budget for n mechanisms of ε = 0.1, δ = 1e-6",
                x_label="number n of mechanisms",
                y_label="ε of the guarantee  (nats)",
                curves=curves,
            ),
        ),
    )
