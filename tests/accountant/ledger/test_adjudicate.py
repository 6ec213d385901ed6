"""Scenarios: under a policy, one request a line, expected code last."""

from __future__ import annotations

import pytest

from accountant.records.outcomes import Outcome
from tests.accountant.world import World, code, opened

TIGHT = {"epsilon": "1", "delta": "1e-6"}
BASIC = {"filter": "basic", "epsilon": "1", "delta": "0"}

SCENARIOS: dict[str, tuple[dict[str, object], str]] = {
    "ten tenths fit one exactly": (
        BASIC,
        """
        pure:0.1 x10                                granted
        pure:0.1                                    exhausted
        pure:1e-12                                  exhausted
        pure:0                                      granted
        """,
    ),
    "a refusal leaves the filter open for less": (
        BASIC,
        """
        pure:0.6                                    granted
        pure:0.5                                    exhausted
        pure:0.4                                    granted
        """,
    ),
    "the first request of all is checked": (
        BASIC,
        """
        pure:1.0000000000000000000000000000000000001  exhausted
        pure:1                                      granted
        """,
    ),
    "basic takes only what has an epsilon": (
        BASIC,
        """
        zcdp:0.001                                  claim_not_accepted
        zcdp:0                                      claim_not_accepted
        gdp:0.001                                   claim_not_accepted
        gaussian:sigma=1000,sensitivity=1           claim_not_accepted
        approximate_zcdp:rho=0.001,delta=0          claim_not_accepted
        laplace:scale=10,sensitivity=1              granted
        bounded_range:0.1                           granted
        randomized_response:0.1                     granted
        pure:0.1+gaussian:sigma=1000,sensitivity=1  claim_not_accepted
        3*zcdp:0.001                                claim_not_accepted
        pure:0.7                                    granted
        pure:1e-12                                  exhausted
        """,
    ),
    "an unaccepted claim is not counted as zero even when nothing is left": (
        BASIC,
        """
        pure:1                                      granted
        zcdp:0.001                                  claim_not_accepted
        """,
    ),
    "deltas have a budget of their own": (
        {"filter": "basic", "epsilon": "1", "delta": "3e-6"},
        """
        approximate:0.01,1e-6 x3                    granted
        approximate:0.01,1e-40                      exhausted
        pure:0.01                                   granted
        """,
    ),
    "tight zcdp leaves claims no delta by default": (
        TIGHT,
        """
        approximate:0.01,1e-9                       claim_not_accepted
        approximate:0.01,0                          granted
        pure:0.01 x486                              granted
        pure:0.01                                   exhausted
        """,
    ),
    "487 queries of 0.01 fit": (TIGHT, "pure:0.01 x487 granted\n pure:0.01 exhausted"),
    "so do they as one batch": (TIGHT, "487*pure:0.01 granted\n pure:0.01 exhausted"),
    "488 in one batch do not": (TIGHT, "488*pure:0.01 exhausted\n 487*pure:0.01 granted"),
    "349 fit fully_adaptive": (
        {"filter": "fully_adaptive", "epsilon": "1", "delta": "1e-6"},
        "pure:0.01 x349 granted\n pure:0.01 exhausted",
    ),
    "zcdp counts rho": (
        {"filter": "zcdp", "rho": "0.5", "delta": "0"},
        """
        gaussian:sigma=1,sensitivity=0.5            granted
        gdp:0.5                                     granted
        zcdp:0.25                                   granted
        zcdp:1e-25                                  exhausted
        """,
    ),
    "another unit or relation is refused before its price": (
        BASIC,
        """
        zcdp:0.1       unit=household               unit_mismatch
        pure:0.1       unit=household               unit_mismatch
        pure:0.1       neighbours=replace           unit_mismatch
        pure:0.1                                    granted
        """,
    ),
    "a policy may let the first that does not fit be the end": (
        BASIC | {"halt_on_refusal": True},
        """
        zcdp:0.1                                    claim_not_accepted
        pure:0.1       unit=household               unit_mismatch
        pure:0.6                                    granted
        pure:0.5                                    exhausted
        pure:0.1                                    halted
        pure:0                                      halted
        zcdp:0.1                                    halted
        pure:0.1       unit=household               halted
        """,
    ),
    "written out as false it is not": (
        BASIC | {"halt_on_refusal": False},
        "pure:2 exhausted\n pure:1 granted",
    ),
    "advanced_2016 takes what has an epsilon, and half of delta": (
        {"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6"},
        """
        zcdp:0.001                                  claim_not_accepted
        gaussian:sigma=1000,sensitivity=1           claim_not_accepted
        approximate:0.01,5.1e-7                     claim_not_accepted
        approximate:0.01,5e-7                       granted
        approximate:0.01,1e-40                      exhausted
        pure:0.01 x146                              granted
        pure:0.01                                   exhausted
        """,
    ),
    "147 in one batch, too": (
        {"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6"},
        "148*pure:0.01 exhausted\n 147*pure:0.01 granted\n pure:0.01 exhausted",
    ),
    "ex_post takes nothing else": (
        {"filter": "ex_post", "epsilon": "1", "delta": "1e-6"},
        """
        pure:0.1                                    claim_not_accepted
        zcdp:0.1                                    claim_not_accepted
        ex_post:0.5+pure:0.1                        claim_not_accepted
        ex_post:0.7,1e-6                            granted
        ex_post:0.3,1e-40                           exhausted
        ex_post:0.3                                 granted
        ex_post:1e-12                               exhausted
        """,
    ),
    "elsewhere an ex-post claim is a pure one": (
        TIGHT,
        """
        ex_post:0.01 x200                           granted
        pure:0.01 x287                              granted
        ex_post:0.01                                exhausted
        """,
    ),
    "split has two budgets": (
        {"filter": "split", "epsilon": "1", "delta": "1e-6", "epsilon_ex_post": "0.3"},
        """
        ex_post:0.3                                 granted
        ex_post:0.1                                 exhausted
        ex_post:0.1,1e-9                            claim_not_accepted
        487*pure:0.01                               granted
        pure:0.01                                   exhausted
        zcdp:0.001                                  exhausted
        """,
    ),
    "refinements of two sessions share one budget": (
        {"filter": "unified_brownian", "rho": "0.01", "delta": "0"},
        """
        brownian:variance=400,sensitivity=1         granted
        brownian:variance=200,sensitivity=1         granted
        brownian:variance=100,sensitivity=1,previous=400   granted
        brownian:variance=100,sensitivity=1,previous=200   granted
        brownian:variance=99,sensitivity=1,previous=100    exhausted
        zcdp:1e-25                                  exhausted
        """,
    ),
    "a batch is granted or refused whole": (
        BASIC,
        """
        pure:0.6+pure:0.6                           exhausted
        pure:0.6+pure:0.4                           granted
        """,
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    policy, table = SCENARIOS[name]
    world = opened(**policy)
    for line in filter(None, map(str.strip, table.splitlines())):
        claim, *words, expected = line.split()
        times = next((int(word[1:]) for word in words if word[0] == "x"), 1)
        fields = dict(word.split("=") for word in words if "=" in word)
        for i in range(times):
            before = world.ledger()
            decision = world.ask(claim, **fields)
            assert code(decision) == expected, f"{line}, round {i}"
            after = world.ledger()
            assert after.sequence == before.sequence + 1
            if decision.outcome is not Outcome.GRANTED:
                assert (after.totals, after.mechanisms) == (before.totals, before.mechanisms)
                assert decision.cost is None


def test_a_refusal_has_the_cost_the_remaining_budget_and_a_claim_that_fits() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.75")
    refusal = world.ask("pure:0.5")
    assert refusal.asked is not None
    assert refusal.asked["epsilon"] == "0.5"
    assert refusal.left == {"epsilon": "0.25", "delta": "0"}
    assert refusal.fits == "pure:0.25"
    assert code(world.ask(refusal.fits)) == "granted"


def test_closing_stops_grants_and_comes_before_all_other_refusals() -> None:
    world = opened(**BASIC)
    world.ask("pure:1")
    assert code(world.close()) == "closed"
    for claim in ("pure:0.1", "zcdp:0.1"):
        assert code(world.ask(claim)) == "closed"
        assert code(world.ask(claim, unit="household")) == "closed"
    again = world.close()
    assert (again.outcome, code(again)) == (Outcome.REFUSED, "closed")
    assert code(world.amend(horizon="P1D")) == "closed"
    assert code(world.open()) == "invalid_field"
    assert code(world.open(**BASIC)) == "already_opened"


def test_unit_mismatch_comes_before_claim_not_accepted_and_that_before_exhausted() -> None:
    world = opened(**BASIC)
    world.ask("pure:1")
    assert code(world.ask("zcdp:5", unit="household")) == "unit_mismatch"
    assert code(world.ask("zcdp:5")) == "claim_not_accepted"
    assert code(world.ask("pure:5")) == "exhausted"


def test_thresholds_are_crossed_once_each_by_the_decision_that_reaches_them() -> None:
    world = opened(**BASIC, alert_at=["0.25", "0.5", "1"])
    steps = [
        ("pure:0.2499", ()),
        ("pure:0.0001", ("0.25",)),
        ("pure:0.1", ()),
        ("pure:0.65", ("0.5", "1")),
        ("pure:0.1", ()),
    ]
    assert [world.ask(claim).crossed for claim, _ in steps] == [crossed for _, crossed in steps]
    assert world.ledger().exhausted


@pytest.mark.parametrize(
    ("spent", "crossed", "exhausted"),
    [("0.9499", (), False), ("0.95", ("1",), True), ("0.9999", ("1",), True)],
)
def test_a_refusal_within_5_percent_of_the_end_crosses_threshold_1(
    spent: str, crossed: tuple[str, ...], exhausted: bool
) -> None:
    world = opened(**BASIC, alert_at=["0.1", "1"])
    assert world.ask(f"pure:{spent}").crossed == ("0.1",)
    refusal = world.ask("pure:0.2")
    assert (code(refusal), refusal.crossed) == ("exhausted", crossed)
    assert world.ledger().exhausted is exhausted
    assert world.ask("pure:0.2").crossed == ()


def test_a_refusal_for_another_reason_crosses_no_threshold() -> None:
    world = opened(**BASIC, alert_at=["1"])
    world.ask("pure:0.96")
    assert world.ask("zcdp:1").crossed == ()
    assert world.ask("pure:1", unit="household").crossed == ()
    assert not world.ledger().exhausted


def test_amending_changes_thresholds_and_horizon_and_nothing_else() -> None:
    world = opened(**BASIC, alert_at=["0.9"])
    world.ask("pure:0.5")
    before = world.ledger()
    decision = world.amend(alert_at=["0.3", "0.6"], horizon="P7D")
    after = world.ledger()
    assert code(decision) == "amended"
    assert decision.policy is not None
    assert (decision.policy.alert_at, decision.policy.horizon) == (("0.3", "0.6"), "P7D")
    assert decision.budget == {"epsilon": "1", "delta": "0"}
    assert (after.totals, after.plan.capacity) == (before.totals, before.plan.capacity)
    assert after.crossed == 1  # passed before it was there: no later decision crosses it
    assert world.ask("pure:0.1").crossed == ("0.6",)
    kept = world.amend(horizon="P8D")
    assert kept.policy is not None
    assert kept.policy.alert_at == ("0.3", "0.6")


def test_an_opening_records_every_default() -> None:
    world = World()
    decision = world.open(epsilon="1", delta="1e-6")
    assert decision.policy is not None
    assert decision.policy.filter == "zcdp_tight"
    assert decision.policy.delta_for_claims == "0"
    assert decision.policy.odometers is not None
    (odometer,) = decision.policy.odometers
    assert str(odometer.__struct_config__.tag) == "one_sided_mixture"
    assert decision.sequence == 1
    assert decision.budget is not None
    # The capacity to 9 digits: 487 requests of 0.01 tanh(0.005) below it.
    assert decision.budget["rho"].startswith("0.02435597035953837")


def test_requests_of_zero_cost_are_granted_for_ever() -> None:
    world = opened(**BASIC)
    world.ask("pure:1")
    assert [code(world.ask("pure:0")) for _ in range(3)] == ["granted"] * 3
    assert code(world.ask("laplace:scale=1,sensitivity=0")) == "granted"


@pytest.mark.parametrize(("last", "reached"), [("pure:0.1", True), ("pure:0.0999", False)])
def test_a_budget_that_is_spent_to_the_last_unit_is_exhausted(last: str, reached: bool) -> None:
    world = opened(**BASIC)
    assert code(world.ask("9*pure:0.1")) == "granted"
    assert not world.ledger().exhausted
    assert code(world.ask(last)) == "granted"
    assert world.ledger().exhausted is reached
    assert world.replayed().ledgers["census"].exhausted is reached
