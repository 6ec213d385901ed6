"""What adversaries may ask for: claims, with mechanisms that obey them and hardly more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np

from accountant import claims as c
from accountant.conversions.zcdp import pure_rho
from research.games import curves
from research.games.ledgers import Offer
from research.games.pairs import (
    FloatArray,
    Pair,
    coarsened_gaussian,
    name_and_shame,
    randomized_response,
    symmetric_atom,
)
from research.games.payoffs import Curve
from research.games.randomized_response import RandomizedResponseLaw


def pure(epsilon: str) -> Offer:
    return Offer(c.Pure(epsilon), randomized_response(float(epsilon)))


def zcdp_response(epsilon: str) -> Offer:
    """Randomized response, claimed as the zCDP that it has (docs/theory.md P1)."""
    rho = f"{pure_rho(Fraction(epsilon)):.30f}"
    return Offer(c.Zcdp(str(Decimal(rho) + Decimal("1e-30"))), randomized_response(float(epsilon)))


def approximate(epsilon: str, delta: str) -> Offer:
    claim = c.Approximate(epsilon, delta)
    return Offer(claim, RandomizedResponseLaw(float(epsilon), float(delta)).pair())


def shame(delta: str) -> Offer:
    return Offer(c.Approximate("0", delta), name_and_shame(float(delta)))


def gaussian(mu: str, cuts: Sequence[float]) -> Offer:
    return Offer(c.Gdp(mu), coarsened_gaussian(float(mu), cuts))


def zcdp_gaussian(mu: str, cuts: Sequence[float]) -> Offer:
    return Offer(c.Zcdp(str(Decimal(mu) ** 2 / 2)), coarsened_gaussian(float(mu), cuts))


def shaming_gaussian(mu: str, delta: str, cuts: Sequence[float]) -> Offer:
    """A coarsened Gaussian that tells the neighbour with probability delta: approximate zCDP."""
    rest, d = coarsened_gaussian(float(mu), cuts), float(delta)
    pair = Pair(
        (d, 0.0, *[(1 - d) * p for p in rest.p]),
        (0.0, d, *[(1 - d) * q for q in rest.q]),
        (math.inf, -math.inf, *rest.losses),
    )
    return Offer(c.ApproximateZcdp(str(Decimal(mu) ** 2 / 2), delta), pair)


def laplace(epsilon: str, cuts: Sequence[float]) -> Offer:
    """Laplace noise of scale 1 at distance epsilon, of which an interval is shown."""
    e = float(epsilon)

    def cdf(x: float) -> float:
        return 1 - math.exp(-x) / 2 if x > 0 else math.exp(x) / 2

    edges = [-math.inf, *cuts, math.inf]
    laws = [np.diff([cdf(x - centre) for x in edges]) for centre in (e, 0.0)]
    p, q = ([float(x) for x in law / law.sum()] for law in laws)
    return Offer(c.Laplace(scale="1", sensitivity=epsilon), Pair.of(p, q))


def bounded_range(eta: str, high: float) -> Offer:
    """Two outcomes with losses `high` and `high - eta`, 0 < high < eta."""
    low = high - float(eta)
    q = -math.expm1(low) / (math.exp(high) - math.exp(low))
    p = q * math.exp(high)
    return Offer(c.BoundedRange(eta), Pair((p, 1 - p), (q, 1 - q), (high, low)))


def beyond(epsilon: str, delta: str) -> Offer:
    """(epsilon, delta)-DP, with a loss beyond 2 epsilon as often as that allows."""
    e, d = float(epsilon), float(delta)
    atom = symmetric_atom(2 * e * (1 + 1e-9), d / -math.expm1(-e * (1 + 3e-9)))
    return Offer(c.Approximate(epsilon, delta), atom)


def skewed(epsilon: str, delta: str) -> Offer:
    """Losses +-epsilon, up as often as an outcome of probability delta under Q alone allows.

    (epsilon, delta)-pDP, with a mean loss above that of RR_epsilon: what the shift of
    odometers is for (docs/theory.md section 4).
    """
    e, d = float(epsilon), float(delta)
    up = (math.expm1(e) + d) / (2 * math.sinh(e))  # up e^-e + (1 - up) e^e = 1 - d
    q = (up * math.exp(-e), (1 - up) * math.exp(e), d)
    pair = Pair((up, 1 - up, 0.0), q, (e, -e, -math.inf))
    return Offer(c.Probabilistic(epsilon, delta), pair)


def ex_post_response(epsilon: str, delta: str = "0") -> Offer:
    """RR_{epsilon, delta}, which settles at next to nothing where it tells the neighbour openly."""
    pair = RandomizedResponseLaw(float(epsilon), float(delta)).pair()
    settles = [epsilon if math.isfinite(loss) else "1e-6" for loss in pair.losses]
    return Offer(c.ExPost(epsilon, delta), pair, tuple(c.ExPost(x, delta) for x in settles))


def ex_post_rare(low: str, rare: float) -> Offer:
    """A rare answer with loss -low, another with a small loss: each settles at its own size."""
    q = rare * math.exp(float(low))
    high = math.log((1 - rare) / (1 - q))
    paid = f"{Decimal(math.ceil(high * 10**12)).scaleb(-12):f}"
    pair = Pair((rare, 1 - rare), (q, 1 - q), (-float(low), high))
    return Offer(c.ExPost(low), pair, (c.ExPost(low), c.ExPost(paid)))


RUNGS = 4000


@dataclass(frozen=True)
class Ending:
    """Mechanisms of one kind, ever larger, of which the largest that fits may come last.

    Making all 4,000 takes a tenth of a second, so it is done at the first use.

    Attributes:
        maximum: the parameter of the largest.
        kind: parameter -> claim.
        curve: parameter -> the hockey-stick curve x -> H_x of the worst mechanism of the claim.
        log_moment: parameter -> order -> ln E e^{order L} of the same.
    """

    maximum: str
    kind: Callable[[str], c.Claim]
    curve: Callable[[float], Curve]
    log_moment: Callable[[float], Callable[[float], float]]

    @cached_property
    def claims(self) -> tuple[c.Claim, ...]:
        """The ladder of claims."""
        return tuple(self.kind(parameter) for parameter in self._rungs)

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """The curve of each claim."""
        return tuple(self.curve(float(parameter)) for parameter in self._rungs)

    @cached_property
    def log_moments(self) -> tuple[Callable[[float], float], ...]:
        """The logarithm of the moments of each claim."""
        return tuple(self.log_moment(float(parameter)) for parameter in self._rungs)

    @cached_property
    def _rungs(self) -> list[str]:
        return [f"{Decimal(self.maximum) * i / RUNGS:f}" for i in range(1, RUNGS + 1)]


def last_gaussian(maximum: str) -> Ending:
    def curve(mu: float) -> Curve:
        return lambda x: curves.gaussian(mu, x)

    def log_moment(mu: float) -> Callable[[float], float]:
        return lambda order: order * (order + 1) * mu**2 / 2

    return Ending(maximum, c.Gdp, curve, log_moment)


def last_response(maximum: str, kind: Callable[[str], c.Claim] = c.Pure) -> Ending:
    """Randomized response of epsilon, claimed as `kind(epsilon)`."""

    def curve(epsilon: float) -> Curve:
        def values(x: FloatArray) -> FloatArray:
            return curves.randomized_response(epsilon, 0.0, x)

        return values

    def log_moment(epsilon: float) -> Callable[[float], float]:
        return randomized_response(epsilon).log_moment

    return Ending(maximum, kind, curve, log_moment)
