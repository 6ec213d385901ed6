"""Each sampler has its exact law, at ordinary and extreme scales, and no float in it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from accountant import noise
from accountant.noise import (
    GaussianRefinement,
    LaplaceReduction,
    choose,
    discrete_gaussian,
    discrete_laplace,
    rounded_normal,
)
from accountant.noise.bernoulli import bernoulli_exp, bernoulli_exp_quotient, geometric
from tests.accountant.noise import laws
from tests.accountant.noise.laws import bits_of, check_law
from tests.every_case import check_each
from tests.nightly import rounds

OPENS = ("accountant/noise/*.py",)

pytestmark = pytest.mark.timeout(1200)
DRAWS = rounds(30_000, 1_000_000)
TINY, HUGE = Fraction(1, 10**30), Fraction(10**30)


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2), TINY])
def test_exponential_probability(x: Fraction) -> None:
    bits = bits_of(1)
    drawn = (bernoulli_exp(x.numerator, x.denominator, bits) for _ in range(DRAWS // 5))
    check_law(drawn, {True: math.exp(-x), False: -math.expm1(-x)})


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (Fraction(1, 3), Fraction(2, 3)),
        (Fraction(3, 2), Fraction(22, 7)),
        (TINY / 4, TINY),
        (Fraction(1, 2), HUGE),
        (HUGE, HUGE),
    ],
)
def test_quotient_of_exponentials(x: Fraction, y: Fraction) -> None:
    bits = bits_of(2)
    p = math.expm1(-x) / math.expm1(-y)
    drawn = (bernoulli_exp_quotient(x, y, bits) for _ in range(DRAWS // 5))
    check_law(drawn, {True: p, False: 1 - p})


def test_geometric() -> None:
    bits, a = bits_of(3), math.exp(-3 / 7)
    law = {n: (1 - a) * a**n for n in range(60)}
    check_law((geometric(Fraction(7, 3), bits) for _ in range(DRAWS)), law)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 3)])
def test_discrete_laplace(scale: Fraction) -> None:
    bits = bits_of(4)
    law = {k: laws.laplace(float(scale), k) for k in range(-40, 41)}
    check_law((discrete_laplace(scale, bits) for _ in range(DRAWS)), law)


def test_discrete_laplace_of_an_extreme_scale() -> None:
    bits = bits_of(5)
    assert {discrete_laplace(TINY, bits) for _ in range(1000)} == {0}
    drawn = [discrete_laplace(HUGE, bits) for _ in range(DRAWS // 5)]
    # In quarters of a scale; at 0, one value of 1e30 is negligible.
    cells = {k: -math.expm1(-1 / 4) * math.exp(-max(k, -1 - k) / 4) / 2 for k in range(-40, 40)}
    check_law((math.floor(4 * each / HUGE) for each in drawn), cells)
    check_law((each % 64 for each in drawn), dict.fromkeys(range(64), 1 / 64))


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(2), Fraction(31, 3)])
def test_discrete_gaussian(variance: Fraction) -> None:
    bits = bits_of(11)
    law = {k: laws.discrete_gaussian(float(variance), k) for k in range(-30, 31)}
    check_law((discrete_gaussian(variance, bits) for _ in range(DRAWS)), law)


def test_discrete_gaussian_of_an_extreme_scale() -> None:
    bits = bits_of(12)
    assert {discrete_gaussian(TINY, bits) for _ in range(1000)} == {0}
    drawn = [discrete_gaussian(HUGE**2, bits) for _ in range(DRAWS // 5)]
    check_law((laws.normal_cell(Fraction(each), HUGE) for each in drawn), laws.normal_cells())
    check_law((each % 64 for each in drawn), dict.fromkeys(range(64), 1 / 64))


@pytest.mark.parametrize(
    ("center", "variance"),
    [
        (Fraction(0), Fraction(2)),
        (Fraction(1, 3), Fraction(1, 9)),
        (Fraction(-7, 4), Fraction(31, 3)),
    ],
)
def test_rounded_normal(center: Fraction, variance: Fraction) -> None:
    bits = bits_of(6)
    law = {k: laws.rounded(float(center), float(variance), k) for k in range(-30, 30)}
    check_law((rounded_normal(center, variance, bits) for _ in range(DRAWS)), law)


def test_rounded_normal_of_an_extreme_scale() -> None:
    bits, half = bits_of(7), Fraction(1, 2)
    # At a border between two integers the sign of the tiniest noise decides.
    border = [rounded_normal(half + TINY, TINY**2, bits) for _ in range(DRAWS // 5)]
    above = (1 + math.erf(1 / math.sqrt(2))) / 2
    check_law(border, {1: above, 0: 1 - above})
    drawn = [rounded_normal(HUGE + half, HUGE**2, bits) for _ in range(DRAWS // 5)]
    cells = (laws.normal_cell(each - HUGE, HUGE) for each in drawn)
    check_law(cells, laws.normal_cells())
    check_law((each % 64 for each in drawn), dict.fromkeys(range(64), 1 / 64))


def test_rounding_has_no_side() -> None:
    # Centers in the middle of two integers, on both sides of 0: neither is preferred.
    for center in (Fraction(1, 2), Fraction(-1, 2), Fraction(5, 2)):
        bits = bits_of(8)
        low = center - Fraction(1, 2)
        drawn = (rounded_normal(center, Fraction(1, 400), bits) for _ in range(DRAWS // 5))
        check_law(drawn, {int(low): 0.5, int(low) + 1: 0.5})


@pytest.mark.parametrize("scale", [Fraction(3, 2), Fraction(1, 2)])
def test_exponential_mechanism(scale: Fraction) -> None:
    bits, scores = bits_of(9), [3, -1, 0, 3, 2]
    weights = [math.exp(score / scale) for score in scores]
    law = {place: weight / sum(weights) for place, weight in enumerate(weights)}
    check_law((choose(scores, scale, bits) for _ in range(DRAWS)), law)


def test_exponential_mechanism_with_extreme_scores() -> None:
    bits = bits_of(10)
    drawn = (choose([-(10**30), 10**30], HUGE, bits) for _ in range(DRAWS // 5))
    check_law(drawn, {0: 1 / (1 + math.exp(2)), 1: 1 / (1 + math.exp(-2))})
    assert {choose([0, 1, 0], TINY, bits) for _ in range(1000)} == {1}
    assert choose([-5], TINY, bits) == 0


def test_the_same_bits_give_the_same_noise() -> None:
    for seed in range(100):
        first, second = ([rounded_normal(0, 10**9, bits_of(seed))] for _ in range(2))
        assert first == second


def test_no_noise_is_an_error() -> None:
    def check_case(wrong: Callable[[object], object]) -> None:
        with pytest.raises(ValueError, match="must"):
            wrong(bits_of(1))

    check_each(
        check_case,
        [
            lambda bits: discrete_laplace(0, bits),
            lambda bits: discrete_laplace(Fraction(-1), bits),
            lambda bits: discrete_gaussian(0, bits),
            lambda bits: discrete_gaussian(Fraction(-1), bits),
            lambda bits: rounded_normal(5, 0, bits),
            lambda bits: rounded_normal(5, -1, bits),
            lambda bits: choose([], 1, bits),
            lambda bits: choose([1, 2], 0, bits),
            lambda bits: LaplaceReduction(5, [], bits),
            lambda bits: LaplaceReduction(5, ["1", "0"], bits),
            lambda bits: LaplaceReduction(5, ["2", "1"], bits).draw("3"),
            lambda bits: GaussianRefinement(5, bits).draw("0"),
            lambda bits: GaussianRefinement(5, bits).draw("-1"),
        ],
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda bits: discrete_laplace(17.25, bits),
        lambda bits: discrete_gaussian(17.25, bits),
        lambda bits: rounded_normal(17.25, 1, bits),
        lambda bits: choose([17.25], 1, bits),
        lambda bits: LaplaceReduction(17.25, ["1"], bits),
        lambda bits: GaussianRefinement(17.25, bits),
        lambda bits: GaussianRefinement(np.float64(17.25), bits),
    ],
)
def test_a_float_is_refused_without_its_value(wrong: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as error:
        wrong(bits_of(1))
    assert "17" not in str(error.value)


def test_integers_of_a_fixed_width_do_not_overflow() -> None:
    large, variance = 2**40 + 1, Fraction(2**80 + 1, 3)
    pairs = [
        (lambda value: GaussianRefinement(value, bits_of(1)).draw(variance), large),
        (lambda value: LaplaceReduction(value, [HUGE], bits_of(1)).draw(HUGE), large),
        (lambda value: rounded_normal(Fraction(1, 3), value, bits_of(1)), 2**62 + 1),
        (lambda value: discrete_laplace(value, bits_of(1)), 2**62 + 1),
        (lambda value: discrete_gaussian(value, bits_of(1)), 2**62 + 1),
        (lambda value: choose([value, -value], HUGE, bits_of(1)), 2**62 + 1),
    ]
    for draw, value in pairs:
        drawn = draw(np.int64(value))
        assert drawn == draw(value)
        assert type(drawn) in {int, Fraction}


def test_no_float_is_in_the_code() -> None:
    for file in Path(noise.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Constant(value=float() | complex()):
                    pytest.fail(f"{file}:{node.lineno} has a float")
                case ast.Name(id="float" | "round" | "random" | "numpy"):
                    pytest.fail(f"{file}:{node.lineno} uses {node.id}")
                case ast.Attribute(value=ast.Name(id="math"), attr=attr):
                    assert attr in {"ceil", "isqrt"}, f"{file}:{node.lineno}"
