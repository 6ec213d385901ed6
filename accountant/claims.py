"""What a mechanism may promise: the wire types of claims and the rules of their fields.

A claim is data. What it is worth in each definition of privacy is in `promises`.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

import msgspec

from accountant.amounts import parse, parse_in
from accountant.errors import RequestInvalid

LEAST_EPSILON: Final = Decimal("1e-12")
MOST_EPSILON: Final = Decimal("1e3")
LEAST_RHO: Final = Decimal("1e-25")
MOST_RHO: Final = Decimal("1e6")
MOST_TIMES: Final = 1_000_000
MOST_CLAIMS: Final = 100
MOST_DEPTH: Final = 3


class _Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of all claims.

    `knob` names the one field that an analyst turns to pay less; `knob_sign`
    is +1 where a larger value costs more, -1 where it costs less; `knob_is_power` says
    that the cost grows about as a power of it.
    """

    knob: ClassVar[str] = ""
    knob_sign: ClassVar[int] = 1
    knob_is_power: ClassVar[bool] = True

    def check(self) -> None:
        """Raise RequestInvalid, naming field, rule and value, if a field breaks its rule."""
        raise NotImplementedError


def _epsilon(text: str, field: str) -> Decimal:
    return parse_in(text, field=field, least=LEAST_EPSILON, most=MOST_EPSILON, zero=True)


def _rho(text: str, field: str) -> Decimal:
    return parse_in(text, field=field, least=LEAST_RHO, most=MOST_RHO, zero=True)


def check_delta(text: str, field: str) -> Decimal:
    """Return a probability in [0, 1).

    Raises: RequestInvalid: not a decimal below 1.
    """
    value = parse(text, field=field)
    if value >= 1:
        raise RequestInvalid(field, "must be less than 1", text)
    return value


def _noise(text: str, field: str) -> Decimal:
    value = parse(text, field=field)
    if not value:
        raise RequestInvalid(field, "must be greater than 0", text)
    return value


class Pure(_Claim, frozen=True, tag="pure"):
    """epsilon-DP, epsilon in nats: 0 or 1e-12 to 1e3."""

    epsilon: str
    knob = "epsilon"

    def check(self) -> None:
        _epsilon(self.epsilon, "epsilon")


class Approximate(_Claim, frozen=True, tag="approximate"):
    """(epsilon, delta)-DP."""

    epsilon: str
    delta: str
    knob = "epsilon"

    def check(self) -> None:
        _epsilon(self.epsilon, "epsilon")
        check_delta(self.delta, "delta")


class Probabilistic(Approximate, frozen=True, tag="probabilistic"):
    """(epsilon, delta)-pDP: the loss exceeds epsilon with probability at most delta."""


class RandomizedResponse(Approximate, frozen=True, tag="randomized_response"):
    """Randomized response RR_{epsilon, delta} (Rogers 2016 Def 2.6)."""

    delta: str = "0"


class Zcdp(_Claim, frozen=True, tag="zcdp"):
    """rho-zCDP, rho in nats: 0 or 1e-25 to 1e6."""

    rho: str
    knob = "rho"

    def check(self) -> None:
        _rho(self.rho, "rho")


class ApproximateZcdp(Zcdp, frozen=True, tag="approximate_zcdp"):
    """delta-approximate rho-zCDP (Whitehouse 2023 Def 10)."""

    delta: str

    def check(self) -> None:
        _rho(self.rho, "rho")
        check_delta(self.delta, "delta")


class Gdp(_Claim, frozen=True, tag="gdp"):
    """mu-Gaussian DP, mu: 0 or 1e-12 to 1e3."""

    mu: str
    knob = "mu"

    def check(self) -> None:
        _epsilon(self.mu, "mu")


class BoundedRange(_Claim, frozen=True, tag="bounded_range"):
    """eta-bounded range, eta in nats; the exponential mechanism has eta = epsilon."""

    eta: str
    knob = "eta"

    def check(self) -> None:
        _epsilon(self.eta, "eta")


class Laplace(_Claim, frozen=True, tag="laplace"):
    """Laplace noise of `scale`, for a query of l1 `sensitivity`; both in query units."""

    scale: str
    sensitivity: str
    knob = "scale"
    knob_sign = -1

    def check(self) -> None:
        scale = _noise(self.scale, "scale")
        epsilon = Fraction(parse(self.sensitivity, field="sensitivity")) / Fraction(scale)
        _check_result(epsilon, "sensitivity / scale", LEAST_EPSILON, MOST_EPSILON)


