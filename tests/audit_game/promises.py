"""What a claim promises of every event: the most probable that it may be on a neighbouring table.

Written apart from the code that prices claims, from the definitions alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from scipy.stats import norm

from accountant.claims import (
    AllOf,
    BoundedRange,
    Brownian,
    Claim,
    ExPost,
    Gaussian,
    Pure,
    Repeat,
    Zcdp,
)

Probabilities = npt.NDArray[np.float64]
# Renyi orders at which an event is compared with a zCDP claim; more of them only find more.
_ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1, 12), np.geomspace(2.2, 200, 24)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A bound on every event.

    Attributes:
        epsilon: the most by which the logarithm of a probability changes.
        eta: the same of odds, p / (1 - p): what a bounded range comes to for an event.
        mu: the answers are no easier to tell apart than N(0, 1) and N(mu, 1).
        rho: their Renyi divergence of order a is at most a rho.
    """

    epsilon: float | None = None
    eta: float | None = None
    mu: float | None = None
    rho: float | None = None

    def most(self, other: Probabilities) -> Probabilities:
        """Return the most probable that an event may be.

        Args:
            other: float64[n], its probability on the neighbouring table.
        """
        if self.epsilon is not None:
            growth = math.exp(self.epsilon)
            return np.minimum(growth * other, 1 - (1 - other) / growth)
        if self.eta is not None:
            return np.asarray(expit(logit(other) + self.eta))
        if self.mu is not None:
            return np.asarray(norm.cdf(norm.ppf(other) + self.mu))
        assert self.rho is not None
        return _most_of_zcdp(self.rho, other)

    def times(self, factor: float) -> Promise:
        """Return a promise of so many times as much."""
        return Promise(
            **{
                name: getattr(self, name) * factor
                for name in ("epsilon", "eta", "mu", "rho")
                if getattr(self, name) is not None
            }
        )


def _most_of_zcdp(rho: float, other: Probabilities) -> Probabilities:
    low, high = other.copy(), np.ones_like(other)
    for _ in range(60):
        middle = (low + high) / 2
        kept = _is_zcdp(rho, middle, other)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return high


def _is_zcdp(rho: float, p: Probabilities, q: Probabilities) -> npt.NDArray[np.bool_]:
    """Tell whether coins of probabilities p and q have a divergence of a rho at most, each a."""
    orders = _ORDERS[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = orders * np.log(p) + (1 - orders) * np.log(q)
        tails = orders * np.log1p(-p) + (1 - orders) * np.log1p(-q)
        tails = np.where(p >= 1, -np.inf, tails)
        divergence = np.logaddexp(heads, tails) / (orders - 1)
    return np.asarray(np.all(divergence <= orders * rho, axis=0))


def promise_of(claim: Claim) -> Promise:
    """Return what a claim promises; of several claims, what they promise together."""
    match claim:
        case Pure(epsilon) | ExPost(epsilon):
            return Promise(epsilon=float(epsilon))
        case BoundedRange(eta):
            return Promise(eta=float(eta))
        case Zcdp(rho):
            return Promise(rho=float(rho))
        case Brownian():
            return Promise(mu=float(claim.sensitivity) / math.sqrt(float(claim.variance)))
        case Gaussian(sigma, sensitivity):
            return Promise(mu=float(sensitivity) / float(sigma))
        case Repeat(inner, times):
            return together([promise_of(inner)] * times)
        case AllOf(claims):
            return together([promise_of(each) for each in claims])
        case _:
            raise TypeError(f"no promise for a {type(claim).__name__} claim")


def together(promises: list[Promise]) -> Promise:
    """Return what several promises of one kind come to.

    A bounded range is also an epsilon; epsilons and rhos add up, and squares of mu.
    """
    if len(promises) == 1:
        return promises[0]
    if all(each.mu is not None for each in promises):
        return Promise(mu=math.hypot(*(each.mu or 0 for each in promises)))
    if all(each.rho is not None for each in promises):
        return Promise(rho=math.fsum(each.rho or 0 for each in promises))
    epsilons = [each.eta if each.epsilon is None else each.epsilon for each in promises]
    assert None not in epsilons, "no rule for claims of these kinds together"
    return Promise(epsilon=math.fsum(each or 0 for each in epsilons))
