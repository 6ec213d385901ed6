"""Discrete Laplace noise."""

from __future__ import annotations

from fractions import Fraction

from accountant.noise.bernoulli import geometric
from accountant.noise.bits import RandomBits
from accountant.noise.exact import exact_fraction


def discrete_laplace(scale: Fraction | int, bits: RandomBits) -> int:
    """Return k with probability proportional to exp(-|k| / scale).

    Source: Canonne, Kamath and Steinke 2020, Algorithm 2.
    Raises: ValueError: the scale is not above 0.
    """
    scale = exact_fraction(scale)
    if scale <= 0:
        raise ValueError(f"the scale must be above 0, got {scale}")
    while True:
        size, negative = geometric(scale, bits), bits(1)
        if size or not negative:  # 0 counts once
            return -size if negative else size
