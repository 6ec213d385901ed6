"""Claims: the wire types in which an analyst states what a mechanism promises.

A claim is data. `promises` computes its cost in each definition of privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from accountant.amounts import UNIT, parse, units_up
from accountant.claims.fields import (
    MAX_EPSILON,
    MAX_RHO,
    MIN_EPSILON,
    MIN_RHO,
    ClaimFields,
    check_delta,
    check_epsilon,
    check_grant,
    check_noise,
    check_rate,
    check_result,
    check_rho,
)
from accountant.errors import RequestInvalid
from accountant.field_rules import (
    ContinuedGrant,
    Delta,
    Epsilon,
    NoiseAmount,
    Rate,
    Rho,
    Sensitivity,
    Times,
)

MAX_TIMES: Final = 1_000_000
MAX_CLAIMS: Final = 100
MAX_DEPTH: Final = 3
Sampler = Literal["normal", "discrete"]
"""How a session's Gaussian noise is drawn."""


class Pure(ClaimFields, frozen=True, tag="pure"):
    """epsilon-DP, epsilon in nats: 0 or 1e-12 to 1e3."""

    epsilon: Epsilon
    knob = "epsilon"

    def check(self) -> None:
        check_epsilon(self.epsilon, "epsilon")


class Approximate(ClaimFields, frozen=True, tag="approximate"):
    """(epsilon, delta)-DP."""

    epsilon: Epsilon
    delta: Delta
    knob = "epsilon"

    def check(self) -> None:
        check_epsilon(self.epsilon, "epsilon")
        check_delta(self.delta, "delta")


class Probabilistic(Approximate, frozen=True, tag="probabilistic"):
    """(epsilon, delta)-pDP: P(|loss| > epsilon) <= delta, for both orders of every pair."""


class RandomizedResponse(Approximate, frozen=True, tag="randomized_response"):
    """Randomized response RR_{epsilon, delta} (Rogers 2016 Def 2.6)."""

    delta: Delta = "0"


class Zcdp(ClaimFields, frozen=True, tag="zcdp"):
    """rho-zCDP, rho in nats: 0 or 1e-25 to 1e6."""

    rho: Rho
    knob = "rho"

    def check(self) -> None:
        check_rho(self.rho, "rho")


class ApproximateZcdp(Zcdp, frozen=True, tag="approximate_zcdp"):
    """delta-approximate rho-zCDP (Whitehouse 2023 Def 10)."""

    delta: Delta

    def check(self) -> None:
        check_rho(self.rho, "rho")
        check_delta(self.delta, "delta")


class Gdp(ClaimFields, frozen=True, tag="gdp"):
    """mu-Gaussian DP, mu: 0 or 1e-12 to 1e3."""

    mu: Epsilon
    knob = "mu"

    def check(self) -> None:
        check_epsilon(self.mu, "mu")


class BoundedRange(ClaimFields, frozen=True, tag="bounded_range"):
    """eta-bounded range, eta in nats; the exponential mechanism has eta = epsilon."""

    eta: Epsilon
    knob = "eta"

    def check(self) -> None:
        check_epsilon(self.eta, "eta")


class Laplace(ClaimFields, frozen=True, tag="laplace"):
    """Laplace noise of `scale`, for a query of l1 `sensitivity`; both in query units."""

    scale: NoiseAmount
    sensitivity: Sensitivity
    knob = "scale"
    knob_sign = -1

    def check(self) -> None:
        scale = check_noise(self.scale, "scale")
        epsilon = Fraction(parse(self.sensitivity, field="sensitivity")) / Fraction(scale)
        check_result(epsilon, "sensitivity / scale", MIN_EPSILON, MAX_EPSILON)


class Gaussian(ClaimFields, frozen=True, tag="gaussian"):
    """Gaussian noise of standard deviation `sigma`, for l2 `sensitivity`; in query units."""

    sigma: NoiseAmount
    sensitivity: Sensitivity
    knob = "sigma"
    knob_sign = -1

    def check(self) -> None:
        sigma = check_noise(self.sigma, "sigma")
        rho = Fraction(parse(self.sensitivity, field="sensitivity")) ** 2
        rho /= 2 * Fraction(sigma) ** 2
        check_result(rho, "sensitivity^2 / (2 sigma^2)", MIN_RHO, MAX_RHO)


