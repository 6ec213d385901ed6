"""The exact laws of the noise, and how draws are compared with them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction

from scipy.stats import chi2

from accountant.noise import RandomBits

# Seeds are fixed, so a test passes always or never; a wrong law has far less than this.
LEAST_P = 1e-6


def bits_of(seed: int) -> RandomBits:
    return random.Random(seed).getrandbits


def check_law(draws: Iterable[Hashable], law: Mapping[Hashable, float]) -> None:
    """Compare draws with probabilities by chi-square; values without one are a cell together."""
    counts = Counter(draws)
    number = counts.total()
    likely = {value: p for value, p in law.items() if number * p >= 10}
    cells = [(counts[value], number * p) for value, p in likely.items()]
    rest = number * (1 - math.fsum(likely.values()))
    others = number - sum(count for count, _ in cells)
    if rest >= 10:
        cells.append((others, rest))
    else:
        assert others <= rest + 6 * math.sqrt(rest) + 6, (others, rest)
    if len(cells) == 1:
        return
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    p_value = chi2.sf(statistic, len(cells) - 1)
    assert p_value > LEAST_P, (p_value, cells)


def laplace(scale: float, k: int) -> float:
    """Return the probability of k under discrete Laplace noise."""
    a = math.exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** abs(k)


def discrete_gaussian(variance: float, k: int) -> float:
    """Return the probability of k under discrete Gaussian noise, of a variance up to 1,000."""
    total = math.fsum(math.exp(-(j**2) / (2 * variance)) for j in range(-400, 401))
    return math.exp(-(k**2) / (2 * variance)) / total


def stays(smaller: float, larger: float) -> float:
    a, big = math.exp(-1 / smaller), math.exp(-1 / larger)
    return a / big * ((1 - big) / (1 - a)) ** 2


def rounded(center: float, variance: float, k: int) -> float:
    """Return the probability that a normal number rounds to k."""
    low, high = ((k + half - center) / math.sqrt(2 * variance) for half in (-0.5, 0.5))
    return (math.erf(high) - math.erf(low)) / 2


def normal_cell(value: Fraction, deviation: Fraction) -> int:
    """Return in which quarter of a standard deviation a value is."""
    return math.floor(4 * value / deviation)


def normal_cells() -> dict[Hashable, float]:
    return {k: (math.erf((k + 1) / 32**0.5) - math.erf(k / 32**0.5)) / 2 for k in range(-20, 20)}


class _NoBitsLeft(Exception):
    pass


def law_over_all_bits(
    draw: Callable[[RandomBits], Hashable], most: int
) -> tuple[dict[Hashable, Fraction], Fraction]:
    """Return probabilities by running on every sequence of at most `most` bits.

    Returns: the probability with which each value is decided by then, and that none is.
    """
    law, undecided = Counter[Hashable](), Fraction(0)
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        rest = prefix

        def bits(n: int) -> int:
            nonlocal rest
            if n > len(rest):
                raise _NoBitsLeft
            first, rest = rest[:n], rest[n:]
            return int(first, 2)

        try:
            value = draw(bits)
        except _NoBitsLeft:
            if len(prefix) == most:
                undecided += Fraction(1, 2**most)
            else:
                waiting += [prefix + "0", prefix + "1"]
        else:
            assert not rest  # otherwise a shorter prefix had decided
            law[value] += Fraction(1, 2 ** len(prefix))
    return dict(law), undecided
