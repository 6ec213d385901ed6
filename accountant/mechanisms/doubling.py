"""The doubling baseline: each round asks again, with fresh noise of a higher precision."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from accountant.claims import Brownian

Floats = NDArray[np.float64]


class DoublingSession:
    """Shows f with fresh Gaussian noise each round, until a test on the answer passes.

    Every round pays in full, together the sum of sensitivity^2/(2 t_j); a Brownian mechanism
    of the same variances pays only for the last one. Only the last answer is used, so the cost
    of the earlier rounds buys only the choice of its variance. Source: Rogers 2023
    section 7.1; docs/theory.md section 5. The remark of `BrownianSession` on floats holds here.

    Args:
        value: f, of any shape.
        sensitivity: l2, in query units, as a claim states it.
        generator: the source of the noise.
    """

    def __init__(
        self, value: float | Floats, *, sensitivity: str, generator: np.random.Generator
    ) -> None:
        self.value: Floats = np.asarray(value, dtype=np.float64)
        self.sensitivity = sensitivity
        self._generator = generator

    def claim(self, variance: str) -> Brownian:
        """Return the claim of a round: a Gaussian stated by its variance.

        That is a Brownian mechanism with one answer. A `gaussian` claim would need the
        standard deviation, which is not a decimal in every other round.
        """
        return Brownian(variance=variance, sensitivity=self.sensitivity)

    def show(self, variance: str) -> Floats:
        """Return a new answer at this variance; call it only after its claim is granted.

        Raises: ValueError: the variance is not above 0.
        """
        t = Fraction(variance)
        if t <= 0:
            raise ValueError(f"the variance must be above 0, got {variance}")
        noise = self._generator.standard_normal(self.value.shape)
        return np.asarray(self.value + math.sqrt(t) * noise)