class SubsampledGaussian(Gaussian, frozen=True, tag="subsampled_gaussian"):
    """A Gaussian on a Poisson sample: each unit is in it with probability `rate`, 1e-12 to 1.

    That sampling amplifies privacy holds for units added or removed, not for one replaced.
    """

    rate: Rate
    knob_is_power = False
    only_for = "add_remove"

    def check(self) -> None:
        super().check()
        check_rate(self.rate, "rate")


class Brownian(ClaimFields, frozen=True, tag="brownian"):
    """One refinement of a Brownian mechanism: the result released again, with less noise.

    `variance` is that of the noise after it, `previous` that before it, left out where no
    answer was shown before; in squared query units. `sensitivity` is l2, in query units.

    A session shows answers of falling variance from `first` down to `variance`, and settles at the
    last one. `sampler` is `discrete` where each increment is a discrete Gaussian, which obeys zCDP
    and is no Gaussian mechanism.

    `continues` is the hash of the grant that it continues, a session that has settled at `previous`
    or below. Without it the answer of variance `previous` was shown by a plain grant, as the
    analyst promises.
    """

    variance: NoiseAmount
    sensitivity: Sensitivity
    previous: NoiseAmount | UnsetType = UNSET
    first: NoiseAmount | UnsetType = UNSET
    sampler: Sampler | UnsetType = UNSET
    continues: ContinuedGrant | UnsetType = UNSET
    knob = "variance"
    knob_sign = -1
    knob_is_power = False

    def check(self) -> None:
        variance = check_noise(self.variance, "variance")
        if self.previous is not UNSET and check_noise(self.previous, "previous") <= variance:
            raise RequestInvalid("variance", "must be below previous", self.variance)
        if self.first is not UNSET:
            first = check_noise(self.first, "first")
            if first < variance:
                raise RequestInvalid("first", "must be at least variance", self.first)
            if self.previous is not UNSET and first >= parse(self.previous, field="previous"):
                raise RequestInvalid("first", "must be below previous", self.first)
        if self.sampler not in (UNSET, *get_args(Sampler)):
            raise RequestInvalid("sampler", "must be normal or discrete", str(self.sampler))
        if self.continues is not UNSET:
            check_grant(self.continues, "continues")
            if self.previous is UNSET:
                rule = "must be given where the claim continues a grant"
                raise RequestInvalid("previous", rule, None)
        parse(self.sensitivity, field="sensitivity")
        what = "sensitivity^2 / 2 (1 / variance - 1 / previous)"
        check_result(self.rho(), what, MIN_RHO, MAX_RHO)

    @property
    def is_session(self) -> bool:
        """Whether it shows several answers, of which the last one sets the cost."""
        return self.first is not UNSET

    def offered(self) -> Brownian:
        """Return the same refinement without the session's first level."""
        return msgspec.structs.replace(self, first=UNSET)

    def rho(self) -> Fraction:
        """Return (sensitivity^2 / 2) (1/variance - 1/previous), exactly (docs/theory.md P4)."""
        precision = 1 / Fraction(self.variance)
        if self.previous is not UNSET:
            precision -= 1 / Fraction(self.previous)
        return Fraction(self.sensitivity) ** 2 / 2 * precision


class ExPost(ClaimFields, frozen=True, tag="ex_post"):
    """Ex-post privacy: the answer y shows that the loss is at most E(y), but for delta.

    `epsilon` is the bound that E(y) is held to before the mechanism runs (Rogers 2023 Def 4.1).

    A session of Laplace noise reduction shows answers of falling scale from `first` down to
    `least`, and settles at `sensitivity` / the last scale (l1, in query units). `epsilon` is
    `sensitivity` / `least` then, or that rounded up to 1e-40, and there is no `delta`: with one the
    definition is not closed under post-processing, so the stop of a session could break it.
    """

    epsilon: Epsilon
    delta: Delta = "0"
    sensitivity: Sensitivity | UnsetType = UNSET
    first: NoiseAmount | UnsetType = UNSET
    least: NoiseAmount | UnsetType = UNSET
    knob = "epsilon"

    def check(self) -> None:
        epsilon = check_epsilon(self.epsilon, "epsilon")
        delta = check_delta(self.delta, "delta")
        given = [each is not UNSET for each in (self.sensitivity, self.first, self.least)]
        if not any(given):
            return
        if not all(given):
            name = ("sensitivity", "first", "least")[given.index(False)]
            raise RequestInvalid(name, "must be given where the claim is a session", None)
        if delta:
            raise RequestInvalid("delta", "must be left out or 0 for a session", self.delta)
        least = check_noise(str(self.least), "least")
        if check_noise(str(self.first), "first") < least:
            raise RequestInvalid("first", "must be at least `least`", self.first)
        bound = Fraction(parse(str(self.sensitivity), field="sensitivity")) / Fraction(least)
        if bound != Fraction(epsilon) and units_up(bound) != Fraction(epsilon) * UNIT:
            raise RequestInvalid("epsilon", "must be sensitivity / least", self.epsilon)

    @property
    def is_session(self) -> bool:
        """Whether it shows several answers, of which the last one sets the cost."""
        return self.least is not UNSET

    def offered(self) -> ExPost:
        """Return the same bound without the session's levels."""
        return ExPost(self.epsilon, self.delta)


