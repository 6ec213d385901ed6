"""From schema, question and noise to what runs and what it claims; nothing else is read.

A ledger and an auditor that have the three derive the same claim, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from msgspec import UNSET

from accountant.amounts import UNIT, format_units, units_down, units_up
from accountant.claims import (
    AllOf,
    BoundedRange,
    Claim,
    Gaussian,
    Pure,
    Repeat,
    Zcdp,
    check_claim,
)
from accountant.errors import RequestInvalid
from accountant.questions.accuracy_first import gaussian_refinement, laplace_reduction, sqrt_up
from accountant.questions.error_at_confidence import (
    largest_rounded_sigma,
    least_gaussian_rho,
    least_laplace_epsilon,
)
from accountant.questions.noise import FORMS, Noise, NoiseLaw, check_noise_wanted
from accountant.questions.question import CheckedQuestion, statistics_of
from accountant.questions.sensitivity import SelectionStatistic, VectorStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One statistic with the noise that it gets, and the claim of that noise.

    Attributes:
        law: `gumbel` chooses a candidate by the exponential mechanism; `discrete_laplace` and
            `discrete_gaussian` are noise on the statistic's grid; `rounded_gaussian` is normal
            noise, rounded to it. `gaussian_refinement` and `laplace_reduction` are sessions.
        scale: of discrete Laplace and Gumbel noise, None for others; a session's finest.
        variance: of the Gaussian before it is rounded, or the parameter of the discrete one; a
            session's finest.
        first: of a session, its first and largest variance or scale; `levels_of` has them all.
        unit: of a session's claim, whose numbers are in units of it: 1, or the least power of ten
            in which none of them reaches 1e9. All other fields are in units of the answer.
        claim: of one draw; a selection makes `statistic.times`.
    """

    statistic: VectorStatistic | SelectionStatistic
    law: NoiseLaw | Literal["gumbel"]
    claim: Claim
    scale: Fraction | None = None
    variance: Fraction | None = None
    first: Fraction | None = None
    unit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """Everything that a question runs.

    Attributes:
        draws: one for each statistic that the answer is computed from.
        claim: what is charged for all of them together.
    """

    draws: tuple[Draw, ...]
    claim: Claim


def derive(checked: CheckedQuestion, noise: Noise) -> Derivation:
    """Return what a question runs with the noise wanted, and its claim.

    Raises: RequestInvalid: the question cannot have this noise, or no claim has the amount.
    """
    check_noise_wanted(noise)
    statistics = statistics_of(checked)
    draws: tuple[Draw, ...]
    if isinstance(statistics, SelectionStatistic):
        draws = (_choose(statistics, noise),)
        claim = (
            draws[0].claim if statistics.times == 1 else Repeat(draws[0].claim, statistics.times)
        )
    else:
        draws = tuple(_add_noise(each, noise, len(statistics)) for each in statistics)
        claim = draws[0].claim if len(draws) == 1 else AllOf(tuple(draw.claim for draw in draws))
    try:
        check_claim(claim)
    except RequestInvalid as error:
        raise _out_of_range(noise) from error
    return Derivation(draws=draws, claim=claim)


def _choose(statistic: SelectionStatistic, noise: Noise) -> Draw:
    """Return an exponential mechanism of bounded range eta = range distance / scale."""
    if noise.form not in {"epsilon", "rho"}:
        rule = "must be left out for a choice of candidates: write epsilon or rho"
        raise RequestInvalid(f"noise.{noise.form}", rule, noise.text)
    if noise.law is not UNSET:
        rule = "must be left out for a choice of candidates, which is by Gumbel noise"
        raise RequestInvalid("noise.law", rule, noise.law)
    share = Fraction(noise.amount) / statistic.times
    if noise.form == "rho":
        # The bounded range eta has rho = eta^2/8 (docs/theory.md section 1).
        units = math.isqrt(math.floor(8 * share * UNIT**2))
    else:
        units = units_down(share)
    claim = BoundedRange(eta=format_units(units))
    scale = statistic.range_distance * UNIT / units
    return Draw(statistic=statistic, law="gumbel", scale=scale, claim=claim)


