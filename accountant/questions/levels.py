"""The levels of an accuracy-first answer: falling variances or scales, and what each costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from accountant.amounts import UNIT, format_units
from accountant.claims import Brownian, ExPost
from accountant.questions.derive import Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of a session.

    Attributes:
        noise: the variance in squared units of the answer, or the scale in its units; exact.
        text: the same in the units of the claim, as `shown` of a `settle` names it.
        cost: of everything shown up to this level: rho of a Gaussian refinement, epsilon of
            Laplace noise reduction; exact, in nats.
    """

    noise: Fraction
    text: str
    cost: Fraction


def levels_of(draw: Draw) -> tuple[Level, ...]:
    """Return a session's levels, from the first to the finest, each half of the one before.

    Returns: 1 to 64 levels.
    Raises: ValueError: the draw is no session.
    """
    claim = draw.claim
    if not isinstance(claim, Brownian | ExPost) or draw.first is None:
        raise ValueError(f"{draw.law} shows one answer: it has no levels")
    is_gaussian = isinstance(claim, Brownian)
    sensitivity = Fraction(str(claim.sensitivity))
    finest = Fraction(claim.variance if isinstance(claim, Brownian) else str(claim.least))
    noise = Fraction(str(claim.first))
    unit = draw.unit**2 if is_gaussian else draw.unit
    levels = []
    while noise >= finest:
        # docs/theory.md P4 and section 5: only the last level shown counts.
        cost = sensitivity**2 / (2 * noise) if is_gaussian else sensitivity / noise
        text = format_units(int(noise * UNIT))
        levels.append(Level(noise=noise * unit, text=text, cost=cost))
        noise /= 2
    return tuple(levels)