class Interactive(ClaimFields, frozen=True, tag="interactive"):
    """A mechanism that answers several messages, all of which together obey one claim.

    The claim bounds the whole transcript, against every way to choose the messages, also by the
    answers of other mechanisms (docs/theory.md P12). It is charged in full where the mechanism
    is opened, and never settled for less.
    """

    claim: Claim

    def check(self) -> None:
        inner = self.claim
        if type(inner) not in _INTERACTIVE:
            rule = "an interactive mechanism must be claimed by one of "
            rule += ", ".join(str(kind.__struct_config__.tag) for kind in _INTERACTIVE)
            raise RequestInvalid("claim.type", rule, str(inner.__struct_config__.tag))
        _check_nested(inner, "claim")
        if isinstance(inner, ApproximateZcdp) and parse(inner.delta, field="delta"):
            rule = "of an interactive mechanism with a rho must be 0"
            raise RequestInvalid("claim.delta", rule, inner.delta)


class Repeat(ClaimFields, frozen=True, tag="repeat"):
    """The same claim `times` over, decided as one: 1 to 1,000,000."""

    claim: Claim
    times: Times
    knob = "times"

    def check(self) -> None:
        if not 1 <= self.times <= MAX_TIMES:
            raise RequestInvalid("times", f"must be between 1 and {MAX_TIMES}", self.times)
        _check_nested(self.claim, "claim")


class AllOf(ClaimFields, frozen=True, tag="all_of"):
    """A batch of 1 to 100 claims, granted or refused as one."""

    claims: tuple[Claim, ...]

    def check(self) -> None:
        if not 1 <= len(self.claims) <= MAX_CLAIMS:
            rule = f"must hold 1 to {MAX_CLAIMS} claims"
            raise RequestInvalid("claims", rule, f"{len(self.claims)} claims")
        for i, claim in enumerate(self.claims):
            _check_nested(claim, f"claims[{i}]")


def _check_nested(claim: Claim, field: str) -> None:
    try:
        claim.check()
    except RequestInvalid as error:
        raise error.under(field) from None


Claim = (
    Pure
    | Approximate
    | Probabilistic
    | RandomizedResponse
    | Zcdp
    | ApproximateZcdp
    | Gdp
    | BoundedRange
    | Laplace
    | Gaussian
    | SubsampledGaussian
    | Brownian
    | ExPost
    | Interactive
    | Repeat
    | AllOf
)

_NESTED: Final = (Repeat, AllOf)
ATOMS: Final[tuple[type[Any], ...]] = tuple(
    kind for kind in get_args(Claim) if kind not in (*_NESTED, Interactive)
)
"""Claims of single mechanisms, without those that are interactive."""
_INTERACTIVE: Final = (
    *(Pure, Approximate, RandomizedResponse, Zcdp, ApproximateZcdp),
    *(Gdp, Laplace, Gaussian, SubsampledGaussian),
)


def plain(claim: Claim) -> Claim:
    """Return what an interactive mechanism is claimed by; any other claim unchanged."""
    return claim.claim if isinstance(claim, Interactive) else claim


def atoms(claim: Claim, times: int = 1) -> Iterator[tuple[Claim, int]]:
    """Yield each single mechanism of a claim with the number of times it runs."""
    if isinstance(claim, Repeat):
        yield from atoms(claim.claim, times * claim.times)
    elif isinstance(claim, AllOf):
        for part in claim.claims:
            yield from atoms(part, times)
    else:
        yield claim, times


def depth(claim: Claim) -> int:
    """Return how deep batches nest: 0 for a single mechanism."""
    if isinstance(claim, Repeat):
        return 1 + depth(claim.claim)
    if isinstance(claim, AllOf):
        return 1 + max((depth(part) for part in claim.claims), default=0)
    return 0
