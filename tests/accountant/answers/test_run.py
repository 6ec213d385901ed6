"""Runs have the exact law of their noise, and show nothing but noisy values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction
from itertools import permutations

import msgspec
import pytest

from accountant.answers import run_question
from accountant.questions import Schema, check_schema, evaluate
from accountant.questions.schema import NumberColumn
from accountant.questions.sensitivity import VectorStatistic
from tests.accountant.answers.runs import RUNS, answer, ask, run, zeros
from tests.accountant.noise import laws
from tests.accountant.noise.laws import bits_of, check_law
from tests.accountant.questions.schemas import SOURCE, small_schema
from tests.every_case import check_rows
from tests.nightly import rounds

pytestmark = pytest.mark.timeout(1200)
DRAWS = rounds(30_000, 1_000_000)
ROWS = [
    {"person": str(i), "age": i % 90, "income": f"{i * i}.{i % 100:02}", "region": "north",
     "job": "yes", "smoker": i % 3 == 0}
    for i in range(60)
]  # fmt: skip


def shown(text: str, noise: str, exact: list[int], seed: int, number: int) -> list[Fraction]:
    """Return the first noisy statistic of many runs of an ungrouped question, less its value."""
    question = ask(text, noise, schema=small_schema(rows=1))
    statistics = [[Fraction(each)] for each in exact]
    bits = bits_of(seed)
    return [run(question, statistics, bits).noisy[0].values[0] - exact[0] for _ in range(number)]


@pytest.mark.parametrize("text", ["count", "sum(x)", "mean(x)", "variance(x)"])
def test_discrete_laplace_noise_has_its_law(text: str) -> None:
    exact = [7, 3, 11][: {"mean(x)": 2, "variance(x)": 3}.get(text, 1)]
    question = ask(text, "epsilon: 1", schema=small_schema(rows=1))
    scale = question.derivation.draws[0].scale
    assert scale is not None
    drawn = shown(text, "epsilon: 1", exact, 1, DRAWS // len(exact))
    check_law(drawn, {k: laws.laplace(float(scale), k) for k in range(-60, 61)})


def test_discrete_gaussian_noise_has_its_law() -> None:
    drawn = shown("count", "rho: 0.05", [7], 2, DRAWS)
    check_law(drawn, {k: laws.discrete_gaussian(10, k) for k in range(-30, 31)})


def test_rounded_gaussian_noise_has_its_law() -> None:
    drawn = shown("count", "sigma: 3", [7], 3, DRAWS)
    check_law(drawn, {k: laws.rounded(0, 9, k) for k in range(-30, 31)})


@pytest.mark.parametrize("noise", ["epsilon: 1", "rho: 0.5", "rho: 0.5, rounded_gaussian"])
def test_noise_is_as_wide_as_the_claim_says_on_a_fine_grid(noise: str) -> None:
    column = NumberColumn(name="x", lower="0", upper="1", places=4)
    schema = check_schema(Schema(source=SOURCE, columns=(column,), neighbours="add_remove"))
    question, bits = ask("sum(x)", noise, schema=schema), bits_of(8)
    drawn = [run(question, [[Fraction(7)]], bits).noisy[0].values[0] - 7 for _ in range(500)]
    # All three have sensitivity 1: a scale of 1, or a standard deviation of 1.
    mean = 1 if noise == "epsilon: 1" else math.sqrt(2 / math.pi)
    assert sum(map(abs, drawn)) / len(drawn) == pytest.approx(mean, rel=0.2)


def test_noise_of_groups_is_independent() -> None:
    question = ask("count by c", "epsilon: 2", schema=small_schema(rows=1))
    bits, exact = bits_of(4), [[Fraction(5), Fraction(-2)]]
    pairs = (run(question, exact, bits).noisy[0].values for _ in range(DRAWS))
    law: dict[Hashable, float] = {
        (5 + i, j - 2): laws.laplace(0.5, i) * laws.laplace(0.5, j)
        for i in range(-9, 10)
        for j in range(-9, 10)
    }
    check_law(pairs, law)


def test_a_quantile_is_chosen_by_the_exponential_mechanism() -> None:
    question = ask("quantile(x, 0.9)", "epsilon: 2", schema=small_schema(rows=1))
    scale = question.derivation.draws[0].scale
    assert scale == Fraction(9, 10)  # range distance 2 * 0.9, by epsilon
    scores = [Fraction(each, 10) for each in (-9, -3, 0, -1, -4, -20)]
    bits = bits_of(5)
    drawn = (run(question, [scores], bits).noisy[0].places[0][0] for _ in range(DRAWS // 2))
    weights = [math.exp(score / scale) for score in scores]
    check_law(drawn, {i: weight / sum(weights) for i, weight in enumerate(weights)})


def test_a_top_is_chosen_one_by_one_without_replacement() -> None:
    question = ask("top(region, 2) by smoker", "epsilon: 4")
    scale = question.derivation.draws[0].scale
    assert scale == Fraction(3, 2)  # 3 rows of a person, by epsilon 2 for each choice
    counts = [4, 2, 3], [0, 0, 5]
    exact = [[Fraction(each) for group in counts for each in group]]
    bits = bits_of(6)
    drawn = [run(question, exact, bits).noisy[0].places for _ in range(DRAWS // 4)]
    for group in (0, 1):
        weights = [math.exp(count / scale) for count in counts[group]]
        total = sum(weights)
        law: dict[Hashable, float] = {
            (i, j): weights[i] / total * weights[j] / (total - weights[i])
            for i, j in permutations(range(3), 2)
        }
        check_law((each[group] for each in drawn), law)
    # Each group has its own noise.
    both = Counter(each[0] == each[1] for each in drawn)
    same = sum(
        a / len(drawn) * b
        for pair, a in Counter(each[0] for each in drawn).items()
        for other, b in Counter(each[1] for each in drawn).items()
        if pair == other
    )
    assert abs(both[True] - same) < 6 * math.sqrt(len(drawn))


def test_every_number_lies_on_the_declared_grid() -> None:
    def check_case(text: str, noise: str) -> None:
        question = ask(text, noise)
        statistics = evaluate(question.checked, ROWS, key=b"key")
        for seed in range(5):
            for noisy in run(question, statistics, bits_of(seed)).noisy:
                if isinstance(noisy.draw.statistic, VectorStatistic):
                    grid = noisy.draw.statistic.grid
                    assert all((each / grid).denominator == 1 for each in noisy.values)

    check_rows(check_case, RUNS)


def test_the_same_bits_give_the_same_answer() -> None:
    def check_case(text: str, noise: str) -> None:
        question = ask(text, noise)
        statistics = evaluate(question.checked, ROWS, key=b"key")
        first, again, other = (answer(question, statistics, bits_of(s)) for s in (1, 1, 2))
        assert first == again
        if isinstance(question.derivation.draws[0].statistic, VectorStatistic):
            assert [each.values for each in run(question, statistics, bits_of(1)).noisy] != [
                each.values for each in run(question, statistics, bits_of(2)).noisy
            ]
            assert first.statistics[0].law == other.statistics[0].law

    check_rows(check_case, RUNS)


def outline(value: object) -> object:
    """Return an answer without its noisy values: only how many there are."""
    fields = msgspec.to_builtins(value)
    for each in (fields, *fields.get("columns", ())):
        for name in ("values", "low", "high"):
            each[name] = len(each.get(name, ()))
    for each in fields["statistics"]:
        each["values"] = len(each.get("values", ()))
    return fields


def test_all_but_the_values_follows_from_schema_question_and_noise() -> None:
    def check_case(text: str, noise: str) -> None:
        question = ask(text, noise)
        full = answer(question, evaluate(question.checked, ROWS, key=b"key"), bits_of(1))
        empty = answer(question, zeros(question), bits_of(2))
        assert outline(full) == outline(empty)
        for each in full.alone:
            assert len(each.values) == question.checked.cells * each.in_each_group

    check_rows(check_case, RUNS)


def test_statistics_of_another_size_are_an_error() -> None:
    def check_case(text: str, noise: str) -> None:
        question = ask(text, noise)
        right = zeros(question)
        for wrong in ([], right[:-1], [*right, []], [*right[:-1], right[-1] + [Fraction(4711)]]):
            with pytest.raises(ValueError, match=r"must have|statistics") as error:
                run(question, wrong, bits_of(1))
            assert "4711" not in str(error.value)

    check_rows(check_case, RUNS)


@pytest.mark.parametrize("text", ["count", "median(age)", "top(region, 1)"])
def test_statistics_off_the_grid_are_an_error_without_their_value(text: str) -> None:
    question = ask(text, "epsilon: 1")
    wrong = zeros(question)
    wrong[0][0] = Fraction(4711, 3)
    with pytest.raises(ValueError, match="multiples") as error:
        run(question, wrong, bits_of(1))
    assert "4711" not in str(error.value)


def test_values_are_the_statistics_where_the_noise_is_next_to_none() -> None:
    rows = [{"person": str(i), "age": i, "region": "south"} for i in range(41)]
    expected: dict[str, tuple[str | None, ...]] = {
        "count": ("41",),
        "sum(age)": ("820",),
        "mean(age) by region": (None, "20", None),
        "variance(age)": ("140",),
        "histogram(region)": ("0", "41", "0"),
        "median(age)": ("20",),
        "quantile(age, 0)": ("0",),
        "top(region, 1)": ("south",),
    }
    for text, values in expected.items():
        question = ask(text, "epsilon: 1000")
        statistics = evaluate(question.checked, rows, key=b"key")
        found = answer(question, statistics, bits_of(3)).values
        if "age" not in text or "quantile" in text or "median" in text:
            assert found == values
        else:
            assert [each is None for each in found] == [each is None for each in values]
            close = [(a, b) for a, b in zip(found, values, strict=True) if a and b]
            assert all(abs(Fraction(a) - Fraction(b)) < 3 for a, b in close), (text, found)


def test_a_draw_of_another_question_is_an_error() -> None:
    count, mean = ask("count", "rho: 1"), ask("mean(age)", "rho: 1")
    with pytest.raises(ValueError, match="2 statistics"):
        run_question(mean.checked, mean.derivation, zeros(count), bits_of(1))
