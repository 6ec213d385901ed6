"""Mironov's attack finds floating-point noise, and finds nothing in ours.

A game draws a secret value, 0 or 1, adds noise and lets an attacker guess the value. Under epsilon
no guess is right with more than exp(epsilon) / (1 + exp(epsilon)). Source: Mironov 2012.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest

from accountant.noise import (
    GaussianRefinement,
    LaplaceReduction,
    discrete_gaussian,
    discrete_laplace,
    rounded_normal,
)
from tests.accountant.noise.laws import bits_of
from tests.nightly import rounds

GAMES = rounds(4_000, 100_000)
SCALE = 10
LARGE = 2**70
Answer = Callable[[int], float | Fraction]


def textbook_laplace(scale: int) -> Answer:
    """Return an answer with the noise that textbooks draw: the logarithm of a float."""
    generator = random.Random(1)

    def answer(value: int) -> float:
        sign = generator.choice((-1, 1))
        return value + sign * scale * math.log(1 - generator.random())

    return answer


def textbook_rounded(scale: int) -> Answer:
    """Return the same, rounded to an integer."""
    answer = textbook_laplace(scale)
    return lambda value: value + round(answer(0))


def textbook_normal(scale: int) -> Answer:
    generator = random.Random(1)
    return lambda value: value + round(generator.gauss(0, scale))


def is_attainable(answer: float, value: int) -> bool:
    """Tell whether the textbook's noise can give exactly this answer for the value."""
    sign = -1 if answer > value else 1
    near = round(math.exp(-abs(answer - value) / SCALE) * 2**53)
    uniforms = (each for each in range(near - 8, near + 9) if 0 < each <= 2**53)
    return any(value + sign * SCALE * math.log(each / 2**53) == answer for each in uniforms)


def guess_by_attainable_answers(answer: float | Fraction) -> int:
    possible = [value for value in (0, 1) if is_attainable(float(answer), value)]
    return possible[0] if len(possible) == 1 else int(answer > 0.5)


def guess_by_the_last_digit(answer: float | Fraction) -> int:
    """Guess that large noise is even, as all large floats are."""
    return int(answer) % 2


def right_guesses(answer: Answer, guess: Callable[[float | Fraction], int]) -> float:
    secrets = random.Random(2)
    right = 0
    for _ in range(GAMES):
        value = secrets.getrandbits(1)
        right += guess(answer(value)) == value
    return right / GAMES


def most_right_guesses(epsilon: float) -> float:
    """Return the bound, with six standard deviations for chance."""
    return 1 / (1 + math.exp(-epsilon)) + 3 / math.sqrt(GAMES)


def ours(scale: int, seed: int = 3) -> dict[str, Answer]:
    """Return answers with noise of about this scale."""
    bits, variance = bits_of(seed), Fraction(scale) ** 2
    levels = (Fraction(4 * scale), Fraction(scale))

    def refined(value: int) -> Fraction:
        session = GaussianRefinement(value, bits)
        first = session.draw(4 * variance)
        # What the finer level adds; the weights are public.
        return (session.draw(variance) - first / 4) * Fraction(4, 3)

    return {
        "discrete_laplace": lambda value: Fraction(value + discrete_laplace(levels[1], bits)),
        "discrete_gaussian": lambda value: Fraction(value + discrete_gaussian(variance, bits)),
        "rounded_normal": lambda value: Fraction(rounded_normal(Fraction(value), variance, bits)),
        "reduction": lambda value: LaplaceReduction(value, levels, bits).draw(levels[1]),
        "reduction_coarse": lambda value: LaplaceReduction(value, levels, bits).draw(levels[0]),
        "refinement": refined,
    }


NAMES = tuple(ours(SCALE))


def test_the_attack_finds_floating_point_noise() -> None:
    found = right_guesses(textbook_laplace(SCALE), guess_by_attainable_answers)
    assert found > most_right_guesses(1 / SCALE) + 0.1
    for planted in (textbook_rounded, textbook_normal):
        assert right_guesses(planted(LARGE), guess_by_the_last_digit) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_attack_finds_nothing_in_exact_noise(name: str) -> None:
    found = right_guesses(ours(SCALE)[name], guess_by_attainable_answers)
    assert found <= most_right_guesses(1 / SCALE)


@pytest.mark.parametrize("name", NAMES)
def test_the_last_digit_of_large_exact_noise_says_nothing(name: str) -> None:
    found = right_guesses(ours(LARGE)[name], guess_by_the_last_digit)
    assert abs(found - 1 / 2) <= 3 / math.sqrt(GAMES)
