"""Sessions show levels by their exact joint law, stop by what they showed, and cost the last."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

import pytest

from accountant.answers import (
    Noisy,
    Result,
    ShownSession,
    answer_of,
    decode_answer,
    encode_answer,
    failed_answer,
)
from accountant.claims import Brownian, ExPost
from accountant.questions import Schema, check_schema, evaluate, levels_of, stops
from accountant.questions.accuracy_first import MAX_SHOWN
from accountant.questions.schema import NumberColumn
from accountant.questions.sensitivity import VectorStatistic
from tests.accountant.answers.runs import SESSIONS, Asked, answer, ask, run, zeros
from tests.accountant.noise import laws
from tests.accountant.noise.laws import bits_of, check_law
from tests.accountant.questions.schemas import SOURCE, small_schema
from tests.every_case import check_rows
from tests.nightly import rounds

pytestmark = pytest.mark.timeout(1200)
DRAWS = rounds(30_000, 1_000_000)
NEVER = "error: 1e-9"
SESSION_NOISE = ["rho: 0.5, gaussian_refinement", "epsilon: 2, laplace_reduction"]
LAPLACE = "epsilon: 2, laplace_reduction from 1"
GAUSSIAN = "rho: 0.5, gaussian_refinement from 1.5"


def one_count(noise: str, stop: str) -> Asked:
    return ask("count", noise, stop, schema=small_schema(rows=1))


def session(question: Asked, value: int, seed: int) -> ShownSession:
    found = run(question, [[Fraction(value)]], bits_of(seed)).session
    assert found is not None
    return found


def shown(question: Asked, value: int, seed: int, number: int) -> list[list[Fraction]]:
    """Return what many sessions show of one number, level by level, less the number."""
    bits = bits_of(seed)
    runs = (run(question, [[Fraction(value)]], bits).session for _ in range(number))
    return [[values[0] - value for _, values in each.shown] for each in runs if each is not None]


def test_levels_of_laplace_noise_reduction_have_their_joint_law() -> None:
    question = one_count(LAPLACE, NEVER)
    assert [level.noise for level in levels_of(question.derivation.draws[0])] == [1, Fraction(1, 2)]
    stay = laws.stays(0.5, 1)
    law: dict[Hashable, float] = {
        (i, j): laws.laplace(0.5, j) * (stay * (i == j) + (1 - stay) * laws.laplace(1, i - j))
        for i in range(-25, 26)
        for j in range(-12, 13)
    }
    drawn = shown(question, 7, 1, DRAWS // 2)
    check_law((tuple(each) for each in drawn), law)


def test_levels_of_a_gaussian_refinement_have_their_joint_law() -> None:
    question = one_count(GAUSSIAN, NEVER)
    assert [level.noise for level in levels_of(question.derivation.draws[0])] == [2, 1]
    # The finer level is the mean of the coarser one and of a second rounded normal of variance 2.
    law: dict[Hashable, float] = {
        (i, Fraction(i + j, 2)): laws.rounded(0, 2, i) * laws.rounded(0, 2, j)
        for i in range(-12, 13)
        for j in range(-12, 13)
    }
    drawn = shown(question, 7, 2, DRAWS // 2)
    check_law((tuple(each) for each in drawn), law)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_a_session_shows_the_same_levels_until_it_stops(noise: str) -> None:
    # The rule reads what was shown, so stopping earlier changes nothing before.
    for seed in range(50):
        whole = session(one_count(noise, NEVER), 60, seed)
        early = session(one_count(noise, "relative_error: 0.15 at 0.9"), 60, seed)
        assert early.shown == whole.shown[: len(early.shown)]
        assert not whole.stopped
        assert early.stopped or len(early.shown) == len(whole.shown)


@pytest.mark.parametrize("noise", SESSION_NOISE)
def test_a_session_stops_where_the_values_that_it_shows_satisfy_its_rule(noise: str) -> None:
    question = one_count(noise, "relative_error: 0.2")
    (draw,), stop = question.derivation.draws, question.stop
    assert stop is not None
    lengths = set[int]()
    for seed in range(50):
        found = session(question, 70, seed)
        satisfied = [stops(stop, draw, level, values) for level, values in found.shown]
        assert not any(satisfied[:-1])
        assert satisfied[-1] is found.stopped
        lengths.add(len(found.shown))
    assert len(lengths) > 1, "no noise moves where this session stops"


@pytest.mark.parametrize("noise", ["rho: 2, gaussian_refinement", "epsilon: 4, laplace_reduction"])
def test_a_large_number_stops_early_and_costs_less(noise: str) -> None:
    question = ask("count", noise, "relative_error: 0.1")
    costs = []
    for value in (10**6, 10**3, 0):
        found = answer(question, [[Fraction(value)]], bits_of(4))
        name = "rho" if "rho" in noise else "epsilon"
        cost, reserved = Fraction(found.cost[name]), Fraction((found.reserved_cost or {})[name])
        claim = found.claim
        assert isinstance(claim, Brownian | ExPost)
        last = Fraction(str(found.shown))
        sensitivity = Fraction(str(claim.sensitivity))
        is_rho = name == "rho"
        assert cost == (sensitivity**2 / (2 * last) if is_rho else sensitivity / last)
        assert found.stopped is (value > 0)
        assert (cost == reserved) is (value == 0)
        costs.append(cost)
    assert costs == sorted(costs)
    assert costs[0] < costs[1] < costs[2]


def test_an_answer_has_each_level_exactly() -> None:
    def check_case(text: str, noise: str, stop: str) -> None:
        question = ask(text, noise, stop)
        rows = [{"person": str(i), "age": i % 90, "income": str(i), "region": "north",
                 "smoker": i % 2 == 0} for i in range(300)]  # fmt: skip
        statistics = evaluate(question.checked, rows, key=b"key")
        result = run(question, statistics, bits_of(5))
        found = answer(question, statistics, bits_of(5))
        assert result.session is not None
        exact = [values for _, values in result.session.shown]
        assert [tuple(map(Fraction, level.values)) for level in found.levels] == exact
        assert found.values == found.levels[-1].values
        assert tuple(map(Fraction, found.values)) == exact[-1]
        assert found.shown == found.levels[-1].level == result.session.shown[-1][0].text
        assert decode_answer(encode_answer(found)) == found
        ends = zip(found.low, found.values, found.high, strict=True)
        assert all(Fraction(low) < Fraction(v) < Fraction(high) for low, v, high in ends)
        statistic = question.derivation.draws[0].statistic
        assert isinstance(statistic, VectorStatistic)
        for i, values in enumerate(exact):
            # A refinement's level k is a mean with weights of denominator 2^(k - 1).
            unit = statistic.grid / (2**i if "gaussian" in noise else 1)
            assert all((value / unit).denominator == 1 for value in values)

    check_rows(check_case, SESSIONS)


@pytest.mark.parametrize(
    "noise", ["rho: 0.5, gaussian_refinement", "epsilon: 2, laplace_reduction"]
)
def test_intervals_hold_wherever_the_session_stops(noise: str) -> None:
    runs, missed = rounds(300, 30_000), 0
    question, bits = one_count(noise, "relative_error: 0.2"), bits_of(6)
    # A number at which sessions stop at many levels, those of luck included.
    levels = set[int]()
    for _ in range(runs):
        found = answer(question, [[Fraction(70)]], bits)
        levels.add(len(found.levels))
        missed += not Fraction(found.low[0]) <= 70 <= Fraction(found.high[0])
    assert len(levels) > 1
    assert missed <= 0.05 * runs + 4 * math.sqrt(0.05 * runs)


def width_where_it_stops(question: Asked, place: int) -> float:
    """Return half the interval of an answer whose session stopped at a level."""
    (draw,), stop = question.derivation.draws, question.stop
    assert stop is not None
    shown = tuple((level, (Fraction(0),)) for level in levels_of(draw)[: place + 1])
    noisy = Noisy(draw=replace(draw, scale=shown[-1][0].noise), values=(Fraction(0),))
    session = ShownSession(draw=draw, stop=stop, shown=shown, stopped=True)
    result = Result(checked=question.checked, noisy=(noisy,), session=session)
    return float(answer_of(question.granted, result).high[0])


@pytest.mark.parametrize("exact", [20, 90, 200])
def test_no_stop_chosen_by_values_makes_intervals_miss_more_often(exact: int) -> None:
    # Sessions stop where luck made the number large, so one level's interval misses 7 % of 20.
    question = one_count("epsilon: 1, laplace_reduction from 64", "relative_error: 1 at 0.5")
    (draw,), stop = question.derivation.draws, question.stop
    assert stop is not None
    levels, noises = levels_of(draw), range(-2500, 2501)
    scales = [float(level.noise) for level in levels]
    missed, ended = 0.0, 0.0
    # Of each noise, the probability that the session goes on with it over that of the noise.
    on = [1.0] * len(noises)
    for i, (level, scale) in enumerate(zip(levels, scales, strict=True)):
        if i:
            on = goes_on(on, scale, scales[i - 1])
        width = width_where_it_stops(question, i)
        for place, noise in enumerate(noises):
            value = Fraction(exact + noise)
            if level is levels[-1] or stops(stop, draw, level, [value]):
                probability = on[place] * laws.laplace(scale, noise)
                ended += probability
                missed += probability * (abs(noise) > width)
                on[place] = 0.0
    assert ended == pytest.approx(1, abs=1e-9)
    assert 0.005 < missed <= 0.05


def goes_on(on: list[float], finer: float, coarser: float) -> list[float]:
    """Return the mean, for each noise of a finer level, over the coarser noise above it."""
    stay, a = laws.stays(finer, coarser), math.exp(-1 / coarser)
    up, down = [0.0] * len(on), [0.0] * len(on)
    for i, each in enumerate(on):
        up[i] = each + (a * up[i - 1] if i else 0.0)
    for i in reversed(range(len(on) - 1)):
        down[i] = a * (on[i + 1] + down[i + 1])
    added = laws.laplace(coarser, 0)
    return [
        stay * each + (1 - stay) * added * (left + right)
        for each, left, right in zip(on, up, down, strict=True)
    ]


def test_a_failed_session_costs_what_was_reserved() -> None:
    question = ask("count", "rho: 0.5, gaussian_refinement", "relative_error: 0.1")
    failed = failed_answer(question.granted)
    assert failed.shown is None
    assert failed.cost == {"rho": "0.5"}
    assert decode_answer(encode_answer(failed)) == failed


def test_a_session_and_nothing_else_has_a_rule() -> None:
    for noise, stop in (("epsilon: 1", "error: 1"), ("epsilon: 1, laplace_reduction", None)):
        question = ask("count", noise, stop)
        with pytest.raises(ValueError, match="stop rule"):
            run(question, zeros(question), bits_of(1))


def test_statistics_of_another_size_are_an_error() -> None:
    question = ask("count by region", "epsilon: 1, laplace_reduction", "error: 1")
    for wrong in ([], [[Fraction(1)]], [[Fraction(4711, 3)] * 3], [*zeros(question), []]):
        with pytest.raises(ValueError, match=r"must|statistics") as error:
            run(question, wrong, bits_of(1))
        assert "4711" not in str(error.value)


@pytest.mark.parametrize(
    ("upper", "noise", "levels"),
    [
        ("999999999999999", "rho: 1e-3, gaussian_refinement", 11),
        ("999999999999999", "epsilon: 1e-3, laplace_reduction", 11),
        ("1", "sigma: 1e-1, gaussian_refinement from 4e8", 64),
        ("1", "epsilon: 1e3, laplace_reduction from 9e8", 40),
    ],
)
def test_the_longest_numbers_of_a_session_fit_into_a_record(
    upper: str, noise: str, levels: int
) -> None:
    column = NumberColumn(name="x", lower="0", upper=upper, places=12)
    schema = check_schema(Schema(source=SOURCE, columns=(column,), neighbours="add_remove"))
    found = answer(ask("sum(x)", noise, NEVER, schema=schema), [[Fraction(10) ** 25]], bits_of(1))
    assert len(found.levels) == levels
    size = sum(len(f'"{text}",') for level in found.levels for text in level.values)
    assert size / levels * MAX_SHOWN < 15_000_000
