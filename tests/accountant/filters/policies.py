"""One policy of every filter, for the tests that all of them must pass."""

from __future__ import annotations

from typing import Any, Final

from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS, Filter
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan

WITH_DELTA: Final = {"delta": "2e-6", "delta_for_claims": "1e-6"}

_OWN: Final[dict[str, Policy]] = {
    "basic": Policy(filter="basic", epsilon="1", delta="1e-6"),
    "advanced_2016": Policy(filter="advanced_2016", epsilon="1", delta="1e-6"),
    "fully_adaptive": Policy(filter="fully_adaptive", epsilon="1", **WITH_DELTA),
    "zcdp": Policy(filter="zcdp", rho="0.05", delta="1e-6"),
    "zcdp_tight": Policy(filter="zcdp_tight", epsilon="1", **WITH_DELTA),
    "ex_post": Policy(filter="ex_post", epsilon="1", delta="1e-6"),
    "split": Policy(
        filter="split",
        epsilon="1",
        **WITH_DELTA,
        epsilon_ex_post="0.7",
        delta_ex_post="1e-7",
    ),
    "unified_brownian": Policy(filter="unified_brownian", epsilon="1", **WITH_DELTA),
    "gdp_residue": Policy(filter="gdp_residue", epsilon="1", **WITH_DELTA),
    "optimal_homogeneous": Policy(
        filter="optimal_homogeneous", epsilon="1", **WITH_DELTA, epsilon_each="0.1"
    ),
    "renyi": Policy(filter="renyi", epsilon="1", delta="1e-6", order="22"),
    "renyi_weighted": Policy(
        filter="renyi_weighted",
        epsilon="1",
        delta="1e-6",
        orders=("18", "40.5", "2000"),
        weights=("0.5", "0.3", "0.2"),
    ),
    "renyi_mixture": Policy(
        filter="renyi_mixture",
        epsilon="1",
        delta="1e-6",
        orders=("18", "24", "40.5"),
        weights=("0.5", "0.3", "0.2"),
    ),
}
"""Each leaves claims a delta of their own where it takes such claims."""


def plan_of(policy: Policy) -> CompiledPolicy:
    return open_plan(resolve(policy))


def opened(policy: Policy) -> DatasetLedger:
    return DatasetLedger.new("census", plan_of(policy), 0)


def sample(kind: type[Filter]) -> Policy:
    """Return a policy of any filter: its parameters are the examples that its class gives."""
    parameters: dict[str, Any] = {name: each.example for name, each in kind.parameters.items()}
    budget = {"epsilon": "1"} if "epsilon" in kind.budget_fields else {"rho": "0.05"}
    try:
        policy = Policy(filter=kind.name, **budget, **WITH_DELTA, **parameters)
        plan_of(policy)
    except RequestInvalid:  # it leaves claims no delta
        policy = Policy(filter=kind.name, **budget, delta="1e-6", **parameters)
    return policy


POLICIES: Final = {name: _OWN.get(name) or sample(kind) for name, kind in FILTERS.items()}
"""One of each filter."""
