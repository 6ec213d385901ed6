"""The residue filter: how near it is to the optimum, and what a request costs under it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.conversions.gdp import mu_of_pure
from accountant.conversions.residue import residue_after_pure
from research.figures.admitted import LABELS, counts, optima, requests
from research.figures.picture import Curve, Mark, Panel, Picture, logarithmic

_SHOWN: Final = ("renyi", "gdp_residue", "zcdp_tight", "fully_adaptive", "basic")
COSTED: Final = Decimal("0.1")
"""epsilon of the request whose cost is drawn; other small ones look the same."""


def _share() -> Panel:
    epsilons = tuple(sorted(requests(), key=float))
    x = tuple(map(float, epsilons))
    best = optima(epsilons)
    share = {
        name: tuple(100 * a / b for a, b in zip(counts(name, epsilons), best, strict=True))
        for name in _SHOWN
    }
    at = epsilons.index("0.01")
    remark = f"{counts('gdp_residue', epsilons)[at]} of {best[at]}"
    return Panel(
        title="pure ε-DP requests that fit (1, 1e-6)",
        x_label="ε of one request  (nats)",
        y_label="admitted, in % of the optimum fixed in advance",
        curves=tuple(Curve(key=name, label=LABELS[name], x=x, y=share[name]) for name in _SHOWN),
        x_scale="log",
        y_range=(0, 110),
        marks=(Mark(x=0.01, y=share["gdp_residue"][at], text=remark, dx=-24, dy=7),),
    )


def cost(kappa: float, epsilon: Decimal = COSTED) -> float | None:
    """Return what a pure request takes from the square of the state, in units of epsilon^2.

    Args:
        kappa: the square of the state in the same units. None where it is refused.
    """
    square = Fraction(epsilon) ** 2
    before = Fraction(kappa) * square
    state = Decimal(before.numerator / before.denominator).sqrt()
    left = residue_after_pure(mu=state, epsilon=epsilon)
    if left is None:
        return None
    return float((Fraction(state) ** 2 - Fraction(left) ** 2) / square)


def closed_form(kappa: float) -> float:
    """Return 1 + 1/(6 kappa) + 0.21/kappa^2, checked but not proved to be enough from 3 on."""
    return 1 + 1 / (6 * kappa) + 0.21 / kappa**2


def _costs() -> Panel:
    points = logarithmic(0.5, 300.0, 121)
    allowed = [kappa for kappa in points if kappa >= 3]
    always = float(mu_of_pure(COSTED) ** 2 / COSTED**2)
    # Just above the state at which it is refused, it takes all that is left.
    near = tuple(always * (1 + x) for x in logarithmic(1e-6, 0.1, 21))
    exact = [(always, always)]
    for kappa in sorted({*near, *points}):
        found = cost(kappa)
        if found is not None:
            exact.append((kappa, found))
    return Panel(
        title="what one request of ε = 0.1 takes from it",
        x_label="what is left, m²  (in units of ε²)",
        y_label="cost m² - m'²  (in units of ε²)",
        curves=(
            Curve(
                key="gaussian",
                label="as a Gaussian, μ(ε)²: always enough",
                x=(points[0], points[-1]),
                y=(always, always),
            ),
            Curve(
                key="gdp_residue",
                label=LABELS["gdp_residue"],
                x=tuple(kappa for kappa, _ in exact),
                y=tuple(found for _, found in exact),
            ),
            Curve(
                key="bound",
                label="1 + 1/(6κ) + 0.21/κ², κ = m²/ε²: checked from 3 on, not proved",
                x=tuple(allowed),
                y=tuple(map(closed_form, allowed)),
                adaptive=False,
            ),
        ),
        x_scale="log",
        y_range=(0.9, 1.7),
    )


def residue() -> Picture:
    """Return the residue filter against the exact optimum, and its cost of one request."""
    return Picture(
        name="residue",
        title="The residue filter",
        source="theory section 3, P6 and P10; optimum: Kairouz, Oh and Viswanath 2015",
        panels=(_share(), _costs()),
    )
