"""Laplace noise reduction: one answer, shown with less and less Laplace noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from accountant.amounts import format_units, units_up
from accountant.claims import ExPost
from accountant.conversions.laplace_reduction import stay_probability
from accountant.filters.settlement import noise_reduction_cost

Floats = NDArray[np.float64]


class LaplaceSession:
    """Shows f with Laplace noise of scales b_1 > b_2 > ..., for the price of the last.

    The session draws all noise at its start, from the smallest scale up (`noise_path`), and
    shows it in reverse order. Each earlier answer is the last one with more noise, so all
    answers together have the loss of the last one: at most sensitivity/b_last, at which an
    ex-post claim settles. An analyst reserves the finest scale before the session begins:
    `claim`. Source: Rogers 2023 section 4; docs/theory.md section 5. The remark of
    `BrownianSession` on floats holds here.

    Args:
        value: f, of any shape; each entry gets noise of the same scale.
        sensitivity: l1, in query units, as a claim states it.
        scales: decreasing, in query units, public and fixed before the first answer.
        generator: the source of the noise.
    Raises: ValueError: there are no scales, or they do not decrease above 0.
    """

    def __init__(
        self,
        value: float | Floats,
        *,
        sensitivity: str,
        scales: Sequence[Fraction],
        generator: np.random.Generator,
    ) -> None:
        self.value: Floats = np.asarray(value, dtype=np.float64)
        self.sensitivity = Fraction(sensitivity)
        self.scales = tuple(scales)
        self.shown = 0
        self._noise = noise_path(self.scales, shape=self.value.shape, generator=generator)

    def show(self) -> Floats:
        """Return the answer at the next scale. Raises: ValueError: no scale is left."""
        if self.shown == len(self.scales):
            raise ValueError("every scale that was reserved has been shown")
        self.shown += 1
        return np.asarray(self.value + self._noise[self.shown - 1])

    @property
    def paid(self) -> Fraction:
        """E(y) of all answers so far, in nats, exactly: 0 before the first answer."""
        if not self.shown:
            return Fraction(0)
        last = self.scales[self.shown - 1]
        return noise_reduction_cost(sensitivity=self.sensitivity, scale=last)


def claim(*, sensitivity: str, scale: Fraction) -> ExPost:
    """Return the claim of a session that may show answers down to `scale`.

    Its bound is sensitivity/scale in nats, rounded up to 40 decimals.
    """
    maximum = noise_reduction_cost(sensitivity=Fraction(sensitivity), scale=scale)
    return ExPost(epsilon=format_units(units_up(maximum)))


def noise_path(
    scales: Sequence[Fraction], *, shape: tuple[int, ...], generator: np.random.Generator
) -> list[Floats]:
    """Return Laplace noise of each scale, in the order of the (decreasing) scales.

    The noise of a scale equals that of the next smaller one with probability
    (b_small/b_large)^2; otherwise it is that noise plus an independent Laplace(b_large). Each
    entry is drawn independently. Source: docs/theory.md section 5.
    Raises: ValueError: there are no scales, or they do not decrease above 0.
    """
    falling = all(a > b for a, b in pairwise(scales))
    if not scales or scales[-1] <= 0 or not falling:
        raise ValueError("scales must decrease, and stay above 0")
    path = [generator.laplace(0.0, float(scales[-1]), shape)]
    for smaller, larger in zip(scales[:0:-1], scales[-2::-1], strict=True):
        stays = generator.random(shape) < float(stay_probability(smaller=smaller, larger=larger))
        more = generator.laplace(0.0, float(larger), shape)
        path.append(np.asarray(path[-1] + np.where(stays, 0.0, more)))
    return [np.asarray(noise, dtype=np.float64) for noise in reversed(path)]
