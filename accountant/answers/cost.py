"""What an answer costs by its claim alone: an epsilon or a rho, in nats, rounded up."""

from __future__ import annotations

from fractions import Fraction

from accountant.amounts import format_units, units_up
from accountant.claims import (
    AllOf,
    BoundedRange,
    Brownian,
    Claim,
    ExPost,
    Gaussian,
    Pure,
    Repeat,
    Zcdp,
)
from accountant.questions import Noise


def cost_of(claim: Claim, noise: Noise) -> dict[str, str]:
    """Return the cost of a derived claim as the name of its amount and the amount.

    A session's is that of its finest level. A dataset's filter may charge another amount, which
    the decision has.

    Args:
        noise: which the claim was derived from. Choices that were asked for by rho cost a rho.
    """
    name, amount = _amount(claim, noise)
    return {name: cost_text(amount)}


def cost_text(amount: Fraction) -> str:
    """Return an amount as a decimal, rounded up to 1e-40."""
    return format_units(units_up(amount))


def _amount(claim: Claim, noise: Noise) -> tuple[str, Fraction]:
    match claim:
        case Pure():
            return "epsilon", Fraction(claim.epsilon)
        case BoundedRange():
            # A range of eta implies eta-DP, and a rho of eta^2/8 (docs/theory.md section 1).
            eta = Fraction(claim.eta)
            return ("rho", eta**2 / 8) if noise.form == "rho" else ("epsilon", eta)
        case Zcdp():
            return "rho", Fraction(claim.rho)
        case Gaussian():
            return "rho", Fraction(claim.sensitivity) ** 2 / (2 * Fraction(claim.sigma) ** 2)
        case Brownian():
            return "rho", claim.rho()
        case ExPost():
            return "epsilon", Fraction(claim.epsilon)
        case Repeat():
            name, amount = _amount(claim.claim, noise)
            return name, amount * claim.times
        case AllOf():
            parts = [_amount(each, noise) for each in claim.claims]
            (name,) = {name for name, _ in parts}
            return name, sum((amount for _, amount in parts), Fraction(0))
    raise TypeError(f"no question has a claim of this kind: {type(claim).__name__}")
