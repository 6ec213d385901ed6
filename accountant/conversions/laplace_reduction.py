"""Laplace noise reduction: an answer shown with ever less Laplace noise."""

from __future__ import annotations

from fractions import Fraction


def stay_probability(*, smaller: Fraction, larger: Fraction) -> Fraction:
    """Return the exact probability that Z_larger = Z_smaller.

    Otherwise Z_larger = Z_smaller + Laplace(larger). So Laplace noise of the larger scale
    comes from that of the smaller one, sampled from the least noise up and shown in reverse.

    Args:
        smaller: scale of the smaller noise, in query units, > 0.
        larger: scale of the larger noise, >= smaller.
    Raises: ArithmeticError: the scales are not in this order above 0.
    Source: docs/theory.md section 5. The characteristic functions 1/(1 + b^2 t^2) satisfy
    (1 + b^2 t^2)/(1 + B^2 t^2) = p + (1 - p)/(1 + B^2 t^2) for p = (b/B)^2.
    """
    if not 0 < smaller <= larger:
        raise ArithmeticError(f"scales must grow from above 0: {smaller} to {larger}")
    return (smaller / larger) ** 2
