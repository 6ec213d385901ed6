"""Each bit counts once, whatever the pieces that a source hands out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable
from fractions import Fraction

import pytest

from accountant.noise import (
    GaussianRefinement,
    LaplaceReduction,
    RandomBits,
    choose,
    discrete_laplace,
    rounded_normal,
)
from accountant.noise.bernoulli import bernoulli, bernoulli_exp, bernoulli_exp_quotient
from accountant.noise.bits import Uniform, uniform_below
from accountant.noise.laplace_reduction import stays
from tests.accountant.noise import laws

THIRD = Fraction(1, 3)


@pytest.mark.parametrize(
    ("draw", "law", "most", "open_at_most"),
    [
        (lambda bits: uniform_below(5, bits), dict.fromkeys(range(5), 0.2), 15, 0.01),
        (lambda bits: bernoulli(2, 7, bits), {True: 2 / 7}, 14, 1e-4),
        (lambda bits: Uniform(bits).is_below(Uniform(bits)), {True: 0.5}, 14, 0.01),
        (lambda bits: bernoulli_exp(1, 3, bits), {True: math.exp(-1 / 3)}, 14, 0.003),
        (lambda bits: bernoulli_exp(5, 2, bits), {True: math.exp(-2.5)}, 15, 0.02),
        (
            lambda bits: bernoulli_exp_quotient(THIRD, 2 * THIRD, bits),
            {True: math.expm1(-1 / 3) / math.expm1(-2 / 3)},
            17,
            0.15,
        ),
        (lambda bits: stays(Fraction(1), Fraction(2), bits), {True: laws.stays(1, 2)}, 17, 0.25),
        (
            lambda bits: discrete_laplace(THIRD, bits),
            {k: laws.laplace(1 / 3, k) for k in (-1, 0, 1)},
            17,
            0.15,
        ),
        (
            lambda bits: choose([1, 0], Fraction(1), bits),
            {0: 1 / (1 + math.exp(-1)), 1: 1 / (1 + math.e)},
            15,
            0.02,
        ),
        (
            lambda bits: rounded_normal(Fraction(0), Fraction(1, 4), bits),
            {k: laws.rounded(0, 0.25, k) for k in (-1, 0, 1)},
            16,
            0.6,
        ),
    ],
)
def test_every_sequence_of_bits_together_has_the_exact_law(
    draw: Callable[[RandomBits], Hashable],
    law: dict[Hashable, float],
    most: int,
    open_at_most: float,
) -> None:
    decided, undecided = laws.law_over_all_bits(draw, most)
    assert undecided < open_at_most
    for value, p in law.items():
        assert decided[value] <= p + 1e-12, value
        assert p - 1e-12 <= decided[value] + undecided, value


DRAWN: list[Callable[[RandomBits], object]] = [
    lambda bits: discrete_laplace(Fraction(50, 3), bits),
    lambda bits: rounded_normal(THIRD, Fraction(10) ** 60, bits),
    lambda bits: [LaplaceReduction(7, ("20", "3"), bits).draw(scale) for scale in ("20", "3")],
    lambda bits: [refined.draw(t) for refined in [GaussianRefinement(7, bits)] for t in ("9", "2")],
    lambda bits: choose([3, 1, 4, 1, 5], Fraction(2), bits),
]


def source_in_pieces(whole: str, piece: int) -> RandomBits:
    """Return a source of these bits that itself gets them in pieces of this size."""
    waiting, place = "", 0

    def bits(n: int) -> int:
        nonlocal waiting, place
        while len(waiting) < n:
            waiting += whole[place : place + piece]
            place += piece
        drawn, waiting = waiting[:n], waiting[n:]
        return int(drawn, 2)

    return bits


@pytest.mark.parametrize("draw", DRAWN)
def test_the_pieces_of_a_source_do_not_matter(draw: Callable[[RandomBits], object]) -> None:
    for seed in range(50):
        whole = f"{random.Random(seed).getrandbits(20_000):020000b}"
        assert len({str(draw(source_in_pieces(whole, piece))) for piece in (1, 7, 64, 999)}) == 1


def test_how_many_digits_are_drawn_at_once_does_not_matter() -> None:
    for seed in range(200):
        at_once, one_by_one = (Uniform(laws.bits_of(seed)) for _ in range(2))
        digits = f"{random.Random(seed + 1).getrandbits(64):064b}"
        at_once, one_by_one = (Uniform(source_in_pieces(digits, 8)) for _ in range(2))
        at_once.extend(40)
        ratios = [(n, 97) for n in range(98)]
        assert [at_once.is_below_ratio(*each) for each in ratios] == [
            one_by_one.is_below_ratio(*each) for each in ratios
        ]
        assert one_by_one.length < at_once.length
        assert at_once.digits >> (40 - one_by_one.length) == one_by_one.digits


def test_a_source_is_asked_for_at_least_one_bit() -> None:
    asked = list[int]()

    def bits(n: int) -> int:
        asked.append(n)
        return source(n)

    source = laws.bits_of(1)
    for _ in range(200):
        for draw in DRAWN:
            draw(bits)
        choose([5], Fraction(1), bits)
    assert min(asked) == 1
