"""Events of exact probability: a ratio, an exponential, and a quotient of exponentials.

Probabilities are two integers, numerator and denominator, since draws take many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from accountant.noise.bits import RandomBits, Uniform, uniform_below


def bernoulli(numerator: int, denominator: int, bits: RandomBits) -> bool:
    """Return True with this probability; a ratio above 1 counts as 1."""
    return Uniform(bits).is_below_ratio(numerator, denominator)


def bernoulli_exp(numerator: int, denominator: int, bits: RandomBits) -> bool:
    """Return True with probability exp(-x), for x = numerator / denominator >= 0.

    Source: Canonne, Kamath and Steinke 2020, Algorithm 1.
    """
    while numerator > denominator:
        if not bernoulli_exp(1, 1, bits):
            return False
        numerator -= denominator
    # n tries in a row succeed with probability x^n / n!, so their number is even with exp(-x).
    n = 1
    while bernoulli(numerator, denominator * n, bits):
        n += 1
    return n % 2 == 1


def bernoulli_exp_uniform(u: Uniform, happens: Callable[[], bool], bits: RandomBits) -> bool:
    """Return True with probability exp(-u q), where `happens` has the probability q.

    Source: von Neumann's comparisons, as in Karney 2016, Algorithm N.
    """
    # n numbers fall from u on, each while `happens`, with probability (u q)^n / n!.
    n, last = 0, u
    while happens():
        following = Uniform(bits)
        if not following.is_below(last):
            break
        n, last = n + 1, following
    return n % 2 == 0


def geometric(scale: Fraction, bits: RandomBits) -> int:
    """Return n >= 0 with probability proportional to exp(-n / scale).

    The expected number of bits grows with the logarithm of the scale only.
    Source: Canonne, Kamath and Steinke 2020, Algorithm 2.
    """
    unit = scale.numerator
    # rest + unit * whole is geometric of scale `unit`; every `denominator` of its values are one.
    while not bernoulli_exp(rest := uniform_below(unit, bits), unit, bits):
        pass
    whole = 0
    while bernoulli_exp(1, 1, bits):
        whole += 1
    return (rest + unit * whole) // scale.denominator


def bernoulli_exp_quotient(x: Fraction, y: Fraction, bits: RandomBits) -> bool:
    """Return True with probability (1 - exp(-x)) / (1 - exp(-y)), for 0 < x <= y."""
    # It is that of E mod y < x, where E is exponential: E mod y has density exp(-t) on [0, y).
    # So divide [0, y) into equal steps of at most 1. E's step is geometric, modulo their number,
    # and its place u in the step has density exp(-step * u).
    steps = math.ceil(y)
    step = y / steps
    whole = geometric(1 / step, bits) % steps if steps > 1 else 0

    def happens() -> bool:
        return bernoulli(step.numerator, step.denominator, bits)

    while not bernoulli_exp_uniform(place := Uniform(bits), happens, bits):
        pass
    border = x / step - whole
    return place.is_below_ratio(border.numerator, border.denominator)
