"""The error of an answer before it is asked for: by schema, question and noise, never by data."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from numbers import Integral
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.errors import RequestInvalid
from accountant.questions.decimals import decimal_text
from accountant.questions.derive import derive
from accountant.questions.draw import Draw
from accountant.questions.draw_errors import CONFIDENCE, half_width, noises_of, rank_error
from accountant.questions.noise import Noise
from accountant.questions.parts import middle_of
from accountant.questions.plan import plan_of
from accountant.questions.question import CheckedQuestion
from accountant.questions.question_text import statistic_text
from accountant.questions.sensitivity import SelectionStatistic
from accountant.questions.statistics import EstimateQuestion, MeanQuestion

MAX_GUESS: Final = 10**12
_DIGITS: Final = 3


class ExpectedError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far an answer's values may be from the exact ones, each with a confidence of 0.95.

    Attributes:
        statistic: its text.
        error: of each value, in its units, rounded up to three digits; null where schema, question
            and noise do not say it. A session's is that of its finest level.
        why: what it depends on, where there is none.
        is_largest: it is that of the worst values of a group; others have a smaller one.
        rank_error: of a choice of candidates, how many rows it is at most from the best one.
    """

    statistic: str
    error: str | None
    why: str = ""
    is_largest: bool = False
    rank_error: str | UnsetType = UNSET

    @property
    def amount(self) -> str | None:
        """The error, or that in rows."""
        return self.error if self.rank_error is UNSET else self.rank_error


def check_guess(guess: object) -> int:
    """Return a guess of the rows of each group. Raises: RequestInvalid: it is out of range."""
    is_whole = isinstance(guess, Integral) and not isinstance(guess, bool)
    rows = int(guess) if is_whole else 0  # type: ignore[call-overload]
    if not 1 <= rows <= MAX_GUESS:
        rule = f"must be a whole number of rows between 1 and {MAX_GUESS}"
        raise RequestInvalid("guess", rule, guess)
    return rows


def expected_errors(
    checked: CheckedQuestion, noise: Noise, guess: int | None = None
) -> tuple[ExpectedError, ...]:
    """Return the error of each statistic of a question.

    Args:
        guess: of the rows of each group, which the error of a quotient depends on.
    Raises: RequestInvalid: the question cannot have this noise.
    """
    draws = derive(checked, noise).draws
    return tuple(
        [
            _expected(alone, [draws[i] for i in places], guess)
            for alone, places in zip(checked.alone, plan_of(checked).of_each, strict=True)
        ]
    )


def _expected(scope: CheckedQuestion, draws: Sequence[Draw], guess: int | None) -> ExpectedError:
    question, name = scope.statistic, statistic_text(scope.statistic)
    first = draws[0].statistic
    if isinstance(first, SelectionStatistic):
        most = rank_error(draws[0], Decimal(CONFIDENCE))
        return ExpectedError(statistic=name, error=None, rank_error=decimal_text(most))
    if not isinstance(question, EstimateQuestion):
        return ExpectedError(
            statistic=name, error=_digits(half_width(draws[0], Decimal(CONFIDENCE)))
        )
    rows = guess if scope.known_count is None else scope.known_count
    if rows is None:
        why = (
            "it depends on how many rows each group has: give a guess of them, such as "
            "--guess 1000, or guess=1000 in Python"
        )
        return ExpectedError(statistic=name, error=None, why=why)
    error = _digits(_of_estimate(scope, draws, rows))
    return ExpectedError(statistic=name, error=error, is_largest=True)


def _of_estimate(scope: CheckedQuestion, draws: Sequence[Draw], rows: int) -> Fraction:
    """Return the longer part of a quotient's interval, the largest over groups of that many rows.

    The interval is that around the exact parts. Of a mean no group has a longer one: the sum's
    noise less u times the count's keeps an error that grows with u, the distance from the middle.
    Of others it is the longest where half of the rows are at each of two of: the bounds and their
    middle.
    """
    question, column = scope.statistic, scope.numbers
    assert isinstance(question, EstimateQuestion), "others have their own numbers' error"
    parts, errors = question.parts(scope), list[Fraction]()
    noises, confidence = noises_of(draws, scope.known_count), Decimal(CONFIDENCE)
    if isinstance(question, MeanQuestion):
        (lower, upper), middle = column.bounds, middle_of(column)
        furthest = max(upper - middle, middle - lower)
        width = noises.half_width((furthest, Fraction(1)), confidence)
        return min(upper - lower, width / rows)
    places = (*column.bounds, middle_of(column))
    for pair in combinations_with_replacement(places, 2):
        # A part adds up what each row adds, so half of the rows are at each of the two.
        exact = [part.exact(scope, [pair])[0] * Fraction(rows, 2) for part in parts]
        value = question.value(column, exact)
        ((low, high),) = question.intervals(column, [exact], confidence=confidence, noises=noises)
        errors.append(max(value - low, high - value))
    return max(errors)


def _digits(error: Fraction) -> str:
    """Return an error rounded up to three digits."""
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING)
    rounded = context.divide(Decimal(error.numerator), Decimal(error.denominator))
    return f"{rounded.normalize():f}"
