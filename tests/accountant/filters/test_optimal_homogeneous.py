"""One declared epsilon: which claims count, how many fit, and what never changes."""

from __future__ import annotations

from typing import Any

import pytest

from accountant.amounts import UNIT
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.filters.optimal_homogeneous import OptimalHomogeneousFilter
from accountant.policy import Policy, guarantee_of
from accountant.replay.audit import audit
from tests.accountant.filters.policies import plan_of
from tests.accountant.filters.rules import composed
from tests.accountant.world import World, code
from tests.every_case import check_rows

NAME = "optimal_homogeneous"


def policy(**changes: Any) -> Policy:
    fields = {"epsilon": "1", "delta": "1e-6", "epsilon_each": "0.01"} | changes
    return Policy(filter=NAME, **fields)


def test_only_claims_of_the_declared_epsilon_are_accepted() -> None:
    def check_case(claim: str, counted: int | None) -> None:
        plan = plan_of(policy())
        asked = price(check_claim(parse_claim(claim)), plan.kind.needs)
        assert plan.kind.accepts(asked) == (counted is not None)
        if counted is not None:
            assert asked.amounts[0] == counted * UNIT

    check_rows(
        check_case,
        [
            ("pure:0.01", 1),
            ("pure:0.004", 1),
            ("pure:1e-12", 1),
            ("pure:0", 0),
            ("laplace:scale=100,sensitivity=1", 1),
            ("laplace:scale=101,sensitivity=1", 1),
            ("bounded_range:0.01", 1),
            ("bounded_range:0.0101", None),
            ("randomized_response:epsilon=0.01,delta=0", 1),
            ("ex_post:epsilon=0.01,delta=0", 1),
            ("approximate:epsilon=0.01,delta=1e-9", 1),
            ("approximate:epsilon=0,delta=1e-9", 0),
            ("probabilistic:epsilon=0.01,delta=1e-9", 1),
            ("3*(pure:0.01+pure:0.002+pure:0)", 6),
            ("pure:0.0100000000000000000000000000000000000001", None),
            ("laplace:scale=99,sensitivity=1", None),
            ("gaussian:sigma=1000,sensitivity=1", None),
            ("gdp:0.001", None),
            ("zcdp:1e-9", None),
            ("approximate_zcdp:rho=1e-9,delta=1e-12", None),
            ("brownian:variance=1000000,sensitivity=1", None),
            ("subsampled_gaussian:sigma=1000,sensitivity=1,rate=0.01", None),
            ("2*pure:0.01+pure:0.02", None),
        ],
    )


def test_the_stored_budget_is_the_number_and_its_sum_names_the_epsilon() -> None:
    plan = plan_of(policy(epsilon_each="0.010", delta="2e-6", delta_for_claims="1e-6"))
    assert plan.budget_wire == {"within_0.01": "562", "delta": "0.000001"}
    assert guarantee_of(plan.policy).delta == 2 * guarantee_of(policy()).delta


def test_a_policy_that_breaks_a_rule_of_the_filter_is_refused() -> None:
    def check_case(changes: dict[str, Any], field: str, rule: str) -> None:
        made = policy(**changes)
        if made.epsilon_each is None:
            made = Policy(filter=NAME, epsilon="1", delta="1e-6")
        with pytest.raises(RequestInvalid, match=rule) as caught:
            plan_of(made)
        assert caught.value.field == f"policy.{field}"

    check_rows(
        check_case,
        [
            ({"epsilon_each": None}, "epsilon_each", "must be given"),
            (
                {"epsilon_each": "1e-6"},
                "epsilon_each",
                "must be larger: .*10,000,000 of it, got 1e-6",
            ),
            ({"epsilon_each": "1.5"}, "epsilon_each", "must be smaller: not one fits"),
            ({"epsilon_each": "0"}, "epsilon_each", "must be between"),
            ({"epsilon_each": "1001"}, "epsilon_each", "must be between"),
            ({"epsilon_each": "a"}, "epsilon_each", "must be a plain decimal"),
            ({"delta": "0"}, "delta", "must be greater than 0"),
            ({"delta_for_claims": "1e-6"}, "delta", "must exceed delta_for_claims"),
        ],
    )


def test_the_number_is_tight() -> None:
    """562 responses have 0.967 of the delta, and one more has more than all of it."""
    assert 0.96e-6 < composed(562, "0.01", "1") <= 1e-6 < composed(563, "0.01", "1")


def test_a_ledger_grants_the_number_and_nothing_larger() -> None:
    world = World()
    opened = world.open(filter=NAME, epsilon="1", delta="1e-6", epsilon_each="0.05")
    assert code(opened) == "opened"
    larger = world.ask({"type": "pure", "epsilon": "0.06"})
    assert (code(larger), larger.fits) == ("claim_not_accepted", None)
    count = int(opened.budget["within_0.05"])
    small = {"type": "pure", "epsilon": "0.03"}
    assert [code(world.ask(small)) for _ in range(count)] == ["granted"] * count
    refused = world.ask({"type": "repeat", "claim": small, "times": 2})
    assert (code(refused), refused.fits) == ("exhausted", None)
    assert code(world.ask({"type": "pure", "epsilon": "0"})) == "granted"
    assert world.ledger().spent_ratio == 1
    assert audit(world.log).ok


def test_a_batch_that_does_not_fit_is_offered_in_part() -> None:
    world = World()
    world.open(filter=NAME, epsilon="1", delta="1e-6", epsilon_each="0.1")
    refused = world.ask("11*pure:0.02")
    assert refused.fits == "10*pure:0.02"


def test_lowering_the_budget_keeps_the_declared_epsilon() -> None:
    world = World()
    fields = {"filter": NAME, "epsilon": "1", "delta": "1e-6"}
    world.open(**fields, epsilon_each="0.01")
    lower = {**fields, "epsilon": "0.5"}
    assert code(world.amend(policy={**lower, "epsilon_each": "0.005"})) != "amended"
    assert code(world.amend(policy={**lower, "epsilon_each": "0.01"})) == "amended"
    assert world.ledger().plan.budget_wire["within_0.01"] == "156"
    assert audit(world.log).ok


def test_its_parameter_has_a_default_nowhere() -> None:
    with pytest.raises(RequestInvalid, match="must be given for this filter"):
        OptimalHomogeneousFilter()
