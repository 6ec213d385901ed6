"""The experiment on counts computed from its laws: no noise is drawn, and no session runs.

First the law of the level at which each count stops, since that depends on its own noise alone.
Then the number of counts that a budget answers, by a recursion over what is spent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtr

from accountant.mechanisms.relative_error import deviation
from research.experiment import Setting

Floats = NDArray[np.float64]

_NODES = 96
"""Of a quadrature. Twice as many change no probability by 1e-12, which a test checks."""
_DEVIATIONS = 9.0
"""Normal numbers are beyond so many deviations with probability 2e-19."""
_SCALES = 40
"""Laplace noise is beyond so many scales with probability 4e-18."""


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of what one run does."""

    mean: float
    deviation: float

    def runs(self, error: float) -> int:
        """Return how many runs have a mean within this relative error, by four deviations."""
        return math.ceil((4 * self.deviation / (error * self.mean)) ** 2)


def doubling_law(setting: Setting) -> Floats:
    """Return, by count and level, the probability that rounds with fresh noise stop there.

    A round shows round(N(f, t)), which is below an integer m with the probability that N(f, t)
    is below m - 1/2. What is missing to 1 never stops.
    """
    counts = np.asarray(setting.counts, dtype=float)[:, None]
    least = np.array([math.ceil(threshold) for threshold in _gaussian_thresholds(setting)])
    fails = ndtr((least - 0.5 - counts) / _deviations(setting))
    before = np.cumprod(np.hstack([np.ones((len(counts), 1)), fails[:, :-1]]), axis=1)
    return np.asarray(before * (1 - fails))


def brownian_law(setting: Setting, *, shift: float = 0.0, nodes: int = _NODES) -> Floats:
    """Return the same for a Brownian mechanism, without its rounding.

    Rounding moves each answer by at most half a step. So on every path, the session that rounds
    stops no later than at thresholds that are half a step higher, and no earlier than at lower
    ones: `shift` 1/2 and -1/2 bound its expected cost from above and from below.

    The density of the error at a level is integrated over the errors that went on, each by
    Gauss's quadrature on an interval on which it is smooth. Source: docs/theory.md section 5.

    Args:
        shift: added to the thresholds, in query units.
        nodes: of each quadrature.
    """
    spread = _deviations(setting)
    thresholds = np.array([float(threshold) for threshold in _gaussian_thresholds(setting)])
    places, weights = np.polynomial.legendre.leggauss(nodes)
    law = np.zeros((len(setting.counts), len(spread)))
    for row, count in zip(law, setting.counts, strict=True):
        # `mass` is the probability of the errors `at`, as weights of a quadrature.
        at, mass, alive = np.zeros(1), np.ones(1), 1.0
        for k, s in enumerate(spread):
            ratio = 0.0 if k == 0 else (s / spread[k - 1]) ** 2
            deviation_given = s * math.sqrt(1 - ratio)
            low, high = -_DEVIATIONS * s, _DEVIATIONS * s
            edge = min(max(thresholds[k] + shift - count, low), high)
            nodes_at = (edge + low) / 2 + (edge - low) / 2 * places
            distance = (nodes_at[:, None] - ratio * at) / deviation_given
            density = np.exp(-(distance**2) / 2) @ mass / (deviation_given * math.sqrt(2 * math.pi))
            mass = density * weights * (edge - low) / 2
            at, after = nodes_at, float(mass.sum())
            row[k], alive = alive - after, after
            if alive < 1e-15:
                break
    return law


def laplace_law(setting: Setting) -> Floats:
    """Return the same for Laplace noise reduction on the integers.

    From fine to coarse, noise stays or gets independent noise of the coarser scale. `open_at`
    is the probability that no coarser answer passes, given the noise of a level.
    Source: docs/theory.md section 5.
    """
    scales = [float(scale) for scale in setting.scales]
    least = [math.ceil(setting.rule.threshold(scale)) for scale in setting.scales]
    law = np.zeros((len(setting.counts), len(scales)))
    for row, count in zip(law, setting.counts, strict=True):
        size = math.ceil(_SCALES * scales[0])
        open_at = np.ones(2 * size + 1)
        for k, scale in enumerate(scales):
            noise = np.arange(-size, size + 1)
            passes = noise >= least[k] - count
            masses = math.tanh(0.5 / scale) * np.exp(-np.abs(noise) / scale)
            row[k] = float((masses * open_at)[passes].sum())
            going = np.where(passes, 0.0, open_at)
            if float((masses * going).sum()) < 1e-15 or k + 1 == len(scales):
                break
            stay = _stay_probability(scales[k + 1], scale)
            open_at = stay * going + (1 - stay) * _with_more_noise(going, scale)
            finer = math.ceil(_SCALES * scales[k + 1])
            open_at, size = open_at[size - finer : size + finer + 1], finer
    return law


