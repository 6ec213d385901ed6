"""The Brownian mechanism: an answer refined step by step, each step priced by what it adds.

It releases f(x) + B_t at decreasing variances t_1 > t_2 > ... This equals in law a sequence
of adaptively chosen independent Gaussians of precision 1/t_k - 1/t_{k-1} (docs/theory.md P4),
so a refinement is the next zCDP and Gaussian mechanism, and its cost telescopes.
"""

from __future__ import annotations

from fractions import Fraction


def refinement_rho(
    *, sensitivity: Fraction, variance: Fraction, previous: Fraction | None = None
) -> Fraction:
    """Return the exact rho of one refinement, (D^2/2)(1/t_new - 1/t_prev).

    Args:
        sensitivity: l2 sensitivity D, in query units, >= 0.
        variance: t_new, of the noise that is left, in query units squared, > 0.
        previous: t_prev, of what was released before; None if nothing was.
    Raises: ArithmeticError: a variance is not above 0, or it does not fall.
    Source: docs/theory.md P4; Rogers 2023 section 6.
    """
    return refinement_mu_squared(sensitivity=sensitivity, variance=variance, previous=previous) / 2


def refinement_mu_squared(
    *, sensitivity: Fraction, variance: Fraction, previous: Fraction | None = None
) -> Fraction:
    """Return the exact mu^2 of one refinement, D^2 (1/t_new - 1/t_prev).

    Args, Raises, Source: as `refinement_rho`.
    """
    if variance <= 0 or (previous is not None and previous < variance):
        raise ArithmeticError(f"variances must fall and stay above 0: {previous} to {variance}")
    gained = 1 / variance - (1 / previous if previous is not None else 0)
    return sensitivity**2 * gained
