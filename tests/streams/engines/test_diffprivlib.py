"""Tools and models of diffprivlib with a real ledger."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from diffprivlib import BudgetAccountant, mechanisms, models, tools
from diffprivlib.utils import BudgetError as EngineBudgetError
from diffprivlib.utils import PrivacyLeakWarning
from sklearn.base import clone

from accountant.claims import Approximate, Pure
from accountant.errors import RequestInvalid
from accountant.records.outcomes import Reason
from streams.client import Accountant, NotGranted
from streams.engines.diffprivlib import (
    LedgerBudget,
    NotAdmitted,
    NotAsked,
    mechanism_claim,
)
from tests.every_case import every_case

AGES = np.random.default_rng(1).integers(18, 90, 200)
POINTS = np.random.default_rng(2).normal(size=(200, 3)).clip(-2, 2)
CLASSES = (POINTS[:, 0] > 0).astype(int)


@pytest.fixture
def budget(ledger: Accountant) -> LedgerBudget:
    scoped_claim = {"unit": "person", "neighbours": "replace", "factors": STATED}
    return LedgerBudget(ledger, "census", analyst="ana", **scoped_claim)


def spent(ledger: Accountant) -> Fraction:
    return 1 - Fraction(ledger.dataset("census").left["epsilon"])


def granted(ledger: Accountant) -> int:
    return ledger.dataset("census").outcomes.get("granted", 0)


def mean(epsilon=0.25, **more):
    return tools.mean(AGES, epsilon=epsilon, bounds=(0, 120), **more)


MODELS = [
    models.LinearRegression(epsilon=0.25, bounds_X=(-2, 2), bounds_y=(0, 1)),
    models.KMeans(n_clusters=2, epsilon=0.25, bounds=(-2, 2)),
    models.PCA(1, epsilon=0.25, data_norm=4.0, bounds=(-2, 2)),
    models.StandardScaler(epsilon=0.25, bounds=(-2, 2)),
]
STATED = dict.fromkeys(
    ("LinearRegression", "KMeans", "PCA", "StandardScaler", "RandomForestClassifier"), 1
)
TOOLS = [
    lambda b: mean(accountant=b),
    lambda b: tools.var(AGES, epsilon=0.25, bounds=(0, 120), accountant=b),
    lambda b: tools.std(AGES, epsilon=0.25, bounds=(0, 120), accountant=b),
    lambda b: tools.sum(AGES, epsilon=0.25, bounds=(0, 120), accountant=b),
    lambda b: tools.count_nonzero(AGES > 65, epsilon=0.25, accountant=b),
    lambda b: tools.median(AGES, epsilon=0.25, bounds=(0, 120), accountant=b),
    lambda b: tools.quantile(AGES, 0.1, epsilon=0.25, bounds=(0, 120), accountant=b),
]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_is_one_grant_of_its_epsilon(ledger, budget, tool):
    with budget:
        tool(budget)
    assert (spent(ledger), granted(ledger)) == (Fraction(1, 4), 1)
    assert (budget.spent_budget, budget.unanswered) == ([(0.25, 0)], [])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_is_one_grant_of_its_epsilon(ledger, budget, model):
    with budget:
        made = clone(model).set_params(accountant=budget)
        made.fit(POINTS, CLASSES)
    assert (spent(ledger), granted(ledger)) == (Fraction(1, 4), 1)
    assert (budget.spent_budget, budget.unanswered) == ([(0.25, 0)], [])


def forest(**more):
    return models.RandomForestClassifier(3, epsilon=0.25, bounds=(-2, 2), classes=[0, 1], **more)


def test_a_forest_is_charged_itself_or_within_the_block_for_each_tree(ledger, budget):
    # Its trees are made without an accountant, so that they take the one that is in force.
    before = forest(accountant=budget)
    with budget:
        before.fit(POINTS, CLASSES)
        assert granted(ledger) == 1
        with pytest.raises(NotAdmitted):
            forest(accountant=budget).fit(POINTS, CLASSES)
    assert granted(ledger) == 4


def test_a_tool_of_several_parts_is_a_grant_for_each(ledger, budget):
    with budget:
        tools.quantile(AGES, [0.1, 0.5], epsilon=0.5, bounds=(0, 120), accountant=budget)
        tools.mean(POINTS, epsilon=0.375, bounds=(-2, 2), axis=0, accountant=budget)
    assert (spent(ledger), granted(ledger)) == (Fraction(7, 8), 5)


def test_a_tool_that_does_not_fit_does_not_run(ledger, budget):
    class Data(list):
        """Records whether it was read."""

        looked = False

        def __array__(self, *_, **__):
            Data.looked = True
            return np.asarray([1.0, 2.0])

    with budget:
        mean(0.9)
        with pytest.raises(
            NotAdmitted, match=r"exhausted\. .*This would fit: pure:0\.0999"
        ) as refused:
            tools.sum(Data(), epsilon=0.25, bounds=(0, 1), accountant=budget)
        assert not Data.looked
        assert refused.value.reply.reason is Reason.EXHAUSTED
        # As programs catch it that know the one or the other.
        assert isinstance(refused.value, EngineBudgetError)
        assert isinstance(refused.value, NotGranted)
        model = models.StandardScaler(epsilon=0.25, bounds=(-2, 2))
        with pytest.raises(NotAdmitted):
            model.fit(POINTS)
        assert not hasattr(model, "mean_")
    assert len(budget) == granted(ledger) == 1
    assert budget.unanswered == []


def test_within_the_budget_every_tool_asks_the_ledger(ledger, budget):
    before = BudgetAccountant()
    before.set_default()
    with budget:
        mean()
        models.StandardScaler(epsilon=0.25, bounds=(-2, 2)).fit(POINTS)
    assert granted(ledger) == 2
    assert BudgetAccountant.pop_default() is before
    assert len(before) == 0


def test_outside_its_context_a_tool_neither_sends_a_request_nor_runs(ledger, budget):
    with pytest.raises(NotAsked, match="use the budget as a context"):
        mean(accountant=budget)
    with budget:
        model = models.StandardScaler(epsilon=0.25, bounds=(-2, 2))
    with pytest.raises(NotAsked, match="use the budget as a context"):
        model.fit(POINTS, CLASSES)
    assert granted(ledger) == 0


def test_within_the_budget_a_bound_read_from_the_data_is_an_error(budget):
    with budget:
        with pytest.raises(PrivacyLeakWarning):
            tools.mean(AGES, epsilon=0.25, accountant=budget)
        with pytest.raises(PrivacyLeakWarning):
            tools.histogram(AGES, epsilon=0.25, accountant=budget)
        with pytest.raises(PrivacyLeakWarning):
            models.PCA(1, epsilon=0.25, bounds=(-2, 2), accountant=budget).fit(POINTS)
    with pytest.warns(PrivacyLeakWarning):
        tools.mean(AGES, epsilon=0.25, accountant=BudgetAccountant())


def test_warnings_and_the_default_are_restored_when_the_block_fails(budget):
    BudgetAccountant.pop_default()  # diffprivlib makes one where a tool has none
    filters = list(warnings.filters)
    with pytest.raises(KeyError), budget:
        raise KeyError
    assert list(warnings.filters) == filters
    assert BudgetAccountant.pop_default() is None
    with budget, pytest.raises(NotAsked, match="already in use as a context"), budget:
        pytest.fail("entered twice")


def test_a_tool_that_fails_after_its_grant_is_charged_and_its_retry_again(ledger, budget):
    broken = POINTS.copy()
    broken[0, 0] = np.nan
    with budget:
        model = models.KMeans(2, epsilon=0.25, bounds=(-2, 2), accountant=budget)
        with pytest.raises(ValueError, match="NaN"):
            model.fit(broken)
        assert budget.unanswered == [(0.25, 0)]
        model.fit(POINTS)
    assert (spent(ledger), granted(ledger)) == (Fraction(1, 2), 2)
    assert budget.spent_budget == [(0.25, 0)]
    assert budget.unanswered == [(0.25, 0)]


def test_spending_without_a_grant_is_refused(ledger, budget):
    with budget:
        with pytest.raises(NotAsked, match="never granted"):
            budget.spend(0.25, 0)
        budget.check(0.25, 0)
        with pytest.raises(NotAsked, match="never granted"):
            budget.spend(0.5, 0)
        budget.spend(0.25, 0)
        with pytest.raises(NotAsked, match="never granted"):
            budget.spend(0.25, 0)
    assert (spent(ledger), budget.total()) == (Fraction(1, 4), (0.25, 0))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *((epsilon, 0) for epsilon in (math.inf, math.nan, -0.1, 1e300, 1001, "0.1", True, None)),
        *((0.1, delta) for delta in (1.0, -1, math.nan, "0")),
    ],
)
def test_parameters_without_a_claim_are_refused_before_any_request(ledger, budget, epsilon, delta):
    with budget, pytest.raises(RequestInvalid):
        budget.check(epsilon, delta)
    assert granted(ledger) == 0
    assert budget.unanswered == []


def test_epsilon_is_rounded_up_and_delta_is_part_of_the_request(ledger, budget):
    with budget:
        budget.check(np.float64(0.1), 1e-7)
        assert spent(ledger) == pytest.approx(0.1)
        assert spent(ledger) >= Fraction(0.1)
        budget.check(1e-300, 0)
        assert spent(ledger) - Fraction(0.1) >= Fraction(1, 10**12)
        with pytest.raises(NotAdmitted):
            budget.check(0.1, 1e-6)


def test_a_copy_is_the_same_budget_and_pickling_is_refused(budget):
    with budget:
        model = models.KMeans(2, epsilon=0.25, bounds=(-2, 2), accountant=budget)
        assert clone(model).accountant is budget
        assert copy.deepcopy(model).accountant is budget
        assert copy.copy(budget) is budget
        with pytest.raises(TypeError, match="another process"):
            pickle.dumps(model)


@pytest.mark.parametrize("missing", ["unit", "neighbours"])
def test_unit_and_neighbours_have_no_default(ledger, missing):
    arguments = {"analyst": "ana", "unit": "person", "neighbours": "replace"}
    del arguments[missing]
    with pytest.raises(TypeError, match=missing):
        LedgerBudget(ledger, "census", **arguments)


def test_an_unknown_relation_is_refused_at_once_and_a_wrong_one_by_the_ledger(ledger):
    with pytest.raises(RequestInvalid, match="neighbours must be one of"):
        LedgerBudget(ledger, "census", analyst="ana", unit="person", neighbours="bounded")
    budget = LedgerBudget(ledger, "census", analyst="ana", unit="person", neighbours="add_remove")
    with budget, pytest.raises(NotAdmitted, match="unit_mismatch"):
        tools.median(AGES, epsilon=0.25, bounds=(0, 120), accountant=budget)
    assert granted(ledger) == 0


def test_remaining_refers_to_the_ledger(budget):
    with budget, pytest.raises(NotImplementedError, match=r"Read ledger\.dataset"):
        budget.remaining()


@every_case(
    ("mechanism", "kind"),
    [
        (mechanisms.Laplace(epsilon=0.1, sensitivity=1), Pure),
        (mechanisms.Laplace(epsilon=0.1, delta=1e-7, sensitivity=1), Approximate),
        (mechanisms.Geometric(epsilon=0.1, sensitivity=1), Pure),
        (mechanisms.Gaussian(epsilon=0.1, delta=1e-7, sensitivity=1), Approximate),
        (mechanisms.Exponential(epsilon=0.1, sensitivity=1, utility=[1, 2, 3]), Pure),
        (mechanisms.Binary(epsilon=0.1, value0="no", value1="yes"), Pure),
    ],
)
def test_a_mechanism_is_its_epsilon_and_delta(mechanism, kind):
    claim, unit, neighbours = mechanism_claim(mechanism, unit="person", neighbours="replace")
    assert (type(claim), unit, neighbours) == (kind, "person", "replace")
    assert 0 <= Fraction(claim.epsilon) - Fraction(0.1) < Fraction(1, 10**18)
    delta = Fraction(getattr(claim, "delta", 0)) - Fraction(mechanism.delta)
    assert 0 <= delta < Fraction(1, 10**24)


class Cheap(mechanisms.Laplace):
    """A user's own mechanism."""


