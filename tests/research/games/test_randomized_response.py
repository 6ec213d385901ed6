"""RR_{epsilon, delta} as Rogers 2016 Def 2.6 prints it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.games.randomized_response import RandomizedResponseLaw, ResponseOutcome
from tests.research.games.exact_interval import interval


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.3, 0.0), (1.5, 0.2), (700.0, 0.5)])
def test_its_law_is_the_printed_one(epsilon: float, delta: float) -> None:
    law = [RandomizedResponseLaw(epsilon, delta).law(b) for b in (0, 1)]
    odds = math.exp(epsilon)
    likely, unlikely = (1 - delta) * odds / (1 + odds), (1 - delta) / (1 + odds)
    assert law[0] == pytest.approx((delta, likely, unlikely, 0.0), rel=1e-14)
    assert law[1] == pytest.approx((0.0, unlikely, likely, delta), rel=1e-14)
    assert sum(law[0]) == pytest.approx(1, rel=1e-15)


def test_randomized_response_is_exactly_epsilon_delta_private() -> None:
    pair = RandomizedResponseLaw(0.7, 0.05).pair()
    for x in (0.7, 1.0, 20.0):
        assert pair.hockey_stick(x) == pytest.approx(0.05, rel=1e-13)
        assert pair.swapped().hockey_stick(x) == pytest.approx(0.05, rel=1e-13)
    assert pair.hockey_stick(0.69) > 0.05
    assert RandomizedResponseLaw(0.7).pair().losses == (0.7, -0.7)


def test_each_outcome_has_its_loss() -> None:
    response = RandomizedResponseLaw(0.7, 0.05)
    losses = [response.loss(outcome) for outcome in ResponseOutcome]
    assert losses == [math.inf, 0.7, -0.7, -math.inf]


@pytest.mark.parametrize("b", [0, 1])
def test_samples_of_randomized_response_follow_its_law(b: int) -> None:
    response, generator = RandomizedResponseLaw(0.7, 0.05), np.random.default_rng(b)
    answers = [response.sample(b, generator) for _ in range(20_000)]
    for outcome, chance in zip(ResponseOutcome, response.law(b), strict=True):
        low, high = interval(answers.count(outcome), len(answers))
        assert low <= chance <= high


@pytest.mark.parametrize(("epsilon", "delta"), [(-0.1, 0), (math.inf, 0), (1, -0.1), (1, 1.1)])
def test_parameters_out_of_range_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        RandomizedResponseLaw(epsilon, delta)
