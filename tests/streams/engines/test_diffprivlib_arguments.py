"""Arguments and models of diffprivlib that reveal more of the data than their epsilon covers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from diffprivlib import BudgetAccountant, models, tools
from diffprivlib.tools import histogram, histogram2d, histogramdd, mean, median, quantile, var

from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from streams.client import Accountant
from streams.engines.diffprivlib import LedgerBudget, NotAsked
from tests.every_case import every_case

ROWS: Final = np.linspace(0.1, 0.9, 32)
TABLE: Final = np.column_stack([ROWS, ROWS])
UNIT: Final[dict[str, Any]] = {"epsilon": 0.01, "bounds": (0, 1)}
SQUARE: Final[dict[str, Any]] = {"epsilon": 0.01, "range": [(0, 1), (0, 1)]}
LABELS: Final = np.array(["flu", "healthy"] * 15 + ["flu", "HIV"])


def within(ledger: Accountant, **more: Any) -> LedgerBudget:
    arguments: dict[str, Any] = {"analyst": "ana", "unit": "person", "neighbours": "replace"}
    return LedgerBudget(ledger, "census", **arguments | more)


def granted(ledger: Accountant) -> int:
    return ledger.dataset("census").outcomes.get("granted", 0)


@every_case("bins", ["auto", "fd", "sturges", "rice", "sqrt", "scott", "doane"])
def test_a_number_of_bins_that_is_read_off_the_data_is_refused(ledger, bins):
    for value in (bins, np.str_(bins)):
        with within(ledger), pytest.raises(NotAsked, match="histogram has bins as text"):
            histogram(ROWS, epsilon=0.01, bins=value, range=(0, 1))
    with within(ledger), pytest.raises(NotAsked, match="histogram2d has bins as text"):
        histogram2d(ROWS, ROWS, bins=[bins, 2], **SQUARE)
    with within(ledger), pytest.raises(NotAsked, match="histogramdd has bins as text"):
        histogramdd(TABLE, bins=bins, **SQUARE)
    assert granted(ledger) == 0


def test_edges_that_are_read_off_the_data_are_refused(ledger):
    shown: Any = histogramdd(TABLE, epsilon=0.01, bins=2, range=(None, (0, 1)))[1]
    assert (shown[0][0], shown[0][-1]) == (ROWS.min(), ROWS.max())  # and no warning of it
    for ranges in ((None, (0, 1)), ((0, 1), None), [None, None]):
        with within(ledger), pytest.raises(NotAsked, match="histogramdd has None in range"):
            histogramdd(TABLE, epsilon=0.01, bins=2, range=ranges)
        with within(ledger), pytest.raises(NotAsked, match="histogram2d has None in range"):
            histogram2d(ROWS, ROWS, epsilon=0.01, bins=2, range=ranges)
    assert granted(ledger) == 0


def test_public_bins_are_granted(ledger):
    with within(ledger):
        histogram(ROWS, epsilon=0.01, bins=3, range=(0, 1))
        histogram(ROWS, epsilon=0.01, bins=[0, 0.5, 1], range=(0, 1))
        histogram2d(ROWS, ROWS, bins=(2, 3), **SQUARE)
        histogramdd(TABLE, epsilon=0.01, bins=[[0, 0.5, 1], [0, 1]])
    assert granted(ledger) == 4


SEEDED: Final = {
    "mean": lambda state: mean(ROWS, **UNIT, random_state=state),
    "count_nonzero": lambda state: tools.count_nonzero(ROWS, 0.01, random_state=state),
    "quantile": lambda state: quantile(ROWS, 0.1, **UNIT, random_state=state),
    "median": lambda state: median(ROWS, **UNIT, random_state=state),
    "histogram": lambda state: histogram(ROWS, 0.01, range=(0, 1), random_state=state),
    "histogram2d": lambda state: histogram2d(ROWS, ROWS, **SQUARE, random_state=state),
    "KMeans": lambda state: models.KMeans(2, **UNIT, random_state=state).fit(TABLE),
    "DecisionTreeClassifier": lambda state: tree(random_state=state),
}


def tree(**more: Any) -> Any:
    made = models.DecisionTreeClassifier(classes=["flu", "healthy"], max_depth=2, **UNIT, **more)
    return made.fit(TABLE, LABELS)


@pytest.mark.parametrize("state", [0, np.random.RandomState(7)], ids=["seed", "generator"])
@pytest.mark.parametrize("name", SEEDED)
def test_noise_that_can_be_drawn_again_is_refused(ledger, name, state):
    with within(ledger, factors={"KMeans": 1}) as budget:
        with pytest.raises(NotAsked, match=f"{name} has random_state: a known seed"):
            SEEDED[name](state)
        assert granted(ledger) == 0
        SEEDED[name](None)
        assert len(budget) == granted(ledger) == 1


def test_a_numpy_seed_does_not_reveal_a_median(ledger):
    known = np.random.RandomState(7).random()
    for _ in range(3):
        with within(ledger):
            np.random.seed(7)
            answer = median(np.array([0.5]), **UNIT)
        assert (2 * answer) % 1 != pytest.approx(known, abs=1e-12)


def test_weights_are_refused(ledger):
    with within(ledger), pytest.raises(NotAsked, match="histogram has weights"):
        histogram(ROWS, epsilon=0.01, range=(0, 1), weights=ROWS)
    assert granted(ledger) == 0


def test_a_type_that_wraps_or_rounds_is_refused(ledger):
    ones = np.ones(300, dtype=int)
    loud: dict[str, Any] = {"epsilon": 100, "bounds": (0, 1), "accountant": BudgetAccountant()}
    assert tools.sum(ones, dtype=np.uint8, **loud) < 50  # 300 modulo 256 is 44
    for tool, dtype in ((tools.sum, np.uint8), (mean, np.int8), (mean, np.float16), (var, int)):
        with within(ledger), pytest.raises(NotAsked, match="has dtype"):
            tool(ones, dtype=dtype, **UNIT)
    assert granted(ledger) == 0
    with within(ledger):
        tools.sum(ones, dtype=int, **UNIT)
        mean(ones, dtype=float, **UNIT)
    assert granted(ledger) == 2


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_result_for_each_row_or_of_several_values_of_a_row_is_refused(ledger, neighbours):
    nested = TABLE.tolist()
    with within(ledger, neighbours=neighbours):
        for axis in (1, -1, (0, 1)):
            with pytest.raises(NotAsked, match="median has axis"):
                median(TABLE, axis=axis, **UNIT)
        for table in (TABLE, nested):
            with pytest.raises(NotAsked, match="median has several values in a row"):
                median(table, **UNIT)
            with pytest.raises(NotAsked, match="histogram has several values in a row"):
                histogram(table, epsilon=0.01, range=(0, 1))
    assert granted(ledger) == 0


def test_columns_one_by_one_are_granted(ledger):
    with within(ledger):
        median(TABLE, axis=0, **UNIT)
        median(TABLE[:, :1], **UNIT)
    assert granted(ledger) == 3


UNBOUNDED: Final = {
    "LogisticRegression": lambda **more: models.LogisticRegression(
        epsilon=0.01, data_norm=2.0, **more
    ),
    "GaussianNB": lambda **more: models.GaussianNB(**UNIT, **more),
}


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_model_that_shows_whether_anybody_has_a_label_is_refused(
    ledger: Accountant, name: str, neighbours: Neighbours
) -> None:
    shown = UNBOUNDED[name](accountant=BudgetAccountant()).fit(TABLE, LABELS)
    assert "HIV" in shown.classes_  # one person's, and no warning of it
    with (
        within(ledger, neighbours=neighbours),
        pytest.raises(NotAsked, match=rf"the loss of {name} .*docs/how-to/diffprivlib\.md\)$"),
    ):
        UNBOUNDED[name]().fit(TABLE, LABELS)
    with pytest.raises(RequestInvalid, match="factors"):
        within(ledger, factors={name: 1})
    assert granted(ledger) == 0


def test_a_tree_shows_only_its_given_classes(ledger):
    with within(ledger):
        assert list(tree().classes_) == ["flu", "healthy"]
        assert set(tree().predict(TABLE)) <= {"flu", "healthy"}
