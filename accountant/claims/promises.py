"""The promise of one claim in each definition of privacy, exact or rounded up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial

from accountant.claims import claims as c
from accountant.conversions.gdp import mu_of_pure
from accountant.conversions.probabilistic import (
    both_tails_delta,
    loss_shift,
    probabilistic_delta,
)
from accountant.conversions.renyi import (
    bounded_range_renyi,
    laplace_renyi,
    randomized_response_renyi,
    zcdp_renyi,
)
from accountant.conversions.renyi_subsampled import subsampled_gaussian_renyi
from accountant.conversions.zcdp import bounded_range_rho, gaussian_rho, laplace_rho, pure_rho

Amount = Fraction | Decimal
Curve = Callable[[Decimal], Amount | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBound:
    """A bound on the privacy loss itself, as odometers need it.

    Attributes:
        time: the claim's intrinsic time, 2 rho or epsilon^2.
        epsilon: bound on the loss, None if there is none (a Gaussian).
        delta: probability that the bound fails.
        shift: -ln(1 - delta).
    """

    time: Amount
    epsilon: Amount | None = None
    delta: Amount = Fraction(0)
    shift: Amount = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What one mechanism promises; None where it has no finite bound.

    Attributes:
        rho: the mechanism is delta-approximate rho-zCDP.
        delta: see rho and epsilon.
        epsilon: the mechanism is (epsilon, delta)-DP.
        pure_epsilon: apart from `delta`, the mechanism takes no more off a Gaussian budget than
            randomized response of this epsilon: it is epsilon-DP (docs/theory.md P6), or of
            bounded range 2 epsilon (P11).
        mu_squared: the mechanism is mu-GDP: a Gaussian mechanism dominates it.
        renyi: its Renyi divergence at an order above 1, in nats, rounded up. None at an order
            without a bound, and at every order for a promise with a delta.
        intrinsic_time: its part of V in Whitehouse 2023 Thm 1 and Thm 6.
        loss: the bound that odometers use, None if there is none.
        ex_post: the claim is settled at the loss that its answer shows, at most `epsilon`.
    """

    rho: Amount | None
    intrinsic_time: Amount | None
    delta: Amount = Fraction(0)
    epsilon: Amount | None = None
    pure_epsilon: Amount | None = None
    mu_squared: Amount | None = None
    renyi: Curve | None = None
    loss: LossBound | None = None
    ex_post: bool = False

    @property
    def dominating(self) -> Amount | None:
        """mu^2 of a Gaussian mechanism that dominates it, apart from `delta`; None if none does.

        Its own where it is a Gaussian, else that of mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) for
        its `pure_epsilon` (docs/theory.md section 1).
        """
        if self.mu_squared is not None or self.pure_epsilon is None:
            return self.mu_squared
        return Fraction(mu_of_pure(self.pure_epsilon)) ** 2


@lru_cache(maxsize=16_384)
def promise(claim: c.Claim) -> Promise:
    """Return the promise of a single mechanism's claim whose fields are checked.

    Source: docs/theory.md section 1, the table of claims, row by row.
    """
    match claim:
        case c.Interactive():
            return _interactive(promise(claim.claim))
        case c.Pure():
            return _pure(Fraction(claim.epsilon))
        case c.Probabilistic() | c.RandomizedResponse():
            # RR_{epsilon, delta} has |loss| <= epsilon except with probability delta.
            return _with_delta(claim, probabilistic=True)
        case c.Approximate():
            return _with_delta(claim, probabilistic=False)
        case c.ApproximateZcdp():
            delta = Fraction(claim.delta)
            plain = _zcdp(Fraction(claim.rho))
            if not delta:
                return plain
            return Promise(rho=plain.rho, intrinsic_time=plain.intrinsic_time, delta=delta)
        case c.Zcdp():
            return _zcdp(Fraction(claim.rho))
        case c.SubsampledGaussian():
            return _subsampled(claim)
        case c.Brownian() if claim.sampler == "discrete":
            # A discrete Gaussian obeys zCDP, and is dominated by no Gaussian of the same rho.
            return _zcdp(claim.rho())
        case c.Gdp() | c.Gaussian() | c.Brownian():
            return _gaussian(_rho_of(claim))
        case c.ExPost():
            return _ex_post(claim)
        case c.Laplace():
            epsilon = Fraction(claim.sensitivity) / Fraction(claim.scale)
            curve = partial(laplace_renyi, epsilon=epsilon)
            return _pure_with_rho(epsilon, Fraction(laplace_rho(epsilon)), curve)
        case c.BoundedRange():
            eta = Fraction(claim.eta)
            curve = partial(bounded_range_renyi, eta=eta)
            known = _pure_with_rho(eta, bounded_range_rho(eta), curve)
            return replace(known, pure_epsilon=eta / 2)  # P11
        case _:
            raise TypeError(f"not a single mechanism: {type(claim).__name__}")


