"""Mechanisms with their noise and claims, from the error that an analyst accepts.

Noise is rounded down to 6 digits and checked, so each mechanism keeps the error; its claim states
the cost. The claims are those of ideal noise: a library that adds discrete Laplace or Gaussian
noise of the same scale can make them, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import partial
from statistics import NormalDist
from typing import Final

from accountant.amounts import below, parse, parse_part, precise
from accountant.claims import Claim, Gaussian, Laplace, RandomizedResponse, check_claim
from accountant.errors import RequestInvalid
from accountant.values_to_write import part_to_write

_DIGITS: Final = 6
_DOWN: Final = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
_UP: Final = Context(prec=_DIGITS, rounding=ROUND_CEILING)
_MAX_RESPONSE: Final = 30.0
"""The largest epsilon: there randomized response lies with probability 1e-13 only."""

_SAFER: Final = 1 - 1e-12
"""A factor that outweighs the rounding of the floats here, which are correct to 1e-14."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseChoice:
    """One mechanism that meets the wanted error.

    Attributes:
        mechanism: laplace, gaussian or randomized_response.
        noise: the parameters that its runner sets, in words with units.
        claim: the claim that it may make, its fields checked.
        typical_error: standard deviation of the answer's error, in the units of the error.
    """

    mechanism: str
    noise: str
    claim: Claim
    typical_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyTarget:
    """The accuracy that an analyst wants.

    Attributes:
        error: largest error, in query units, > 0; of a proportion, in (0, 1).
        confidence: probability of staying within the error, in (0, 1).
        sensitivity: the most that one unit can change the answer, in query units, > 0.
        people: number of people if the answer is a proportion of them, else None.
    """

    error: Decimal
    confidence: Decimal
    sensitivity: Decimal
    people: int | None = None


def accuracy_target(
    *, error: str, confidence: str, sensitivity: str | None, people: int | None
) -> AccuracyTarget:
    """Return the wanted accuracy, each field checked.

    Raises: RequestInvalid: a field breaks its rule.
    """
    is_part = people is not None
    maximum = (parse_part if is_part else parse)(error, field="error")
    sure = parse_part(confidence, field="confidence")
    if not maximum:
        raise RequestInvalid("error", "must be greater than 0", error)
    if not 0 < sure < 1:
        rule = "must be between 0 and 1, such as 0.95"
        hint = partial(part_to_write, confidence)
        raise RequestInvalid("confidence", rule, confidence, hint=hint)
    if people is not None and maximum >= 1:
        hint = partial(part_to_write, error)
        raise RequestInvalid(
            "error", "must be below 1, being one of a proportion", error, hint=hint
        )
    if sensitivity is None:
        if people is None:
            raise RequestInvalid("sensitivity", "must be given, or --proportion-of", None)
        sensitivity = "1"  # the sensitivity of the count behind the proportion
    change = parse(sensitivity, field="sensitivity")
    if not change:
        raise RequestInvalid("sensitivity", "must be greater than 0", sensitivity)
    return AccuracyTarget(error=maximum, confidence=sure, sensitivity=change, people=people)


def choices(wish: AccuracyTarget) -> tuple[NoiseChoice, ...]:
    """Return the mechanisms that meet the error, Laplace and Gaussian first.

    Raises: RequestInvalid: the noise for this error is outside the range of its claim.
    """
    scale = Decimal(1) if wish.people is None else Decimal(wish.people)
    found = [_laplace(wish, scale), _gaussian(wish, scale)]
    if wish.people is not None:
        response = _randomized_response(wish, wish.people)
        if response is not None:
            found.append(response)
    for choice in found:
        _check(choice, wish)
    return tuple(found)


def _check(choice: NoiseChoice, wish: AccuracyTarget) -> None:
    """Raise RequestInvalid, naming the wanted accuracy, if the noise is out of a claim's range."""
    try:
        check_claim(choice.claim)
    except RequestInvalid as error:
        small = choice.typical_error * (wish.people or 1) < wish.sensitivity
        of = f"sensitivity {plain(wish.sensitivity)} at confidence {plain(wish.confidence)}"
        if wish.people is not None:
            of += f" and {wish.people} people"
        rule = f"is too {'small' if small else 'large'} for {of}"
        raise RequestInvalid("error", rule, plain(wish.error)) from error


