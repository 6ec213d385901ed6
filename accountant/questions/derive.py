"""From schema, question and noise to what runs and what it claims; nothing else is read.

A ledger and an auditor that have the three derive the same claim, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from msgspec import UNSET

from accountant.amounts import UNIT, format_units, units_down
from accountant.claims import AllOf, BoundedRange, Claim, Repeat, check_claim
from accountant.errors import RequestInvalid
from accountant.questions.draw import Draw
from accountant.questions.laws import is_session, law_of
from accountant.questions.noise import Noise, out_of_range
from accountant.questions.noise_wanted import check_noise_wanted
from accountant.questions.plan import plan_of, shows_its_draw
from accountant.questions.question import CheckedQuestion
from accountant.questions.sensitivity import SelectionStatistic, VectorStatistic

NO_ERROR_BEFORE: Final = "must be left out for a quotient, whose error depends on the data: "
SESSION_OF_ONE: Final = (
    "must be of one answer, not of a session: counts, sums and histograms have those"
)
NO_ERROR_OF_SEVERAL: Final = "must be left out for several statistics: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """Everything that a question runs.

    Attributes:
        draws: one for each exact statistic that the answer is computed from, by its plan.
        claim: what is charged for all of them together.
    """

    draws: tuple[Draw, ...]
    claim: Claim


def derive(checked: CheckedQuestion, noise: Noise) -> Derivation:
    """Return what a question runs with the noise wanted, and its claim.

    Raises: RequestInvalid: the question cannot have this noise, or no claim has the amount.
    """
    check_noise_wanted(noise)
    plan = plan_of(checked)
    shares = plan.shares(noise)
    statistics = [each.part.sensitivity(each.scope) for each in plan.parts]
    _check_form(checked, noise, statistics)
    draws = tuple(
        [
            _choose(each, noise, share)
            if isinstance(each, SelectionStatistic)
            else law_of(noise).derive(each, noise, share)
            for each, share in zip(statistics, shares, strict=True)
        ]
    )
    claims = [_claim_of(draw) for draw in draws]
    claim = claims[0] if len(claims) == 1 else AllOf(tuple(claims))
    try:
        check_claim(claim)
    except RequestInvalid as error:
        raise out_of_range(noise) from error
    return Derivation(draws=draws, claim=claim)


def _claim_of(draw: Draw) -> Claim:
    """Return the claim of a draw, with all the choices that follow one another."""
    if isinstance(draw.statistic, SelectionStatistic) and draw.statistic.times > 1:
        return Repeat(draw.claim, draw.statistic.times)
    return draw.claim


def _check_form(
    checked: CheckedQuestion,
    noise: Noise,
    statistics: Sequence[VectorStatistic | SelectionStatistic],
) -> None:
    """Refuse an error of values that are not the noisy numbers, and a law where there are none."""
    form = noise.form
    are_values = len(statistics) == 1 and shows_its_draw(checked)
    if not are_values and form in {"sigma", "error"}:
        rule = NO_ERROR_OF_SEVERAL if checked.each else NO_ERROR_BEFORE
        raise RequestInvalid(f"noise.{form}", rule + "write epsilon or rho", noise.text)
    if not are_values and is_session(noise):
        raise RequestInvalid("noise.law", SESSION_OF_ONE, str(noise.law))
    if any(isinstance(each, VectorStatistic) for each in statistics):
        return  # beside numbers a choice is by Gumbel noise, whatever their law is
    if form not in {"epsilon", "rho"}:
        rule = "must be left out for a choice of candidates: write epsilon or rho"
        raise RequestInvalid(f"noise.{form}", rule, noise.text)
    if noise.law is not UNSET:
        rule = "must be left out for a choice of candidates, which is by Gumbel noise"
        raise RequestInvalid("noise.law", rule, noise.law)


def _choose(statistic: SelectionStatistic, noise: Noise, part: Fraction) -> Draw:
    """Return an exponential mechanism of bounded range eta = range distance / scale."""
    share = Fraction(noise.amount) * part / statistic.times
    if noise.form == "rho":
        # The bounded range eta has rho = eta^2/8 (docs/theory.md section 1).
        units = math.isqrt(math.floor(8 * share * UNIT**2))
    else:
        units = units_down(share)
    claim = BoundedRange(eta=format_units(units))
    scale = statistic.range_distance * UNIT / units
    return Draw(statistic=statistic, law="gumbel", scale=scale, claim=claim)
