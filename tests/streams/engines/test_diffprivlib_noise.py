"""The charge covers the noise of diffprivlib's tools, drawn on neighbouring inputs."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any, Final

import numpy as np
import pytest
from diffprivlib import BudgetAccountant, models, tools
from diffprivlib.utils import PrivacyLeakWarning

from accountant.errors import RequestInvalid
from streams.client import Accountant
from streams.engines.diffprivlib import LedgerBudget, NotAsked
from streams.engines.diffprivlib_tools import LOSSES
from tests.every_case import every_case

EPSILON: Final = 1.0
DRAWS: Final = 400
ROWS: Final = np.array([0.0, 0.0, 0.0, 9.0, 9.0])
NEIGHBOURS: Final[dict[str, list[Any]]] = {
    "replace": [np.array([9.0, 0.0, 0.0, 9.0, 9.0]), np.array([0.0, 0.0, 0.0, 9.0, 0.0])],
    "add_remove": [ROWS[1:], ROWS[:-1]],
}
LEAST: Final = 60  # draws in an event: its logarithm has then a standard error of 0.13
BOUNDS: Final = {"epsilon": EPSILON, "bounds": (0, 9)}
RANGE: Final = {"epsilon": EPSILON, "bins": 2}


def coarse(answer: float) -> float:
    return round(float(answer) * 2) / 2


def draw(tool: str, data: Any, seed: int) -> Any:
    """Return one answer of a tool, coarse enough that answers meet again."""
    more: dict[str, Any] = {"random_state": seed}
    if tool in {"mean", "var", "std", "sum", "median"}:
        return coarse(getattr(tools, tool)(data, **BOUNDS, **more))
    if tool == "count_nonzero":
        return coarse(tools.count_nonzero(data > 5, epsilon=EPSILON, **more))
    if tool in {"quantile", "percentile"}:
        wanted = 0.3 if tool == "quantile" else 30
        return coarse(getattr(tools, tool)(data, wanted, **BOUNDS, **more))
    if tool == "histogram":
        return tuple(tools.histogram(data, range=(0, 10), **RANGE, **more)[0])
    if tool == "histogram2d":
        found = tools.histogram2d(data, data, range=[(0, 10), (0, 10)], **RANGE, **more)[0]
        return tuple(np.diag(found))
    if tool == "histogramdd":
        return tuple(tools.histogramdd(data, range=[(0, 10)], **RANGE, **more)[0])
    raise AssertionError(tool)


def loss(tool: str, one: Any, other: Any, draws: int = DRAWS) -> float:
    """Return the largest logarithm of a ratio of two frequencies, less what chance explains."""
    seen = [Counter(draw(tool, data, seed) for seed in range(draws)) for data in (one, other)]
    worst = 0.0
    for event in seen[0].keys() | seen[1].keys():
        often, seldom = sorted((counts[event] for counts in seen), reverse=True)
        if often >= LEAST:
            chance = 4 * math.sqrt(1 / often + 1 / max(seldom, 1))
            worst = max(worst, math.log(often / max(seldom, 0.5)) - chance)
    return worst


TOOLS: Final = sorted(name for name in LOSSES if hasattr(tools, name))
MODELS: Final = sorted(name for name in LOSSES if hasattr(models, name))


def test_every_tool_and_model_of_the_table_is_one_of_diffprivlib() -> None:
    assert sorted([*TOOLS, *MODELS]) == sorted(LOSSES)


@every_case("neighbours", NEIGHBOURS)
@every_case("tool", TOOLS)
def test_a_tool_loses_no_more_than_it_is_charged(tool: str, neighbours: Any) -> None:
    factor = LOSSES[tool].under(neighbours)
    if factor is None:
        return
    BudgetAccountant().set_default()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        for other in NEIGHBOURS[neighbours]:
            assert loss(tool, ROWS, other) <= factor * EPSILON


def test_a_histogram_loses_more_than_its_epsilon_where_a_row_is_replaced() -> None:
    BudgetAccountant().set_default()
    assert loss("histogram", ROWS, NEIGHBOURS["replace"][0], 1_500) > EPSILON


def test_a_sum_that_is_bounded_by_the_number_of_rows_shows_that_number() -> None:
    BudgetAccountant().set_default()
    full, fewer = np.full(4, 9.0), np.full(3, 9.0)
    assert loss("sum", full, fewer) > 1.5 * EPSILON


def test_a_vector_loses_more_than_its_epsilon_on_long_rows() -> None:
    """One row (x, y) of norm 10, logistic loss, C = 1: the density of the weight w, by w."""
    norm = 10.0
    added = 0.25 * norm / math.expm1(EPSILON / 4)  # as Vector.randomise computes both
    scale = norm * 2 / (EPSILON / 2)
    weights = np.linspace(-5, 5, 20_001)

    def log_density(x: float, y: float) -> Any:
        likely = 1 / (1 + np.exp(-weights * x))
        noise = (likely - y) * x + added * weights
        return np.log(added + likely * (1 - likely) * x * x) - np.abs(noise) / scale

    lost = np.max(np.abs(log_density(norm, 1) - log_density(0, 0)))
    assert lost == pytest.approx(1.236, abs=0.001)


def charged(ledger: Accountant) -> float:
    return 1 - float(ledger.dataset("census").left["epsilon"])


@pytest.mark.parametrize(("tool", "cost"), [("histogram", 0.5), ("histogramdd", 0.5)])
def test_a_histogram_is_charged_twice_where_a_row_is_replaced(
    ledger: Accountant, tool: str, cost: float
) -> None:
    with LedgerBudget(ledger, "census", analyst="ana", unit="person", neighbours="replace") as it:
        wanted = {"histogram": (0, 9), "histogramdd": [(0, 9)]}[tool]
        getattr(tools, tool)(ROWS, epsilon=0.25, range=wanted, accountant=it)
        assert it.spent_budget == [(0.25, 0)]
    assert charged(ledger) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: tools.nanmean(ROWS, epsilon=0.1, bounds=(0, 9)), "nanmean"),
        (lambda: models.KMeans(2, epsilon=0.1, bounds=(0, 9)).fit(ROWS[:, None]), "KMeans"),
        (
            lambda: models.StandardScaler(epsilon=0.1, bounds=(0, 9)).fit(ROWS[:, None]),
            "StandardScaler",
        ),
    ],
)
def test_a_tool_of_unknown_loss_is_refused_before_any_request(
    ledger: Accountant, call: Any, named: str
) -> None:
    with (
        LedgerBudget(ledger, "census", analyst="ana", unit="person", neighbours="replace"),
        pytest.raises(NotAsked, match=f"the loss of {named} between neighbours of replace"),
    ):
        call()
    assert charged(ledger) == 0


def test_a_mean_is_refused_where_rows_are_added_or_removed(ledger: Accountant) -> None:
    budget = LedgerBudget(ledger, "census", analyst="ana", unit="person", neighbours="add_remove")
    with budget, pytest.raises(NotAsked, match="the loss of mean"):
        tools.mean(ROWS, epsilon=0.1, bounds=(0, 9))


def test_a_factor_of_a_tool_in_the_table_is_refused(ledger: Accountant) -> None:
    with pytest.raises(RequestInvalid, match="factors"):
        LedgerBudget(
            ledger, "census", unit="person", neighbours="replace", factors={"histogram": 1}
        )
