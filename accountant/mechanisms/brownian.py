"""The Brownian mechanism: one answer, shown with less and less Gaussian noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from accountant.claims import Brownian

Floats = NDArray[np.float64]


class BrownianSession:
    """Shows f + B_t at variances t_1 > t_2 > ..., each chosen after the earlier answers.

    A refinement draws Y_k given Y_{k-1} from the bridge,
    N(f + (t_k/t_{k-1}) (Y_{k-1} - f), t_k (t_{k-1} - t_k)/t_{k-1}), so the session stores no
    path and knows no variance in advance. By docs/theory.md P4 it has the same law as
    adaptively chosen independent Gaussians of precisions 1/t_k - 1/t_{k-1}. Each refinement has
    its own claim, `claim`; their costs telescope to sensitivity^2/(2 t_T).
    Source: Rogers 2023 section 4; docs/theory.md section 5.

    The noise consists of floats, which is enough to study a mechanism. A mechanism that faces
    an adversary needs a sampler whose lowest digits reveal nothing.

    Args:
        value: f, of any shape; each entry gets noise of the same variance.
        sensitivity: l2, in query units, as a claim states it.
        generator: the source of the noise.

    Attributes:
        variance: of the last answer, in squared query units; None before the first answer.
    """

    def __init__(
        self, value: float | Floats, *, sensitivity: str, generator: np.random.Generator
    ) -> None:
        self.value: Floats = np.asarray(value, dtype=np.float64)
        self.sensitivity = sensitivity
        self.variance: str | None = None
        self._generator = generator
        self._error: Floats = np.zeros_like(self.value)

    def claim(self, variance: str) -> Brownian:
        """Return the claim of the next answer at this variance, given the earlier answers."""
        return Brownian(
            variance=variance,
            sensitivity=self.sensitivity,
            previous=UNSET if self.variance is None else self.variance,
        )

    def show(self, variance: str) -> Floats:
        """Return the answer at this variance; call it only after its claim is granted.

        Raises: ValueError: the variance is not above 0 and below the last one.
        """
        slope, spread = bridge(variance, self.variance)
        noise = self._generator.standard_normal(self.value.shape)
        # The session keeps the error apart from f, so nothing cancels: f may be large.
        self._error = float(slope) * self._error + math.sqrt(spread) * noise
        self.variance = variance
        return np.asarray(self.value + self._error)


def bridge(variance: str, previous: str | None) -> tuple[Fraction, Fraction]:
    """Return slope and variance of Y_k - f given Y_{k-1} - f, exactly.

    They are t_k/t_{k-1} and t_k (t_{k-1} - t_k)/t_{k-1}; 0 and t_1 for the first answer.
    Raises: ValueError: the variance is not above 0 and below `previous`.
    """
    t = Fraction(variance)
    if t <= 0:
        raise ValueError(f"the variance must be above 0, got {variance}")
    if previous is None:
        return Fraction(0), t
    before = Fraction(previous)
    if t >= before:
        raise ValueError(f"the variance must be below {previous}, got {variance}")
    return t / before, t * (before - t) / before