def cost(law: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Return the expected cost of each count, and its variance.

    Args:
        costs: float[k], of a session that stops at each level. One that never stops pays the last.
    """
    chances = law.copy()
    chances[:, -1] += 1 - law.sum(axis=1)
    mean = chances @ costs
    return mean, chances @ costs**2 - mean**2


def gaussian_costs(setting: Setting, *, every_round: bool) -> Floats:
    """Return rho of a session that stops at each level: of its last round, or of all of them."""
    rho = np.array(
        [float(Fraction(setting.sensitivity) ** 2 / (2 * Fraction(t))) for t in setting.variances]
    )
    return np.cumsum(rho) if every_round else rho


def laplace_costs(setting: Setting) -> Floats:
    """Return epsilon of a session that stops at each level."""
    return np.array([float(Fraction(setting.sensitivity) / scale) for scale in setting.scales])


def answered_gaussian(law: Floats, costs: Sequence[int], capacity: int) -> Moments:
    """Return how many counts are answered within `capacity`, both in units of 1/(2 t_1)."""

    def alive() -> Iterator[float]:
        state = np.zeros(capacity + 1)
        state[0] = 1.0
        for row in law:
            after = np.zeros_like(state)
            for probability, units in zip(row, costs, strict=True):
                if probability > 1e-15 and units <= capacity:
                    after[units:] += probability * state[: capacity + 1 - units]
            state = after
            yield float(state.sum())

    return _moments(alive())


def answered_laplace(law: Floats, capacity: float) -> Moments:
    """Return the same for costs 2^(k/2): what is spent is a + b sqrt(2)."""
    rows, columns = int(capacity) + 1, int(capacity / np.sqrt(2)) + 1
    fits = np.arange(rows)[:, None] + np.sqrt(2) * np.arange(columns) <= capacity

    def alive() -> Iterator[float]:
        state = np.zeros((rows, columns))
        state[0, 0] = 1.0
        for row in law:
            after = np.zeros_like(state)
            for k, probability in enumerate(row):
                step = 2 ** (k // 2)
                if probability <= 1e-9 or step >= (columns if k % 2 else rows):
                    continue
                if k % 2:
                    after[:, step:] += probability * state[:, :-step]
                else:
                    after[step:] += probability * state[:-step]
            state = after * fits
            yield float(state.sum())

    return _moments(alive())


def _moments(alive: Iterator[float]) -> Moments:
    """Return the moments of N from P(N >= j), j = 1, 2, ..."""
    first = second = 0.0
    for j, probability in enumerate(alive, start=1):
        first += probability
        second += (2 * j - 1) * probability
        if probability < 1e-9:
            break
    else:
        raise ValueError("more counts are needed")
    return Moments(first, float(np.sqrt(second - first**2)))


def _gaussian_thresholds(setting: Setting) -> list[Fraction]:
    return [setting.rule.threshold(deviation(Fraction(t))) for t in setting.variances]


def _deviations(setting: Setting) -> Floats:
    return np.array([math.sqrt(Fraction(t)) for t in setting.variances])


def _stay_probability(smaller: float, larger: float) -> float:
    """Return (a/A) ((1-A)/(1-a))^2 with a = exp(-1/smaller) and A = exp(-1/larger)."""
    quotient = math.expm1(-1 / larger) / math.expm1(-1 / smaller)
    return math.exp(1 / larger - 1 / smaller) * quotient**2


def _with_more_noise(values: Floats, scale: float) -> Floats:
    """Return E h(z + discrete Laplace noise) for each z; h goes on as at its ends."""
    keep = math.exp(-1 / scale)

    def behind(h: Floats) -> Floats:
        start = [keep * h[0] / (1 - keep)]
        return np.asarray(lfilter([1.0], [1.0, -keep], h, zi=start)[0])

    summed = behind(values) + behind(values[::-1])[::-1] - values
    return np.asarray(math.tanh(0.5 / scale) * summed)
