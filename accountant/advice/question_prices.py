"""One question at five prices: the error of each, and how many of it would be granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from accountant.amounts import CONTEXT
from accountant.errors import RequestInvalid
from accountant.field_rules import Amounts, Count
from accountant.questions.expected_error import expected_errors
from accountant.questions.noise import Noise
from accountant.questions.noise_wanted import noise_text
from accountant.questions.question import CheckedQuestion

FACTORS: Final = tuple(map(Decimal, ("0.25", "0.5", "1", "2", "4")))
"""Each price is twice the one before; the amount that is asked about is the middle."""


class QuestionPrice(msgspec.Struct, frozen=True, kw_only=True):
    """A question with another amount of noise.

    Attributes:
        noise: its text.
        cost: what a grant would add to each sum.
        errors: of each statistic, as in `expected_errors`; of a choice in rows.
        fits: how many such questions would be granted now, one after another; null if unlimited.
    """

    noise: str
    cost: Amounts
    errors: tuple[str | None, ...]
    fits: Count | None


class FittingNoise(NamedTuple):
    """What a question costs with some noise, and how many of it fit."""

    cost: dict[str, str]
    fits: int | None


def question_prices(
    checked: CheckedQuestion,
    noise: Noise,
    guess: int | None,
    fit: Callable[[Noise], FittingNoise | None],
) -> tuple[QuestionPrice, ...]:
    """Return a question at prices around the one asked about, the cheapest first.

    Args:
        guess: of the rows of each group.
        fit: decides the question with other noise; None where it has no price.
    """
    return tuple(_prices(checked, noise, guess, fit))


def _prices(
    checked: CheckedQuestion,
    noise: Noise,
    guess: int | None,
    fit: Callable[[Noise], FittingNoise | None],
) -> Iterator[QuestionPrice]:
    factors = FACTORS if noise.form in {"epsilon", "rho"} else FACTORS[::-1]
    for factor in factors:
        amount = CONTEXT.multiply(noise.amount, factor).normalize(CONTEXT)
        # The first level of a session need not fit another finest one, and costs nothing.
        other = msgspec.structs.replace(noise, **{noise.form: f"{amount:f}"}, first=UNSET)
        try:
            errors = expected_errors(checked, other, guess)
        except RequestInvalid:  # no claim has this amount
            continue
        fitting = fit(other)
        if fitting is not None:
            yield QuestionPrice(
                noise=noise_text(other),
                cost=fitting.cost,
                errors=tuple([each.amount for each in errors]),
                fits=fitting.fits,
            )
