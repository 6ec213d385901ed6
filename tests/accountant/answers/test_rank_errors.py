"""The rank error of a choice holds with its confidence, and says nothing of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
from scipy.stats import binom

from accountant.answers import NoisyAnswer
from accountant.display.answers import answer_html, answer_text
from accountant.questions.error_at_confidence import choice_error
from accountant.questions.sensitivity import SelectionStatistic
from streams.client.questions.answers import PrivateAnswer
from tests.accountant.answers.runs import CHOICES, SEVERAL, Asked, answer, ask, run
from tests.accountant.noise.laws import bits_of
from tests.nightly import rounds

CONFIDENCE = Decimal("0.95")


def chance_beyond(scores: Sequence[Fraction], scale: Fraction, error: Fraction) -> float:
    """Return how often a choice is further than an error below the best score."""
    best = max(scores)
    weights = [math.exp((each - best) / scale) for each in scores]
    beyond = [w for w, each in zip(weights, scores, strict=True) if best - each > error]
    return math.fsum(beyond) / math.fsum(weights)


@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999999"])
def test_no_scores_are_missed_by_more_and_some_are_by_hardly_less(confidence: str) -> None:
    for candidates in (2, 3, 25, 121):
        for scale in (Fraction(1, 3), Fraction(2), Fraction(57)):
            for grid in (Fraction(1), Fraction(1, 20)):
                missed = float(1 - Decimal(confidence))
                given = {"candidates": candidates, "confidence": Decimal(confidence)}
                error = choice_error(scale=scale, grid=grid, **given)
                for off in (grid, 2 * grid, 5 * scale):
                    # All others are as near to the error as they can be without being within it.
                    worst = [Fraction(0)] + [-error - off] * (candidates - 1)
                    assert chance_beyond(worst, scale, error) <= missed + 1e-12
                worst = [Fraction(0)] + [-error] * (candidates - 1)
                assert chance_beyond(worst, scale, error - grid) >= missed or error == 0


def test_one_candidate_is_the_best() -> None:
    one = {"scale": Fraction(9), "confidence": CONFIDENCE, "grid": Fraction(1)}
    assert choice_error(candidates=1, **one) == 0


def rank_error_of(text: str, noise: str = "epsilon: 1") -> Fraction:
    """Return the rank error of a question by its definition, in floats."""
    draw = ask(text, noise).derivation.draws[-1]
    statistic = draw.statistic
    assert isinstance(statistic, SelectionStatistic)
    error = float(draw.spread) * math.log((statistic.candidates - 1) * 19)
    return math.floor(error / statistic.grid) * statistic.grid


@pytest.mark.parametrize("text", CHOICES)
@pytest.mark.parametrize("noise", ["epsilon: 0.5", "rho: 0.1"])
def test_an_answer_has_its_rank_error_whatever_the_data_are(text: str, noise: str) -> None:
    question, expected = ask(text, noise), rank_error_of(text, noise)
    for scores in (0, 1, 100_000):
        found = of_scores(question, scores)
        assert found.confidence == "0.95"
        assert Fraction(str(found.rank_error)) == expected


def of_scores(question: Asked, apart: int) -> NoisyAnswer:
    """Return an answer whose scores lie so far apart."""
    (draw,) = question.derivation.draws
    assert isinstance(draw.statistic, SelectionStatistic)
    scores = [[Fraction(i * apart) for i in range(draw.statistic.size)]]
    return answer(question, scores, bits_of(1))


@pytest.mark.parametrize("text", ["median(age)", "top(region, 2)"])
def test_draws_are_beyond_the_rank_error_no_more_often(text: str) -> None:
    question, bits, runs = ask(text, "epsilon: 1"), bits_of(5), rounds(1_000, 20_000)
    (draw,) = question.derivation.draws
    assert isinstance(draw.statistic, SelectionStatistic)
    error = rank_error_of(text)
    scores = [Fraction(0)] + [-error - draw.statistic.grid] * (draw.statistic.size - 1)
    beyond = sum(run(question, [scores], bits).noisy[0].places[0][0] > 0 for _ in range(runs))
    # So many of an error that is exceeded with 0.05 have at least this chance.
    assert binom.sf(beyond - 1, runs, 0.05) > 1e-6
    assert beyond > 0.02 * runs, "it is larger than it need be"


def test_an_answer_says_its_rank_error() -> None:
    found = of_scores(ask("median(age)", "epsilon: 1"), 1)
    line = "quantile(age, 0.5): in 95 of 100 answers at most 18 rows too many on one side"
    assert line in answer_text(found).splitlines()
    assert line in answer_html(found)
    assert "interval" not in answer_text(found)
    assert PrivateAnswer(found).rank_error == 18
    assert PrivateAnswer(found).confidence == CONFIDENCE
    top = of_scores(ask("top(region, 2)", "epsilon: 1"), 1)
    line = "top(region, 2): in 95 of 100 answers at most 21 rows fewer than the best one left"
    assert line in answer_text(top).splitlines()


@pytest.mark.parametrize("text", SEVERAL)
def test_each_column_of_several_has_its_own(text: str) -> None:
    question = ask(text, "epsilon: 1")
    exact = [[Fraction(0)] * each.statistic.size for each in question.derivation.draws]
    columns = PrivateAnswer(answer(question, exact, bits_of(1))).columns
    for name, column in columns.items():
        chooses = name.startswith(("quantile", "top"))
        assert (column.rank_error is not None) is chooses
        assert column.confidence is not None
