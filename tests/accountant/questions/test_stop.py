"""When a session stops: the rule's form, its promise on drawn answers, and its fixed-noise cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import mpmath
import msgspec
import pytest

from accountant.claims import Gaussian, Pure
from accountant.errors import RequestInvalid
from accountant.noise import GaussianRefinement, LaplaceReduction
from accountant.questions import (
    Draw,
    Stop,
    VectorStatistic,
    check_stop,
    derive,
    fixed_noise_cost,
    half_width,
    levels_of,
    parse_noise,
    parse_question,
    parse_stop,
    stop_text,
    stops,
)
from accountant.questions.error_at_confidence import (
    confidence_of_each,
    laplace_half_width,
    refined_half_width,
)
from tests.accountant.noise.laws import bits_of
from tests.accountant.questions.schemas import CENSUS, small_schema
from tests.accountant.questions.test_noise import laplace_tail
from tests.every_case import check_each, check_rows
from tests.nightly import rounds

SCHEMA = small_schema(rows=1)


def draw_of(question: str, noise: str, schema: object = SCHEMA) -> Draw:
    (draw,) = derive(parse_question(question, schema), parse_noise(noise)).draws  # type: ignore[arg-type]
    return draw


class TestForm:
    def test_a_rule_that_is_none_is_refused(self) -> None:
        def check_case(stop: Stop, error: str) -> None:
            with pytest.raises(RequestInvalid) as raised:
                check_stop(stop)
            assert error in str(raised.value)

        check_rows(
            check_case,
            [
                (Stop(), "stop must be one of relative_error and error, got none of them"),
                (Stop(error="1", relative_error="1"), "got relative_error, error"),
                (Stop(error="0"), "stop.error must be greater than 0"),
                (Stop(error="-1"), "stop.error must be a plain decimal"),
                (Stop(relative_error="1.01"), "stop.relative_error must be at most 1, got 1.01"),
                (Stop(relative_error="10%"), "stop.relative_error must be a plain decimal"),
                (Stop(relative_error="10 %"), "got 10 %: write 0.1"),
                (Stop(relative_error="10"), "must be at most 1, got 10: write 0.1 for 10 %"),
                (Stop(error="1", confidence="95"), "got 95: write 0.95 for 95 %"),
                (Stop(error="1", confidence="0.4"), "stop.confidence must be between 0.5 and"),
                (Stop(error="1", confidence="1"), "stop.confidence must be between 0.5 and"),
            ],
        )

    @pytest.mark.parametrize(
        ("text", "hint"), [("0.1", ""), ("relative_eror: 0.1", "did you mean relative_error?")]
    )
    def test_a_text_of_another_form_is_refused(self, text: str, hint: str) -> None:
        with pytest.raises(RequestInvalid, match=r"stop") as raised:
            parse_stop(text)
        assert hint in str(raised.value)

    def test_a_rule_is_read_back_from_its_text_and_its_bytes(self) -> None:
        for text in ("relative_error: 0.1 at 0.99", "error: 50 at 0.95"):
            stop = parse_stop(text)
            assert stop_text(stop) == text
            assert msgspec.json.decode(msgspec.json.encode(stop), type=Stop) == stop
        assert parse_stop("error: 50") == Stop(error="50", confidence="0.95")
        assert msgspec.json.encode(parse_stop("error: 50")) == b'{"error":"50"}'
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(b'{"error":"50","most":1}', type=Stop)


class TestHalfWidth:
    def test_of_laplace_noise_is_the_least_that_its_law_keeps(self) -> None:
        def check_case(scale: str, grid: str, confidence: str) -> None:
            b, g = Fraction(scale), Fraction(grid)
            width = laplace_half_width(scale=b, confidence=Decimal(confidence), grid=g)
            steps = width / g
            assert steps.denominator == 1
            with mpmath.workdps(40):
                failure = 1 - mpmath.mpf(confidence)
                assert laplace_tail(int(steps), g / b) <= failure
                if steps:
                    assert laplace_tail(int(steps) - 1, g / b) > failure

        check_rows(
            check_case,
            [
                (scale, grid, confidence)
                for scale, grid in [("0.1", "1"), ("7", "1"), ("10/3", "0.01")]
                for confidence in ["0.5", "0.95", "0.999999999"]
            ],
        )

    def test_of_a_refinement_is_its_quantile_and_half_a_step(self) -> None:
        def check_case(variance: str, grid: str, confidence: str) -> None:
            v, g = Fraction(variance), Fraction(grid)
            width = refined_half_width(variance=v, confidence=Decimal(confidence), grid=g)
            with mpmath.workdps(40):
                failure = 1 - mpmath.mpf(confidence)
                sigma = mpmath.sqrt(mpmath.mpf(v.numerator) / v.denominator)
                inner = width - g / 2
                z = mpmath.mpf(inner.numerator) / inner.denominator / sigma
                assert mpmath.erfc(z / mpmath.sqrt(2)) <= failure
                assert mpmath.erfc(z * (1 - mpmath.mpf("1e-5")) / mpmath.sqrt(2)) > failure

        check_rows(
            check_case,
            [
                (variance, grid, confidence)
                for variance, grid in [("0.01", "1"), ("50", "1"), ("2", "0.01")]
                for confidence in ["0.5", "0.95", "0.999999999"]
            ],
        )

    def test_confidences_of_several_numbers_add_up_to_that_of_all(self) -> None:
        def check_case(confidence: str, numbers: int) -> None:
            each = confidence_of_each(Decimal(confidence), numbers)
            failure = numbers * (1 - Fraction(each))
            wanted = 1 - Fraction(confidence)
            assert wanted - numbers * Fraction(1, 10**40) < failure <= wanted

        check_each(
            check_case, ["0.5", "0.95", "0.999999999", "0.9" + "1" * 39], [1, 3, 64 * 10_000]
        )

    def test_levels_and_groups_count_where_values_decide(self) -> None:
        noise = "rho: 0.02, gaussian_refinement"  # 11 levels
        for question, cells in (("count", 1), ("count by c, t", 4)):
            draw = draw_of(question, noise)
            level = levels_of(draw)[3]
            for text, intervals in (("relative_error: 0.1", 11 * cells), ("error: 9", cells)):
                width = refined_half_width(
                    variance=level.noise,
                    confidence=confidence_of_each(Decimal("0.95"), intervals),
                    grid=Fraction(1),
                )
                assert half_width(parse_stop(text), draw, level) == width


@pytest.mark.parametrize("noise", ["rho: 1, gaussian_refinement", "epsilon: 1, laplace_reduction"])
def test_a_rule_stops_exactly_where_every_value_is_accurate_enough(noise: str) -> None:
    draw, stop = draw_of("count by c", noise), parse_stop("relative_error: 0.25")
    for level in levels_of(draw):
        width = half_width(stop, draw, level)
        least = 5 * width  # width = (least - width)/4
        large = Fraction(10**9)
        assert stops(stop, draw, level, [least, large])
        assert stops(stop, draw, level, [-large, -least])
        assert not stops(stop, draw, level, [least - Fraction(1, 10**9), large])
        assert not stops(stop, draw, level, [large, Fraction(0)])
        absolute = Stop(error=str(math.ceil(width)), confidence="0.95")
        reached = half_width(absolute, draw, level) <= math.ceil(width)
        assert reached
        assert stops(absolute, draw, level, [Fraction(0), Fraction(0)])
    with pytest.raises(ValueError, match="there must be 2 values, got 1"):
        stops(stop, draw, levels_of(draw)[0], [Fraction(1)])


Answers = Callable[[Fraction], Fraction]
"""One number's answer at each variance or scale, from the first level to the finest."""


