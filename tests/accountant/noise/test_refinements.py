"""Answers of several levels have the exact joint law: no level draws fresh noise."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from accountant.noise import GaussianRefinement, LaplaceReduction
from tests.accountant.noise import laws
from tests.accountant.noise.laws import bits_of, check_law
from tests.nightly import rounds

pytestmark = pytest.mark.timeout(1200)
DRAWS = rounds(30_000, 1_000_000)
NEAR = range(-12, 13)


def test_a_coarser_noise_that_stays_or_adds_has_exactly_its_own_law() -> None:
    for small, large in ((1.0, 3.0), (0.3, 0.4), (5.0, 50.0)):
        w = laws.stays(small, large)
        for k in range(6):
            added = math.fsum(
                laws.laplace(small, j) * laws.laplace(large, k - j) for j in range(-900, 901)
            )
            mixed = w * laws.laplace(small, k) + (1 - w) * added
            assert mixed == pytest.approx(laws.laplace(large, k), rel=1e-12)


@pytest.mark.parametrize(
    ("small", "large", "draws"), [("1", "3", DRAWS), ("0.5", "2/3", DRAWS // 5)]
)
def test_joint_law_of_two_scales(small: str, large: str, draws: int) -> None:
    bits = bits_of(1)
    fine, coarse = float(Fraction(small)), float(Fraction(large))
    w = laws.stays(fine, coarse)
    law = {
        (j, k): laws.laplace(fine, j) * ((j == k) * w + (1 - w) * laws.laplace(coarse, k - j))
        for j, k in product(NEAR, NEAR)
    }
    drawn = [LaplaceReduction(100, (large, small), bits) for _ in range(draws)]
    pairs = [(int(each.draw(small)) - 100, int(each.draw(large)) - 100) for each in drawn]
    check_law(pairs, law)


def test_each_of_three_scales_has_its_own_law_and_the_last_step_knows_the_middle_alone() -> None:
    bits, scales = bits_of(2), ("5", "3", "1")
    drawn = [LaplaceReduction(0, scales, bits) for _ in range(DRAWS // 5)]
    for scale in scales:
        law = {k: laws.laplace(float(scale), k) for k in range(-60, 61)}
        check_law((each.draw(scale) for each in drawn), law)
    w = laws.stays(3, 5)
    steps = {k: (k == 0) * w + (1 - w) * laws.laplace(5, k) for k in range(-60, 61)}
    for finest in (0, 1, -2):
        some = [each for each in drawn if each.draw("1") == finest]
        check_law((each.draw("5") - each.draw("3") for each in some), steps)


def test_scales_of_any_size_reduce() -> None:
    scales = ["1e30", "1e29", "1", "1e-30"]
    bits = bits_of(3)
    drawn = [LaplaceReduction(7, scales, bits) for _ in range(DRAWS // 20)]
    assert {each.draw("1e-30") for each in drawn} == {7}
    law = {k + 7: laws.laplace(1, k) for k in range(-30, 31)}
    check_law((each.draw("1") for each in drawn), law)
    same = Counter(each.draw("1e30") == each.draw("1e29") for each in drawn)
    # (s/b)^2, the limit of w for large scales.
    check_law(same.elements(), {True: 0.01, False: 0.99})


def test_a_scale_is_drawn_once() -> None:
    bits = bits_of(4)
    for _ in range(200):
        session = LaplaceReduction(0, ("9", "4", "2"), bits)
        answers = [session.draw(scale) for scale in ("9", "4", "2", "2.0", "4", "9")]
        assert answers == answers[::-1]


def test_a_grid_of_any_step() -> None:
    bits, step = bits_of(5), Fraction(5, 2)
    drawn = [LaplaceReduction(4, ("5",), bits, step=step).draw("5") for _ in range(DRAWS // 5)]
    check_law(drawn, {(4 + k) * step: laws.laplace(2, k) for k in range(-40, 41)})
    center = Fraction(7, 3)
    shown = [GaussianRefinement(center, bits, step=step).draw("10") for _ in range(DRAWS // 5)]
    law = {k * step: laws.rounded(float(center / step), 1.6, k) for k in range(-20, 21)}
    check_law(shown, law)


def test_gaussian_levels_add_independent_rounded_normals() -> None:
    bits, center = bits_of(6), Fraction(1, 3)
    pairs = []
    for _ in range(DRAWS):
        session = GaussianRefinement(center, bits)
        first, second = session.draw("4"), session.draw("1")
        added = (second - first / 4) * Fraction(4, 3)  # Y_2 = X_1/4 + 3 X_2/4
        assert first.denominator == added.denominator == 1
        pairs.append((int(first), int(added)))
    law = {
        (j, k): laws.rounded(1 / 3, 4, j) * laws.rounded(1 / 3, 4 / 3, k)
        for j, k in product(NEAR, NEAR)
    }
    check_law(pairs, law)


def test_gaussian_levels_of_any_size() -> None:
    bits, center = bits_of(7), Fraction(1, 2)
    tiny = Fraction(1, 10**30)
    variances = ("1e60", "3e59", "2e59")
    shown = []
    for _ in range(DRAWS // 20):
        session = GaussianRefinement(center, bits)
        shown.append([session.draw(variance) for variance in variances][-1] - center)
    deviation = Fraction(math.isqrt(2 * 10**59))
    check_law((laws.normal_cell(each, deviation) for each in shown), laws.normal_cells())
    session = GaussianRefinement(center, bits, step=tiny)
    for variance in ("4e-60", "1e-60"):
        assert abs(session.draw(variance) - center) < 50 * tiny


def test_a_variance_that_does_not_fall_draws_nothing() -> None:
    session = GaussianRefinement(5, bits_of(8))
    session.draw("4")
    before = session.draw("2")
    for variance in ("2", "3", "1e30", "0", "-1"):
        with pytest.raises(ValueError, match=r"below the last, got"):
            session.draw(variance)
    other = GaussianRefinement(5, bits_of(8))
    assert [other.draw("4"), other.draw("2")][1] == before
    assert session.draw("1") == other.draw("1")
