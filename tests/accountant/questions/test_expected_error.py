"""The error of a question before it is asked, against the law of its noise and its intervals."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import pytest

from accountant.errors import RequestInvalid
from accountant.questions import Schema, check_schema, derive, parse_question
from accountant.questions.draw_errors import noises_of
from accountant.questions.expected_error import check_guess, expected_errors
from accountant.questions.noise_wanted import parse_noise
from accountant.questions.schema import CategoryColumn, NumberColumn
from accountant.questions.statistics import EstimateQuestion
from tests.accountant.questions.schemas import SOURCE
from tests.every_case import check_rows

SCHEMA = check_schema(
    Schema(
        source=SOURCE,
        columns=(
            NumberColumn(name="age", lower="0", upper="120"),
            CategoryColumn(name="region", categories=("north", "south")),
        ),
        neighbours="add_remove",
    )
)
ROWS = 400


def errors_of(question: str, noise: str, guess: int | None = None) -> list[str | None]:
    found = expected_errors(parse_question(question, SCHEMA), parse_noise(noise), guess)
    return [each.error for each in found]


def test_numbers_have_the_error_of_their_noise() -> None:
    def check_row(question: str, noise: str, error: str) -> None:
        assert errors_of(question, noise) == [error]

    rows = (
        # 2 a^(m+1)/(1+a) <= 0.05 for a = e^-0.1: m = 29 has 0.0523, m = 30 has 0.0473.
        ("count", "epsilon: 0.1", "30"),
        ("count by region", "epsilon: 0.1", "30"),
        ("histogram(region)", "epsilon: 0.1", "30"),
        # 1.959964 sigma, less the half step that rounding brings back
        ("count", "sigma: 1000", "1960"),
        ("count", "error: 150 at 0.95", "150"),
        # 150 ln 20/ln 2, about: the error asked for is of another confidence
        ("count", "error: 150 at 0.5", "650"),
        # 1200 ln 20 = 3595, in three digits upward
        ("sum(age)", "epsilon: 0.1", "3600"),
    )
    check_rows(check_row, rows)


def test_a_quotient_needs_a_guess_and_a_choice_has_words() -> None:
    found = expected_errors(
        parse_question("count, mean(age), median(age)", SCHEMA), parse_noise("epsilon: 1")
    )
    assert [each.statistic for each in found] == ["count", "mean(age)", "quantile(age, 0.5)"]
    assert [each.error is None for each in found] == [False, True, True]
    assert "give a guess" in found[1].why
    # 3 ln(19 * 120) = 23.2, rounded down to half rows
    assert found[2].rank_error == "23"
    for guess in (0, -1, 10**12 + 1, True, 1.5, "1000", None):
        with pytest.raises(RequestInvalid, match="guess"):
            check_guess(guess)
    assert check_guess(10**12) == 10**12


@pytest.mark.parametrize("question", ["mean(age)", "variance(age)", "std(age)"])
def test_no_group_of_the_guessed_rows_has_a_larger_error(question: str) -> None:
    """Whatever the values are: an interval around them is as long as this error at most."""
    checked, noise = parse_question(question, SCHEMA), parse_noise("epsilon: 5")
    (expected,) = errors_of(question, "epsilon: 5", ROWS)
    assert expected is not None
    statistic, noises = checked.statistic, noises_of(derive(checked, noise).draws)
    assert isinstance(statistic, EstimateQuestion)
    chosen, worst = random.Random(7), Fraction(0)
    for _ in range(100):
        low, high = sorted(chosen.choices(range(121), k=2))
        group = [Fraction(chosen.randint(low, high)) for _ in range(ROWS)]
        exact = [part.exact(checked, [group])[0] for part in statistic.parts(checked)]
        value = statistic.value(checked.numbers, exact)
        ((least, most),) = statistic.intervals(
            checked.numbers, [exact], confidence=Decimal("0.95"), noises=noises
        )
        worst = max(worst, value - least, most - value)
    assert worst <= Fraction(expected)
    assert worst > Fraction(expected) / 2  # it is no wild bound


def test_no_mean_of_few_rows_has_a_larger_error() -> None:
    """The longest interval is of a group whose mean is not quite at a bound."""
    checked, noise = parse_question("mean(age)", SCHEMA), parse_noise("epsilon: 1")
    draws = derive(checked, noise).draws
    for rows in (12, 50):
        (expected,) = errors_of("mean(age)", "epsilon: 1", rows)
        assert expected is not None
        for mean in range(61):  # about the middle
            exact = [Fraction(rows), Fraction(rows * mean)]
            ((low, high),) = checked.statistic.intervals(  # type: ignore[attr-defined]
                checked.numbers, [exact], confidence=Decimal("0.95"), noises=noises_of(draws)
            )
            assert max(60 + mean - low, high - 60 - mean) <= Fraction(expected)