def _interactive(whole: Promise) -> Promise:
    # A bound on each loss of (epsilon, delta)-DP holds at the end of the transcript, and is
    # proved for every time without a delta only (docs/theory.md P12).
    return replace(whole, loss=None) if whole.delta else whole


def _pure(epsilon: Fraction) -> Promise:
    rho = Fraction(pure_rho(epsilon))
    return Promise(
        rho=rho,
        epsilon=epsilon,
        pure_epsilon=epsilon,
        intrinsic_time=epsilon**2,
        renyi=partial(randomized_response_renyi, epsilon=epsilon),
        loss=LossBound(time=2 * rho, epsilon=epsilon),
    )


def _pure_with_rho(epsilon: Fraction, rho: Fraction, renyi: Curve) -> Promise:
    # Whitehouse 2023 Thm 6 counts V = 2 rho for zCDP claims, here less than epsilon^2.
    loss = LossBound(time=2 * rho, epsilon=epsilon)
    return Promise(
        rho=rho,
        epsilon=epsilon,
        pure_epsilon=epsilon,
        intrinsic_time=2 * rho,
        renyi=renyi,
        loss=loss,
    )


def _zcdp(rho: Fraction) -> Promise:
    curve = partial(zcdp_renyi, rho=rho)
    return Promise(rho=rho, intrinsic_time=2 * rho, renyi=curve, loss=LossBound(time=2 * rho))


def _rho_of(claim: c.Gdp | c.Gaussian | c.Brownian) -> Fraction:
    match claim:
        case c.Gdp():
            return Fraction(claim.mu) ** 2 / 2
        case c.Gaussian():
            sigma, sensitivity = Fraction(claim.sigma), Fraction(claim.sensitivity)
            return gaussian_rho(sigma=sigma, sensitivity=sensitivity)
        case c.Brownian():
            return claim.rho()


def _gaussian(rho: Fraction) -> Promise:
    return replace(_zcdp(rho), mu_squared=2 * rho)


def _subsampled(claim: c.SubsampledGaussian) -> Promise:
    # The same mechanism at rate 1, a plain Gaussian, dominates it.
    plain = _gaussian(_rho_of(claim))
    if not plain.rho:
        return plain
    noise = Fraction(claim.sigma) / Fraction(claim.sensitivity)
    curve = partial(subsampled_gaussian_renyi, rate=Fraction(claim.rate), noise=noise)
    return replace(plain, renyi=curve)


def _ex_post(claim: c.ExPost) -> Promise:
    """Return its promise for a filter that adds ex-post claims to all others."""
    whole = replace(_with_delta(claim, probabilistic=True), ex_post=True)
    if not whole.delta:
        return whole
    # The claim bounds the loss from above, except with probability delta; an odometer needs a
    # bound on both sides.
    epsilon, delta = Fraction(claim.epsilon), Fraction(claim.delta)
    both = both_tails_delta(epsilon=epsilon, delta=delta)
    loss = _loss_with_delta(epsilon, both, probabilistic=True) if both else None
    return replace(whole, loss=loss)


def _with_delta(claim: c.Approximate | c.ExPost, *, probabilistic: bool) -> Promise:
    epsilon, delta = Fraction(claim.epsilon), Fraction(claim.delta)
    pure = _pure(epsilon)
    if not delta:
        return pure
    return Promise(
        rho=pure.rho,
        epsilon=epsilon,
        pure_epsilon=epsilon,
        delta=delta,
        intrinsic_time=epsilon**2,
        loss=_loss_with_delta(epsilon, delta, probabilistic=probabilistic),
    )


def _loss_with_delta(
    epsilon: Fraction, delta: Fraction, *, probabilistic: bool
) -> LossBound | None:
    if not epsilon:
        return None  # epsilon = 0 < delta leaves no bound on the loss
    if not probabilistic:
        converted = probabilistic_delta(epsilon=epsilon, delta=delta)
        if converted is None:
            return None
        epsilon, delta = 2 * epsilon, converted
    # The smaller 2 epsilon tanh(epsilon/2) would be wrong: given |loss| <= epsilon, the loss has
    # only that range and is not the loss of an epsilon-DP mechanism (docs/theory.md section 4).
    return LossBound(time=epsilon**2, epsilon=epsilon, delta=delta, shift=loss_shift(delta))