def laplace_scale(*, error: Decimal, confidence: Decimal) -> Decimal:
    """Return the largest scale b with P(|Laplace(b)| > error) <= 1 - confidence, rounded down.

    The probability is e^(-error/b), so b = error / ln(1/(1 - confidence)).
    """
    with precise():
        scale = below(error / -(1 - confidence).ln(), digits=30)
    return _DOWN.plus(scale)


def gaussian_sigma(*, error: Decimal, confidence: Decimal) -> Decimal:
    """Return the largest sigma with P(|N(0, sigma^2)| > error) <= 1 - confidence, rounded down.

    Raises: RequestInvalid: the confidence is so close to 0 or 1 that no float holds the quantile.
    """
    allowed = float(1 - confidence) * _SAFER
    if not 1e-300 < allowed < _SAFER:
        rule = "must be between 1e-12 and 1 - 1e-300 for Gaussian noise"
        raise RequestInvalid("confidence", rule, str(confidence))
    quantile = -NormalDist().inv_cdf(allowed / 2)
    sigma = _DOWN.divide(error, Decimal(quantile))
    # The quantile is correct to about 1e-15 and rounding subtracts at most 1e-6, so the loop goes
    # down one step at most.
    while math.erfc(float(error / sigma) / math.sqrt(2) * _SAFER) > allowed:
        sigma = _DOWN.next_minus(sigma)
    return sigma


def response_error(*, epsilon: float, confidence: Decimal, people: int) -> float:
    """Return an error that a proportion by randomized response keeps with `confidence`.

    Each of n people answers truly with probability p = e^eps/(1 + e^eps), and the estimate
    divides by 2p - 1 = tanh(eps/2). The answers are independent, within an interval of length
    1, of variance p(1-p). The result is the smaller of Hoeffding's and Bernstein's bounds, which
    hold for any true answers. It decreases with epsilon.
    """
    truth = 1 / (1 + math.exp(-epsilon))
    log = math.log(2) - float((1 - confidence).ln())
    hoeffding = math.sqrt(people * log / 2)
    moved = log * truth / 3
    variance = people * truth * (1 - truth)
    bernstein = moved + math.sqrt(moved**2 + 2 * log * variance)
    return min(hoeffding, bernstein) / (people * math.tanh(epsilon / 2)) / _SAFER


def response_epsilon(*, error: Decimal, confidence: Decimal, people: int) -> Decimal | None:
    """Return epsilon of randomized response for a proportion, rounded up; None if none suffices."""
    maximum = float(error) * _SAFER

    def keeps(epsilon: float) -> bool:
        return response_error(epsilon=epsilon, confidence=confidence, people=people) <= maximum

    low, high = 1e-9, _MAX_RESPONSE
    if not keeps(high):
        return None
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return _UP.create_decimal_from_float(high)


def _laplace(wish: AccuracyTarget, scale: Decimal) -> NoiseChoice:
    noise = laplace_scale(error=wish.error * scale, confidence=wish.confidence)
    return NoiseChoice(
        mechanism="laplace",
        noise=f"scale {plain(noise)}",
        claim=Laplace(scale=plain(noise), sensitivity=plain(wish.sensitivity)),
        typical_error=math.sqrt(2) * float(noise / scale),
    )


def _gaussian(wish: AccuracyTarget, scale: Decimal) -> NoiseChoice:
    noise = gaussian_sigma(error=wish.error * scale, confidence=wish.confidence)
    return NoiseChoice(
        mechanism="gaussian",
        noise=f"sigma {plain(noise)}",
        claim=Gaussian(sigma=plain(noise), sensitivity=plain(wish.sensitivity)),
        typical_error=float(noise / scale),
    )


def _randomized_response(wish: AccuracyTarget, people: int) -> NoiseChoice | None:
    epsilon = response_epsilon(error=wish.error, confidence=wish.confidence, people=people)
    if epsilon is None:
        return None
    half = float(epsilon) / 2
    # The variance of one answer is p(1-p), and sqrt(p(1-p))/(2p-1) = 1/(2 sinh(eps/2)).
    deviation = 1 / (2 * math.sinh(half) * math.sqrt(people))
    return NoiseChoice(
        mechanism="randomized_response",
        noise=f"truth with {1 / (1 + math.exp(-2 * half)):.6g}",
        claim=RandomizedResponse(epsilon=plain(epsilon)),
        typical_error=deviation,
    )


def plain(value: Decimal) -> str:
    """Return a decimal in the form of a claim's field."""
    text = f"{value.normalize():f}"
    return text if len(text) <= 20 else f"{value.normalize():e}".replace("e+", "e")