def answers_of(draw: Draw, exact: int, bits: Callable[[int], int]) -> Answers:
    assert isinstance(draw.statistic, VectorStatistic)
    grid = draw.statistic.grid
    if draw.law == "gaussian_refinement":
        return GaussianRefinement(exact * grid, bits, step=grid).draw
    scales = [level.noise for level in levels_of(draw)]
    return LaplaceReduction(exact, scales, bits, step=grid).draw


RUNS = rounds(1_000, 1_500)


@pytest.mark.parametrize(
    ("question", "noise", "exact"),
    [
        ("count", "sigma: 3, gaussian_refinement from 200", [700]),
        ("count by c", "sigma: 3, gaussian_refinement from 60", [200, -90]),
        ("count", "epsilon: 0.5, laplace_reduction from 300", [700]),
        ("sum(x) by t", "epsilon: 2, laplace_reduction from 200", [800, 90]),
    ],
)
def test_answers_keep_the_promise_of_a_relative_error(
    question: str, noise: str, exact: list[int]
) -> None:
    draw, bits = draw_of(question, noise), bits_of(3)
    stop = Stop(relative_error="0.2", confidence="0.7")
    levels = levels_of(draw)
    widths = [half_width(stop, draw, level) for level in levels]
    stopped, wrong, outside = [0] * len(levels), 0, 0
    for _ in range(RUNS):
        each = [answers_of(draw, f, bits) for f in exact]
        shown = [[answer(level.noise) for answer in each] for level in levels]
        place = next((i for i, v in enumerate(shown) if stops(stop, draw, levels[i], v)), None)
        if place is not None:
            stopped[place] += 1
            ends = zip(shown[place], exact, strict=True)
            wrong += any(abs(value - f) > Fraction("0.2") * abs(f) for value, f in ends)
        outside += any(
            abs(value - f) > width
            for values, width in zip(shown, widths, strict=True)
            for value, f in zip(values, exact, strict=True)
        )
    allowed = 0.3 * RUNS + 4 * math.sqrt(0.21 * RUNS)
    assert wrong <= outside <= allowed
    # The bound is of use: the intervals of all levels fail about as often as they may.
    assert outside >= 0.3 * allowed
    assert sum(stopped) > 0.95 * RUNS
    assert sum(map(bool, stopped)) > 1  # values decide the level


