"""AdaptParamComp and PrivacyFilterComp, played over a real filter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from accountant.claims import Approximate, Pure
from accountant.policy import Policy
from research.games.composition import Query, Round, adapt_param_comp, privacy_filter_comp
from research.games.ledgers import FilterLedger
from research.games.pairs import name_and_shame, randomized_response
from research.games.randomized_response import RandomizedResponseLaw
from tests.research.games.exact_interval import interval

BASIC = Policy(filter="basic", epsilon="1", delta="0.2")


def query(epsilon: str) -> Query:
    return Query(Pure(epsilon), randomized_response(float(epsilon)))


@dataclass
class Fixed:
    """Asks for the same queries whatever is answered."""

    queries: list[Query]

    def choose(self, view: Sequence[Round], generator: np.random.Generator) -> Query | None:
        return self.queries[len(view)] if len(view) < len(self.queries) else None


class Hopeful:
    """Raises the stakes while the answers speak for neighbour 0, after one coin of its own."""

    def choose(self, view: Sequence[Round], generator: np.random.Generator) -> Query | None:
        if not view:
            return query("0.2" if generator.random() < 0.5 else "0.3")
        if len(view) == 3:
            return None
        return query("0.4" if view[-1].loss > 0 else "0.1")


def test_adaptive_composition_runs_every_query_up_to_the_number_of_rounds() -> None:
    many = Fixed([query("0.3")] * 9)
    view = adapt_param_comp(many, rounds=5, b=0, generator=np.random.default_rng(1))
    assert [r.outcome is None for r in view.rounds] == [False] * 5
    ups = sum(r.outcome == 0 for r in view.rounds)
    assert view.loss == pytest.approx((2 * ups - 5) * 0.3, abs=1e-12)


def test_a_filter_game_admits_the_queries_that_its_ledger_admits_and_halts() -> None:
    queries = [query("0.4"), query("0.4"), query("0.4"), query("0.2")]
    for halt, admitted in ((True, [True, True, False]), (False, [True, True, False, True])):
        view = privacy_filter_comp(
            Fixed(queries),
            FilterLedger(BASIC),
            rounds=10,
            b=1,
            halt=halt,
            generator=np.random.default_rng(2),
        )
        assert [r.outcome is not None for r in view.rounds] == admitted
        assert abs(view.loss) <= 1


def test_a_refused_round_has_loss_0() -> None:
    refused = Round(query("0.4"), None)
    assert refused.loss == 0.0


def test_an_answer_that_reveals_the_neighbour_makes_the_loss_infinite() -> None:
    shame = Query(Approximate("0", "0.2"), name_and_shame(0.2))
    ledger = FilterLedger(BASIC)
    generator = np.random.default_rng(3)
    losses = [
        privacy_filter_comp(
            Fixed([query("0.5"), shame]), ledger, rounds=2, b=0, halt=True, generator=generator
        ).loss
        for _ in range(5_000)
    ]
    low, high = interval(sum(loss == math.inf for loss in losses), len(losses))
    assert low <= 0.2 <= high


def test_the_loss_of_a_view_is_the_ratio_of_its_probabilities() -> None:
    """P(view on 0) / P(view on 1) = e^loss, checked on every view that comes often."""
    generator = np.random.default_rng(4)
    counts: tuple[dict[float, int], dict[float, int]] = ({}, {})
    runs = 20_000
    for b in (0, 1):
        for _ in range(runs):
            view = adapt_param_comp(Hopeful(), rounds=3, b=b, generator=generator)
            loss = round(view.loss, 9)
            counts[b][loss] = counts[b].get(loss, 0) + 1
    assert set(counts[0]) == set(counts[1])
    for loss, count in counts[0].items():
        low, high = interval(count, runs)
        minimum, maximum = interval(counts[1][loss], runs)
        assert low / maximum <= math.exp(loss) <= high / minimum


def test_randomized_response_with_delta_is_a_mechanism_of_the_game() -> None:
    asked = Query(Approximate("0.5", "0.1"), RandomizedResponseLaw(0.5, 0.1))
    view = privacy_filter_comp(
        Fixed([asked, asked, asked]),
        FilterLedger(BASIC),
        rounds=3,
        b=0,
        halt=False,
        generator=np.random.default_rng(5),
    )
    assert [r.outcome is None for r in view.rounds] == [False, False, True]
