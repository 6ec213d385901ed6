"""While a budget is in use, tools and models of diffprivlib use no other accountant."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pytest
from diffprivlib import BudgetAccountant, models, tools
from diffprivlib.utils import PrivacyLeakWarning

from streams.client import Accountant
from streams.engines.diffprivlib import LedgerBudget, NotAsked
from tests.patience import PATIENCE_S

ROWS: Final = np.linspace(0.1, 0.9, 32)
TABLE: Final = np.column_stack([ROWS, ROWS])
UNIT: Final[dict[str, Any]] = {"epsilon": 0.01, "bounds": (0, 1)}
STATED: Final = {"KMeans": 1, "PCA": 1, "StandardScaler": 1}


def within(ledger: Accountant, dataset: str = "census", **more: Any) -> LedgerBudget:
    arguments: dict[str, Any] = {"analyst": "ana", "unit": "person", "neighbours": "replace"}
    return LedgerBudget(ledger, dataset, factors=STATED, **arguments | more)


def granted(ledger: Accountant, dataset: str = "census") -> int:
    return ledger.dataset(dataset).outcomes.get("granted", 0)


@pytest.fixture
def second(ledger):
    policy = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "neighbours": "replace"}
    ledger.as_owner("owner").open("clinic", policy, as_given=True)
    return "clinic"


class Lenient(BudgetAccountant):
    """A user's own subclass, which does not call the methods of its base class."""

    def check(self, epsilon, delta):
        return True

    def spend(self, epsilon, delta):
        return self


def tree(**more: Any) -> Any:
    return models.DecisionTreeClassifier(classes=[0, 1], max_depth=2, **UNIT, **more)


@pytest.mark.parametrize("kind", [BudgetAccountant, Lenient])
def test_a_model_with_another_accountant_is_refused_before_it_runs(ledger, kind):
    before = tree(accountant=kind())
    with within(ledger):
        with pytest.raises(NotAsked, match=f"another accountant .{kind.__name__}.. Make the model"):
            before.fit(TABLE, ROWS > 0.5)
        assert not hasattr(before, "tree_")
        with pytest.raises(NotAsked, match="another accountant"):
            tools.mean(ROWS, accountant=kind(), **UNIT)
        with kind(), pytest.raises(NotAsked, match="another accountant"):
            tools.mean(ROWS, **UNIT)
        with pytest.raises(NotAsked, match="another accountant"):
            kind().spend(0.01, 0)
        tools.mean(ROWS, **UNIT)  # the block's own is the default again
    assert granted(ledger) == 1


def test_a_model_that_is_made_before_without_an_accountant_is_refused(ledger):
    before = tree()
    with within(ledger), pytest.raises(NotAsked, match="pass the budget as `accountant=`"):
        before.fit(TABLE, ROWS > 0.5)
    assert granted(ledger) == 0
    before.fit(TABLE, ROWS > 0.5)  # what is outside of a block is no business of the ledger


def test_a_model_that_is_charged_may_give_its_parts_accountants_of_their_own(ledger):
    with within(ledger):
        models.PCA(1, data_norm=2.0, **UNIT).fit(TABLE)
        models.StandardScaler(**UNIT).fit(TABLE)
    assert granted(ledger) == 2


def test_other_accountants_work_again_after_the_block_however_it_ends(ledger):
    state = [getattr(BudgetAccountant, name) for name in ("load_default", "check", "spend")]
    with pytest.raises(KeyError), within(ledger):
        raise KeyError
    assert [getattr(BudgetAccountant, name) for name in ("load_default", "check", "spend")] == state
    assert "__getattribute__" not in vars(BudgetAccountant)
    other = BudgetAccountant()
    tools.mean(ROWS, accountant=other, **UNIT)
    assert other.total() == (0.01, 0)


def test_no_filter_of_warnings_hides_that_bounds_are_read_off_the_data(ledger):
    with within(ledger), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(PrivacyLeakWarning, match="Bounds have not been specified"):
            tools.mean(ROWS, epsilon=0.01)
        with pytest.raises(PrivacyLeakWarning, match="Bounds have not been specified"):
            tools.mean(ROWS, epsilon=0.01)
    assert granted(ledger) == 0
    with pytest.warns(PrivacyLeakWarning, match="Bounds have not been specified"):
        tools.mean(ROWS, epsilon=0.01, accountant=BudgetAccountant())


def test_a_block_in_a_block_is_charged_and_then_the_outer_one_again(ledger, second):
    with within(ledger) as outer:
        with within(ledger, second):
            tools.mean(ROWS, **UNIT)
            tools.mean(ROWS, accountant=outer, **UNIT)
        assert (granted(ledger), granted(ledger, second)) == (1, 1)
        with pytest.raises(NotAsked, match="another accountant"):
            tools.mean(ROWS, accountant=BudgetAccountant(), **UNIT)
        with pytest.raises(PrivacyLeakWarning):
            tools.mean(ROWS, epsilon=0.01)
        tools.mean(ROWS, **UNIT)
    assert (granted(ledger), granted(ledger, second)) == (2, 1)


def test_two_threads_each_charge_their_own_block_after_the_other_ends(ledger, second):
    filters = list(warnings.filters)
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with within(ledger, second):
            entered.set()
            assert left.wait(PATIENCE_S)
            tools.mean(ROWS, **UNIT)
            with pytest.raises(PrivacyLeakWarning):
                tools.mean(ROWS, epsilon=0.01)
            with pytest.raises(NotAsked, match="another accountant"):
                tools.mean(ROWS, accountant=BudgetAccountant(), **UNIT)

    with ThreadPoolExecutor(1) as pool:
        with within(ledger):
            running = pool.submit(other)
            assert entered.wait(PATIENCE_S)
            tools.mean(ROWS, **UNIT)
            assert (granted(ledger), granted(ledger, second)) == (1, 0)
        left.set()
        running.result(PATIENCE_S)
    assert (granted(ledger), granted(ledger, second)) == (1, 1)
    assert not isinstance(BudgetAccountant.pop_default(), LedgerBudget)
    assert list(warnings.filters) == filters


def test_a_pool_thread_uses_the_only_block_and_refuses_to_choose_of_two(ledger, second):
    def without_a_block() -> Any:
        return tools.mean(ROWS, **UNIT)

    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with within(ledger, second):
            entered.set()
            assert left.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as others, within(ledger):
        pool.submit(without_a_block).result(PATIENCE_S)
        assert granted(ledger) == 1
        running = others.submit(other)
        assert entered.wait(PATIENCE_S)
        with pytest.raises(NotAsked, match="several threads have a budget in use"):
            pool.submit(without_a_block).result(PATIENCE_S)
        left.set()
        running.result(PATIENCE_S)
    assert (granted(ledger), granted(ledger, second)) == (1, 0)
