"""The law of the step at which each count of the experiment stops, with noise that is not rounded.

By the masses of cells, and for ladders of ratio 2: `research.stopping_laws` has another method.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtr
from scipy.stats import laplace

Floats = NDArray[np.float64]
FIRST = 3000.0
STEPS = 24


def standardised(counts: Sequence[int], factor: float) -> Floats:
    """Return by how many scales the noise must exceed 0 to pass, by count and step."""
    scales = FIRST / np.sqrt(2.0) ** np.arange(STEPS)
    return factor - np.asarray(counts)[:, None] / scales


def doubling_steps(need: Floats) -> Floats:
    """Return the law of the step at which independent Gaussian rounds first pass."""
    fails = ndtr(need)
    before = np.cumprod(np.hstack([np.ones((len(need), 1)), fails[:, :-1]]), axis=1)
    return np.asarray(before * (1 - fails))


def brownian_steps(need: Floats, *, cells: int = 900) -> Floats:
    """Return the same for a Brownian mechanism, as the walk of Theorem A.

    With Y_{k+1} = (Y_k + X)/2, X of the variance t_k, the error in deviations is
    e_{k+1} = (e_k + g)/sqrt(2), g standard normal: a walk that is absorbed above `need`,
    by the masses of cells in [-9, 9].
    """
    edges = np.linspace(-9, 9, cells + 1)
    middles, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    kernel = np.diff(ndtr(np.sqrt(2) * (edges - middles[:, None] / np.sqrt(2))), axis=1)
    mass = np.tile(np.diff(ndtr(edges)), (len(need), 1))
    law = []
    for k in range(STEPS):
        kept = mass * np.clip((need[:, k, None] - edges[:-1]) / width, 0, 1)
        law.append(mass.sum(axis=1) - kept.sum(axis=1))
        mass = kept @ kernel
    return np.stack(law, axis=1)


def laplace_steps(need: Floats, *, span: float = 30.0, points: int = 6_001) -> Floats:
    """Return the same for Laplace noise reduction of precision ratio 2.

    From fine to coarse, where g_k(u) is the probability that no coarser answer passes, given
    noise of u scales at step k: it stays with probability 1/2, else more Laplace is added.
    """
    u = np.linspace(-span, span, points)
    width = u[1] - u[0]
    masses = np.diff(laplace.cdf(np.append(u, span + width) - width / 2))
    masses /= masses.sum()
    rows = []
    for row in need:
        g, law = np.ones(points), []
        for edge in row:
            passing = np.clip((u - edge) / width + 0.5, 0, 1)
            law.append(float((masses * g * passing).sum()))
            h = g * (1 - passing)
            g = np.interp(u / np.sqrt(2), u, (h + _spread(h, width)) / 2)
        rows.append(law)
    return np.asarray(rows)


def _spread(h: Floats, width: float) -> Floats:
    """Return E h(u + Lap(1)) on the grid; h goes on as at its ends."""
    keep = np.exp(-width)
    share = (1 - keep) / (1 + keep)

    def behind(values: Floats) -> Floats:
        start = [keep * values[0] / (1 - keep)]
        return np.asarray(lfilter([1.0], [1.0, -keep], values, zi=start)[0])

    return np.asarray(share * (behind(h) + behind(h[::-1])[::-1] - h))