@every_case(
    "value", [Cheap(epsilon=0.1, sensitivity=1), mechanisms.Laplace, 0.1, None, BudgetAccountant()]
)
def test_a_non_mechanism_is_refused(value):
    with pytest.raises(
        TypeError, match=r"mechanism must be one of diffprivlib\.mechanisms, got .* Pass"
    ):
        mechanism_claim(value, unit="person", neighbours="replace")


def test_a_mechanism_whose_noise_can_be_known_has_no_claim():
    for state in (1, np.random.RandomState(1), np.random.mtrand._rand):
        seeded = mechanisms.Laplace(epsilon=0.1, sensitivity=1, random_state=state)
        with pytest.raises(RequestInvalid, match="random_state must be None"):
            mechanism_claim(seeded, unit="person", neighbours="replace")


def test_a_vector_has_no_claim():
    vector = mechanisms.Vector(epsilon=1, function_sensitivity=0.25, dimension=2)
    with pytest.raises(RequestInvalid, match="mechanism must not be Vector"):
        mechanism_claim(vector, unit="person", neighbours="replace")


def test_a_mechanism_without_noise_or_unit_has_no_claim():
    loud = mechanisms.Laplace(epsilon=math.inf, sensitivity=1)
    with pytest.raises(RequestInvalid, match="epsilon must be finite"):
        mechanism_claim(loud, unit="person", neighbours="replace")
    with pytest.raises(TypeError, match="unit"):
        mechanism_claim(mechanisms.Laplace(epsilon=0.1, sensitivity=1), neighbours="replace")


def test_a_mechanism_is_released(ledger, tmp_path):
    counted = mechanisms.Geometric(epsilon=0.25, sensitivity=1)
    claim = mechanism_claim(counted, unit="person", neighbours="replace")
    older = int((AGES > 65).sum())
    again = {
        "request_id": ledger.new_request_id(),
        "analyst": "ana",
        "store": tmp_path / "answers.db",
    }
    first = ledger.release("census", claim, lambda: counted.randomise(older), **again)
    assert ledger.release("census", claim, lambda: counted.randomise(older), **again) == first
    assert spent(ledger) == Fraction(1, 4)