@pytest.mark.parametrize(
    "noise", ["sigma: 9, gaussian_refinement", "epsilon: 0.1, laplace_reduction"]
)
def test_answers_keep_the_promise_of_an_absolute_error(noise: str) -> None:
    draw, bits = draw_of("count by c", noise), bits_of(4)
    stop = Stop(error="60", confidence="0.8")
    levels = levels_of(draw)
    reached = [level for level in levels if stops(stop, draw, level, [Fraction(0)] * 2)]
    assert tuple(reached) == levels[-len(reached) :]
    assert 1 < len(reached) < len(levels)
    width = half_width(stop, draw, reached[0])
    outside = 0
    for _ in range(RUNS):
        each = [answers_of(draw, 5, bits) for _ in range(2)]
        for level in levels[: -len(reached) + 1]:
            shown = [answer(level.noise) for answer in each]
        outside += any(abs(value - 5) > width for value in shown)
    margin = 4 * math.sqrt(0.16 * RUNS)
    assert 0.15 * RUNS - margin <= outside <= 0.2 * RUNS + margin


class TestFixedNoiseCost:
    def test_of_an_absolute_error_is_that_of_the_same_question(self) -> None:
        stop = parse_stop("error: 50 at 0.95")
        for law, other in (
            ("sigma: 1, gaussian_refinement", "rounded_gaussian"),
            ("epsilon: 1, laplace_reduction", "discrete_laplace"),
        ):
            draw = draw_of("count", law)
            level = next(
                level for level in levels_of(draw) if stops(stop, draw, level, [Fraction(0)])
            )
            cost = fixed_noise_cost(stop, draw, level, [Fraction(0)])
            assert cost is not None
            claim = draw_of("count", f"error: 50 at 0.95, {other}").claim
            assert isinstance(claim, Gaussian | Pure)
            if isinstance(claim, Pure):
                assert cost == Fraction(claim.epsilon)
            else:
                assert cost == 1 / (2 * Fraction(claim.sigma) ** 2)
            # It may choose any noise: a session has the levels that halve, and rounds its answers.
            assert level.cost / 2.1 < cost < level.cost * Fraction("1.1")

    def test_of_a_relative_error_is_that_of_the_values_shown(self) -> None:
        stop = parse_stop("relative_error: 0.1")
        draw = draw_of("count by c", "epsilon: 1, laplace_reduction")
        level = levels_of(draw)[-1]
        width = half_width(stop, draw, level)
        values = [Fraction(100 + width), Fraction(-900)]
        assert stops(stop, draw, level, values) == (width <= 10)
        far = [Fraction(1000 + width), Fraction(9000)]
        cost = fixed_noise_cost(stop, draw, level, far)
        assert cost is not None
        kept = laplace_half_width(
            scale=1 / cost, confidence=confidence_of_each(Decimal("0.95"), 2), grid=Fraction(1)
        )
        cheaper = 1 / Fraction(Context(prec=6).next_minus(Decimal(float(cost)).normalize()))
        assert kept == 100
        assert kept <= laplace_half_width(
            scale=cheaper, confidence=confidence_of_each(Decimal("0.95"), 2), grid=Fraction(1)
        )
        assert fixed_noise_cost(stop, draw, level, [Fraction(1), Fraction(1)]) is None

    def test_is_the_same_in_any_unit(self) -> None:
        stop = parse_stop("relative_error: 0.1")
        costs = []
        for upper in ("2", "2000000"):
            schema = small_schema(lower="0", upper=upper, rows=1)
            draw = draw_of("sum(x)", "rho: 0.5, gaussian_refinement", schema)
            size = Fraction(upper)
            cost = fixed_noise_cost(stop, draw, levels_of(draw)[-1], [10**10 * size])
            assert cost is not None
            costs.append(cost)
        assert float(costs[0]) == pytest.approx(float(costs[1]), rel=1e-4)

    def test_levels_of_a_large_sum_stop_too(self) -> None:
        draw = draw_of("sum(income)", "rho: 0.01, gaussian_refinement", CENSUS)
        stop = parse_stop("relative_error: 0.1")
        total = Fraction(10**12)
        level = next(each for each in levels_of(draw) if stops(stop, draw, each, [total]))
        cost = fixed_noise_cost(stop, draw, level, [total])
        assert cost is not None
        assert cost < level.cost < Fraction("0.0001")