class Gaussian(_Claim, frozen=True, tag="gaussian"):
    """Gaussian noise of standard deviation `sigma`, for l2 `sensitivity`; in query units."""

    sigma: str
    sensitivity: str
    knob = "sigma"
    knob_sign = -1

    def check(self) -> None:
        sigma = _noise(self.sigma, "sigma")
        rho = Fraction(parse(self.sensitivity, field="sensitivity")) ** 2
        rho /= 2 * Fraction(sigma) ** 2
        _check_result(rho, "sensitivity^2 / (2 sigma^2)", LEAST_RHO, MOST_RHO)


def _check_result(value: Fraction, what: str, least: Decimal, most: Decimal) -> None:
    if value and not Fraction(least) <= value <= Fraction(most):
        raise RequestInvalid(
            what, f"must be 0 or between {least} and {most}", f"{float(value):.6g}"
        )


class Repeat(_Claim, frozen=True, tag="repeat"):
    """The same claim `times` over, decided as one: 1 to 1,000,000."""

    claim: Claim
    times: int
    knob = "times"

    def check(self) -> None:
        if not 1 <= self.times <= MOST_TIMES:
            raise RequestInvalid("times", f"must be between 1 and {MOST_TIMES}", self.times)
        _check_nested(self.claim, "claim")


class AllOf(_Claim, frozen=True, tag="all_of"):
    """A batch of 1 to 100 claims, granted or refused as one."""

    claims: tuple[Claim, ...]

    def check(self) -> None:
        if not 1 <= len(self.claims) <= MOST_CLAIMS:
            rule = f"must hold 1 to {MOST_CLAIMS} claims"
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
    | Repeat
    | AllOf
)

ATOMS: Final = (
    Pure,
    Approximate,
    Probabilistic,
    RandomizedResponse,
    Zcdp,
    ApproximateZcdp,
    Gdp,
    BoundedRange,
    Laplace,
    Gaussian,
)


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


class CheckedClaim:
    """A claim whose fields obey their rules, with a place to keep its prices.

    Equal claims share one instance while it is remembered, so what is computed from it
    is computed once.

    Attributes:
        mechanisms: how many mechanisms it holds.
        keys: how many JSON keys its fields took on the wire.
        prices: what it costs, by the sums asked for; filled by `totals.price`.
    """

    __slots__ = ("claim", "keys", "mechanisms", "prices")

    def __init__(self, claim: Claim) -> None:
        if depth(claim) > MOST_DEPTH:
            raise RequestInvalid("claim", f"must nest at most {MOST_DEPTH} deep", depth(claim))
        claim.check()
        self.claim = claim
        self.mechanisms = sum(times for _, times in atoms(claim))
        if self.mechanisms > 1_000_000_000:
            raise RequestInvalid("claim", "must hold at most 1e9 mechanisms", self.mechanisms)
        self.keys = _keys(claim)
        self.prices: dict[tuple[str, ...], object] = {}


def _keys(claim: Claim) -> int:
    """Return how many JSON keys a claim was written with, optional ones at their default aside."""
    if isinstance(claim, Repeat):
        return 3 + _keys(claim.claim)
    if isinstance(claim, AllOf):
        return 2 + sum(map(_keys, claim.claims))
    defaults: tuple[object, ...] = claim.__struct_defaults__
    fields = claim.__struct_fields__
    given = [getattr(claim, field) for field in fields[len(fields) - len(defaults) :]]
    at_default = [value for value, default in zip(given, defaults, strict=True) if value == default]
    return 1 + len(fields) - len(at_default)


def checked(claim: Claim) -> CheckedClaim:
    """Return the claim with its fields checked.

    Raises: RequestInvalid: a field breaks its rule.
    """
    # A batch may take 64 KiB, so batches are not kept: their parts' prices are.
    return CheckedClaim(claim) if _is_batch(claim) else _checked(claim)


@lru_cache(maxsize=16_384)
def _checked(claim: Claim) -> CheckedClaim:
    return CheckedClaim(claim)


def _is_batch(claim: Claim) -> bool:
    while isinstance(claim, Repeat):
        claim = claim.claim
    return isinstance(claim, AllOf)
