"""Discrete Gaussian noise."""

from __future__ import annotations

import math
from fractions import Fraction

from accountant.noise.bernoulli import bernoulli_exp
from accountant.noise.bits import RandomBits
from accountant.noise.discrete_laplace import discrete_laplace
from accountant.noise.exact import exact_fraction


def discrete_gaussian(variance: Fraction | int, bits: RandomBits) -> int:
    """Return k with probability proportional to exp(-k^2 / (2 variance)).

    Source: Canonne, Kamath and Steinke 2020, Algorithm 3.
    Raises: ValueError: the variance is not above 0.
    """
    variance = exact_fraction(variance)
    if variance <= 0:
        raise ValueError(f"the variance must be above 0, got {variance}")
    p, q = variance.numerator, variance.denominator
    scale = math.isqrt(p // q) + 1
    while True:
        k = discrete_laplace(scale, bits)
        # Accept with exp(-(|k| - variance/scale)^2 / (2 variance)).
        distance = abs(k) * scale * q - p
        if bernoulli_exp(distance**2, 2 * p * q * scale**2, bits):
            return k
