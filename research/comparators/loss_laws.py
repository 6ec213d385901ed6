"""The exact law of the privacy loss of a few mechanisms, under the first of two data sets."""

from __future__ import annotations

import math
from typing import Protocol

import msgspec
from scipy.special import log_ndtr, ndtr


class LossLaw(Protocol):
    """The law of L = ln(dP/dQ) under P, for pairs with the same law in both orders.

    The formulas are exact; floats round them to nearest, so they are not bounds.
    """

    def mean(self) -> float:
        """Return the mean of L in nats."""

    def cdf(self, loss: float) -> float:
        """Return P(L <= loss)."""

    def hockey_stick(self, epsilon: float) -> float:
        """Return H = E (1 - e^(epsilon - L))_+, the delta at epsilon, a real number."""


class GaussianLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The Gaussian mechanism: L is normal with mean D^2/(2 s^2) and variance D^2/s^2.

    Attributes:
        sensitivity: D, l2, in query units, > 0.
        sigma: s, standard deviation of the noise, in query units, > 0.
    Source: Dong, Roth and Su 2022.
    """

    sensitivity: float
    sigma: float

    @property
    def mu(self) -> float:
        return self.sensitivity / self.sigma

    def mean(self) -> float:
        return self.mu**2 / 2

    def cdf(self, loss: float) -> float:
        return float(ndtr((loss - self.mean()) / self.mu))

    def density(self, loss: float) -> float:
        """Return the density of L, per nat."""
        z = (loss - self.mean()) / self.mu
        return math.exp(-z * z / 2) / (self.mu * math.sqrt(2 * math.pi))

    def hockey_stick(self, epsilon: float) -> float:
        # Phi(-x) - e^epsilon Phi(-x - mu), with both terms as logarithms: e^epsilon may overflow.
        x = epsilon / self.mu - self.mu / 2
        more, less = float(log_ndtr(-x)), epsilon + float(log_ndtr(-x - self.mu))
        return -math.expm1(less - more) * math.exp(more)


class RandomizedResponseLoss(msgspec.Struct, frozen=True, kw_only=True):
    """RR_{epsilon, delta}: L is infinite with probability delta, else +-epsilon.

    Attributes:
        epsilon: in nats, >= 0.
        delta: probability that the answer reveals the true bit, 0 <= delta < 1.
    Source: Rogers 2016 Def 2.6; Kairouz, Oh and Viswanath 2015.
    """

    epsilon: float
    delta: float = 0.0

    def pmf(self) -> dict[float, float]:
        """Return the probability of each value of L."""
        kept = 1 - self.delta
        high = 1 / (1 + math.exp(-self.epsilon))
        law = {-self.epsilon: kept * math.exp(-self.epsilon) * high, math.inf: self.delta}
        law[self.epsilon] = law.get(self.epsilon, 0.0) if not self.epsilon else 0.0
        law[self.epsilon] += kept * high
        return {loss: mass for loss, mass in sorted(law.items()) if mass}

    def mean(self) -> float:
        if self.delta:
            return math.inf
        return self.epsilon * math.tanh(self.epsilon / 2)

    def cdf(self, loss: float) -> float:
        return math.fsum(mass for value, mass in self.pmf().items() if value <= loss)

    def hockey_stick(self, epsilon: float) -> float:
        return _hockey_stick(self.pmf(), epsilon)


class LaplaceLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Laplace noise of scale b on a sensitivity D, epsilon = D/b.

    L is epsilon with probability 1/2, -epsilon with probability e^-epsilon/2, and has the density
    e^((l - epsilon)/2)/4 between.

    Attributes:
        epsilon: in nats, > 0.
    Source: Smith, lecture 10, exercise 2.1.
    """

    epsilon: float

    def mean(self) -> float:
        return self.epsilon + math.expm1(-self.epsilon)

    def cdf(self, loss: float) -> float:
        if loss < -self.epsilon:
            return 0.0
        return 1.0 if loss >= self.epsilon else math.exp((loss - self.epsilon) / 2) / 2

    def density(self, loss: float) -> float:
        """Return the density of L, per nat, between its two atoms."""
        return math.exp((loss - self.epsilon) / 2) / 4 if abs(loss) < self.epsilon else 0.0

    def hockey_stick(self, epsilon: float) -> float:
        if epsilon >= self.epsilon:
            return 0.0
        if epsilon <= -self.epsilon:
            return -math.expm1(epsilon)
        return -math.expm1((epsilon - self.epsilon) / 2)


class NameAndShameLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Name and shame: it reveals one person's record with probability delta, else nothing.

    (0, delta)-DP, yet its loss is infinite with probability delta.

    Attributes:
        delta: 0 <= delta <= 1.
    Source: Smith, lecture 10, section 2.
    """

    delta: float

    def pmf(self) -> dict[float, float]:
        """Return the probability of each value of L."""
        return {0.0: 1 - self.delta, math.inf: self.delta}

    def mean(self) -> float:
        return math.inf if self.delta else 0.0

    def cdf(self, loss: float) -> float:
        return math.fsum(mass for value, mass in self.pmf().items() if value <= loss)

    def hockey_stick(self, epsilon: float) -> float:
        return _hockey_stick(self.pmf(), epsilon)


def _hockey_stick(pmf: dict[float, float], epsilon: float) -> float:
    return math.fsum(
        -math.expm1(epsilon - loss) * mass for loss, mass in pmf.items() if loss > epsilon
    )
