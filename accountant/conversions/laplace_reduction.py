"""Laplace noise reduction: one answer, shown with less and less Laplace noise."""

from __future__ import annotations

from fractions import Fraction


def stay_probability(*, smaller: Fraction, larger: Fraction) -> Fraction:
    """Return the exact probability that Z_larger = Z_smaller.

    Otherwise Z_larger = Z_smaller + Laplace(larger). So a mechanism samples its noise from the
    smallest scale to the largest, and shows the answers in reverse order.

    Args:
        smaller: scale of the smaller noise, in query units, > 0.
        larger: scale of the larger noise, >= smaller.
    Raises: ArithmeticError: a scale is out of range.
    Source: docs/theory.md section 5. The characteristic functions 1/(1 + b^2 t^2) satisfy
    (1 + b^2 t^2)/(1 + B^2 t^2) = p + (1 - p)/(1 + B^2 t^2) for p = (b/B)^2.
    """
    if not 0 < smaller <= larger:
        raise ArithmeticError(f"scales must grow from above 0: {smaller} to {larger}")
    return (smaller / larger) ** 2
