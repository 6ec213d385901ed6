"""From schema, question and noise to what runs and what it claims; nothing else is read.

A ledger and an auditor that have the three derive the same claim, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from msgspec import UNSET

from accountant.amounts import UNIT, format_units, units_down
from accountant.claims import AllOf, BoundedRange, Claim, Repeat, check_claim
from accountant.errors import RequestInvalid
from accountant.questions.draw import Draw
from accountant.questions.laws import law_of
from accountant.questions.noise import Noise, out_of_range
from accountant.questions.noise_wanted import check_noise_wanted
from accountant.questions.question import CheckedQuestion, statistics_of
from accountant.questions.sensitivity import SelectionStatistic, VectorStatistic

NO_ERROR_BEFORE: Final = "must be left out for a quotient, whose error depends on the data: "


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
        raise out_of_range(noise) from error
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
        raise RequestInvalid(f"noise.{form}", NO_ERROR_BEFORE + "write epsilon or rho", noise.text)
    return law_of(noise).derive(statistic, noise, parts)
