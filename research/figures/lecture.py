"""Figure 1 of Smith's lecture 10: basic against strong composition."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from research.comparators import basic_epsilon, optimal_epsilon, strong_epsilon
from research.figures.picture import Curve, Mark, Panel, Picture, logarithmic

EPSILON: Final = Decimal("0.01")
DELTA: Final = Decimal("1e-6")
MOST: Final = 10_000


def counts(points: int = 61) -> tuple[int, ...]:
    """Return the numbers of mechanisms, the crossover and its neighbours among them."""
    return tuple(sorted({*map(round, logarithmic(1, MOST, points)), 27, 28}))


def basic(count: int) -> float:
    """Return k epsilon."""
    return float(basic_epsilon([(EPSILON, count)]))


def strong(count: int) -> float:
    """Return the bound of strong composition."""
    return float(strong_epsilon([(EPSILON, count)], delta=DELTA))


def crossover() -> int:
    """Return the least number of mechanisms for which strong composition is below basic."""
    return next(count for count in range(1, MOST) if strong(count) < basic(count))


def lecture() -> Picture:
    """Return the bounds on k mechanisms of pure 0.01, fixed in advance."""
    ks = counts()
    x = tuple(map(float, ks))
    few = counts(25)
    optimal = [
        float(optimal_epsilon(mechanisms=count, epsilon=EPSILON, delta=DELTA)) for count in few
    ]
    at = crossover()
    panel = Panel(
        title="k mechanisms of ε = 0.01, all fixed in advance, δ' = 1e-6",
        x_label="number k of mechanisms",
        y_label="ε of all together  (nats)",
        curves=(
            Curve(key="basic", label="basic composition, kε", x=x, y=tuple(map(basic, ks))),
            Curve(
                key="strong",
                label="strong composition (Thm 1.1)",
                x=x,
                y=tuple(map(strong, ks)),
                adaptive=False,
            ),
            Curve(
                key="optimum",
                label="exact optimum",
                x=tuple(map(float, few)),
                y=tuple(optimal),
                adaptive=False,
            ),
        ),
        x_scale="log",
        y_scale="log",
        marks=(
            Mark(x=float(at), y=strong(at), text=f"below basic from k = {at} on", dx=14, dy=-16),
            Mark(x=float(MOST), y=strong(MOST), text=f"{strong(MOST):.4f}", dx=-44, dy=12),
        ),
    )
    return Picture(
        name="lecture",
        title="Basic and strong composition",
        source="Smith, lecture 10, Thm 1.1 and Fig. 1; optimum: Kairouz, Oh and Viswanath 2015",
        panels=(panel,),
    )