def _add_noise(statistic: VectorStatistic, noise: Noise, parts: int) -> Draw:
    """Return the noise of one of `parts` statistics, which share an epsilon or a rho equally."""
    form = noise.form
    if parts > 1 and form in {"sigma", "error"}:
        rule = "must be left out for a quotient, whose error depends on the data: "
        raise RequestInvalid(f"noise.{form}", rule + "write epsilon or rho", noise.text)
    law = FORMS[form][0] if noise.law is UNSET else noise.law
    if noise.is_session:
        return _session(statistic, noise, parts)
    if law == "discrete_laplace":
        return _discrete_laplace(statistic, noise, parts)
    if law == "discrete_gaussian":
        return _discrete_gaussian(statistic, noise, parts)
    return _rounded_gaussian(statistic, noise, parts)


def _session(statistic: VectorStatistic, noise: Noise, parts: int) -> Draw:
    if parts > 1:
        rule = "must be of one answer, not of a session: counts, sums and histograms have those"
        raise RequestInvalid("noise.law", rule, str(noise.law))
    law: Literal["gaussian_refinement", "laplace_reduction"]
    if noise.law == "gaussian_refinement":
        law, session = noise.law, gaussian_refinement(statistic, noise)
    else:
        law, session = "laplace_reduction", laplace_reduction(statistic, noise)
    if session is None:
        raise _out_of_range(noise)
    is_gaussian = law == "gaussian_refinement"
    return Draw(
        statistic=statistic,
        law=law,
        claim=session.claim,
        scale=None if is_gaussian else session.finest,
        variance=session.finest if is_gaussian else None,
        first=session.first,
        unit=session.unit,
    )


def _discrete_laplace(statistic: VectorStatistic, noise: Noise, parts: int) -> Draw:
    # On the grid |loss| <= l1/scale. Where l1 is one step it is randomized response, which costs
    # more than continuous Laplace noise: the claim is `pure`, never `laplace`.
    if noise.form == "error":
        found = least_laplace_epsilon(
            error=Fraction(noise.amount),
            confidence=Decimal(str(noise.confidence)),
            grid=statistic.grid,
            l1=statistic.l1,
        )
        units = _units_of(found, noise)
    else:
        units = units_down(Fraction(noise.amount) / parts)
    claim = Pure(epsilon=format_units(units))
    scale = statistic.l1 * UNIT / units
    return Draw(statistic=statistic, law="discrete_laplace", scale=scale, claim=claim)


def _discrete_gaussian(statistic: VectorStatistic, noise: Noise, parts: int) -> Draw:
    # rho = l2^2/(2 variance) (Canonne, Kamath and Steinke 2020). No Gaussian of that rho dominates
    # it, so the claim is `zcdp`, never `gaussian` or `gdp`.
    if noise.form == "sigma":
        variance = Fraction(noise.amount) ** 2
        units = units_up(statistic.l2_squared / (2 * variance))
    else:
        if noise.form == "error":
            found = least_gaussian_rho(
                error=Fraction(noise.amount),
                confidence=Decimal(str(noise.confidence)),
                grid=statistic.grid,
                l2_squared=statistic.l2_squared,
            )
            units = _units_of(found, noise)
        else:
            units = units_down(Fraction(noise.amount) / parts)
        variance = statistic.l2_squared * UNIT / (2 * units)
    claim = Zcdp(rho=format_units(units))
    return Draw(statistic=statistic, law="discrete_gaussian", variance=variance, claim=claim)


def _rounded_gaussian(statistic: VectorStatistic, noise: Noise, parts: int) -> Draw:
    # Rounding is post-processing of a Gaussian mechanism.
    sensitivity = sqrt_up(statistic.l2_squared)
    if noise.form == "rho":
        share = Fraction(noise.amount) / parts
        sigma = sqrt_up(Fraction(sensitivity, UNIT) ** 2 / (2 * share))
    elif noise.form == "error":
        found = largest_rounded_sigma(
            error=Fraction(noise.amount),
            confidence=Decimal(str(noise.confidence)),
            grid=statistic.grid,
        )
        sigma = _units_of(found, noise)
    else:
        sigma = units_down(noise.amount)
    claim = Gaussian(sigma=format_units(sigma), sensitivity=format_units(sensitivity))
    variance = Fraction(sigma, UNIT) ** 2
    return Draw(statistic=statistic, law="rounded_gaussian", variance=variance, claim=claim)


def _units_of(found: Decimal | None, noise: Noise) -> int:
    if found is None:
        raise _out_of_range(noise)
    return units_down(found)


def _out_of_range(noise: Noise) -> RequestInvalid:
    rule = "must leave the claim of this question in its range: it is too small or too large"
    return RequestInvalid(f"noise.{noise.form}", rule, noise.text)
