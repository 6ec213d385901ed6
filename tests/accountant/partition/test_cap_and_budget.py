"""The most one request may take, a budget that is lowered, and records that follow another."""

from __future__ import annotations

import json
from fractions import Fraction

import msgspec
import pytest

from accountant.amounts import format_units
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.claims.text import parse_claim
from accountant.policy import Policy
from accountant.policy.compiled_policy import open_plan
from accountant.records import Decision, encode
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant.world import World, code, opened
from tests.every_case import check_each

BASIC = {"filter": "basic", "epsilon": "1"}
CAPPED = {**BASIC, "most_per_request": "0.1"}
OTHERS = {
    "zcdp_tight": {"epsilon": "1", "delta": "1e-6"},
    "fully_adaptive": {"filter": "fully_adaptive", "epsilon": "1", "delta": "1e-6"},
    "gdp_residue": {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"},
    "advanced_2016": {"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6"},
    "renyi": {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": "16"},
    "zcdp": {"filter": "zcdp", "rho": "0.2", "delta": "1e-6"},
}


def amend(world: World, **fields: object) -> Decision:
    return world.send("admin", world.admin("amend", **fields))


def sound(world: World) -> bool:
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement
    return state_rows(world.replayed()) == world.rows()


def test_a_request_above_the_cap_is_refused_and_the_cap_is_offered() -> None:
    world = opened(**CAPPED)
    refused = world.ask("pure:0.5")
    assert (refused.outcome, refused.reason) == (Outcome.REFUSED, Reason.ABOVE_CAP)
    assert (refused.cost, refused.fits) == (None, "pure:0.1")
    assert refused.asked == {"epsilon": "0.5", "delta": "0"}
    assert code(world.ask("pure:7")) == "above_cap"
    assert [code(world.ask("pure:0.1")) for _ in range(10)] == ["granted"] * 10
    assert world.ask("pure:0.1").reason is Reason.EXHAUSTED
    assert sound(world)


def test_the_offered_claim_obeys_the_cap_and_the_remaining_budget() -> None:
    world = opened(**CAPPED)
    for _ in range(9):
        world.ask("pure:0.1")
    world.ask("pure:0.06")
    assert world.ask("pure:0.1").fits == "pure:0.04"
    assert world.ask("pure:0.3").fits == "pure:0.04"
    fresh = opened(**CAPPED)
    assert fresh.ask("20*pure:0.01").fits == "10*pure:0.01"
    assert code(fresh.ask("10*pure:0.01")) == "granted"
    assert sound(world)
    assert sound(fresh)


def test_the_cap_has_a_slack_and_a_budget_or_limit_has_none() -> None:
    ways: list[dict[str, object]] = [{}, {"reserve": {"until": "PT1H"}}]

    def check_case(name: str, knob: str, way: dict[str, object]) -> None:
        policy = BASIC if name == "basic" else OTHERS[name]
        world = opened(**policy, most_per_request="0.1")
        budget = world.ledger().plan.capacity[0]
        most = int(budget) * (10**9 + 1) // 10**10

        def ask(units: int, **more: object) -> Decision:
            kind = "pure" if knob == "epsilon" else "zcdp"
            return world.ask({"type": kind, knob: format_units(units)}, **more)

        refused = ask(most + 1, **way)
        assert refused.reason is Reason.ABOVE_CAP
        assert refused.fits is not None
        if int(budget) == 10**40:
            assert refused.fits == "pure:0.1"
        assert code(ask(most, **way)) in {"granted", "reserved"}
        assert code(amend(world, most_per_request="1")) == "amended"
        assert ask(int(budget) - most + 1, **way).reason is Reason.EXHAUSTED
        assert code(ask(int(budget) - most, **way)) in {"granted", "reserved"}
        assert sound(world)

    check_each(check_case, ["basic"], ["epsilon"], ways)
    check_each(check_case, ["zcdp", "zcdp_tight"], ["rho"], ways)
    world = opened(**CAPPED)
    limit = world.admin("limit", scope="analyst", name="ana", part="0.1")
    assert code(world.send("admin", limit)) == "limit_set"
    tenth = "pure:0.1000000000000000055511151231257827021182"  # a float, rounded up
    assert world.ask(tenth).reason is Reason.EXHAUSTED
    assert code(world.ask(tenth, analyst="ben")) == "granted"


def test_the_cap_bounds_the_spent_ratio_of_a_single_request() -> None:
    def check_case(claim: str, kind: str) -> None:
        policy = {**OTHERS[kind], "most_per_request": "0.05"}
        plan = open_plan(msgspec.convert(policy, Policy))
        world = opened(**policy)
        refused = world.ask(claim)
        if refused.reason is Reason.CLAIM_NOT_ACCEPTED:
            return
        assert refused.reason is Reason.ABOVE_CAP
        assert refused.fits is not None
        granted = world.ask(refused.fits)
        assert granted.outcome is Outcome.GRANTED
        share = Fraction(int(world.ledger().plan.progress(world.ledger().totals)), plan.capacity[0])
        assert Fraction(45, 1000) < share <= Fraction(5, 100)
        assert sound(world)

    check_each(check_case, ["pure:0.5", "gaussian:sigma=3,sensitivity=1", "zcdp:rho=0.02"], OTHERS)


def test_a_refusal_for_the_cap_neither_halts_nor_crosses_a_threshold() -> None:
    world = opened(**CAPPED, halt_on_refusal=True)
    refused = world.ask("pure:0.2")
    assert (refused.reason, refused.crossed) == (Reason.ABOVE_CAP, ())
    assert code(world.ask("pure:0.1")) == "granted"


def test_the_cap_is_amended() -> None:
    world = opened(**BASIC)
    assert code(amend(world, most_per_request="0.1")) == "amended"
    assert code(world.ask("pure:0.2")) == "above_cap"
    assert code(amend(world, most_per_request="1")) == "amended"
    assert code(world.ask("pure:0.2")) == "granted"
    assert code(amend(world, horizon="P9D")) == "amended"
    assert world.ledger().plan.policy.most_per_request == "1"
    for wrong in ("0", "1.1", "x", "-0.1"):
        assert amend(world, most_per_request=wrong).outcome is Outcome.INVALID
    assert sound(world)


@pytest.mark.parametrize("ratio", ["0", "1.01", "nan", "1e-50"])
def test_a_cap_that_is_none_is_invalid(ratio: str) -> None:
    world = World()
    decision = world.open(**BASIC, most_per_request=ratio)
    assert decision.outcome is Outcome.INVALID
    assert decision.error is not None
    assert decision.error.field == "policy.most_per_request"


def test_lowering_a_budget_keeps_access_and_visibility() -> None:
    closed = {"access": "members", "visibility": "own"}
    world = opened(epsilon="2", delta="1e-6", **closed)
    amended = amend(world, policy={"epsilon": "1", "delta": "1e-6"})
    assert amended.policy is not None
    assert {name: getattr(amended.policy, name) for name in closed} == closed
    assert code(world.ask("pure:0.1")) == "not_permitted"
    wider = amend(world, policy={"epsilon": "1", "delta": "1e-6", "visibility": "members"})
    assert wider.policy is not None
    assert (wider.policy.access, wider.policy.visibility) == ("members", "members")
    other = amend(world, policy={"epsilon": "1", "delta": "1e-6", "population": "others"})
    assert code(other) == "not_lower"


def test_a_budget_that_others_are_added_to_is_not_lowered() -> None:
    world = opened(epsilon="2", delta="1e-6", population="people")
    assert code(amend(world, policy={"epsilon": "1", "delta": "1e-6"})) == "not_lower"


def test_a_budget_is_lowered_while_nothing_was_granted() -> None:
    world = opened(epsilon="2", delta="1e-6")
    world.ask("pure:50")  # a refusal is no grant
    lower = {"epsilon": "1", "delta": "1e-6", "odometers": [], "most_per_request": "0.5"}
    amended = amend(world, policy=lower)
    assert amended.outcome is Outcome.AMENDED
    fresh = opened(**lower)
    assert world.ledger().plan.capacity == fresh.ledger().plan.capacity
    assert sound(world)
    assert code(world.ask("pure:0.1")) == "granted"
    assert code(amend(world, policy={**lower, "epsilon": "0.5"})) == "already_granted"
    assert sound(world)


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": "1.1", "delta": "1e-6"},
        {"epsilon": "1", "delta": "2e-6"},
        {"epsilon": "1.1", "delta": "1e-9"},
        {"epsilon": "0.5", "delta": "1e-6", "unit": "visit"},
        {"epsilon": "0.5", "delta": "1e-6", "neighbours": "replace"},
        {"epsilon": "0.5", "filter": "basic"},
        {"rho": "0.001", "delta": "1e-6", "filter": "zcdp"},
    ],
)
def test_nothing_else_is_a_lower_budget(other: dict[str, str]) -> None:
    world = opened(epsilon="1", delta="1e-6")
    assert code(amend(world, policy=other)) == "not_lower"
    assert amend(world, policy={"epsilon": "-1"}).outcome is Outcome.INVALID
    assert amend(world, policy=other, horizon="P9D").outcome is Outcome.INVALID
    assert sound(world)


def test_an_audit_notices_a_budget_that_an_amendment_raises_or_lowers_too_late() -> None:
    for granted in (False, True):
        world = opened(**BASIC)
        if granted:
            world.ask("pure:0.1")
        last = amend(world, horizon="P9D")
        for budget in ("2", "0.5"):
            forged = msgspec.structs.replace(last, budget={"epsilon": budget, "delta": "0"})
            assert not audit([*world.log[:-1], encode(forged)]).ok


def test_a_record_that_follows_another_decision_acts_once() -> None:
    world = opened(**BASIC)
    body = json.loads(world.admin("amend", alert_at=["0.5"], follows=1))
    assert code(world.send("admin", json.dumps(body).encode())) == "amended"
    again = json.dumps(body | {"request_id": world.new_id()}).encode()
    assert code(world.send("admin", again)) == "out_of_date"
    assert code(world.send("admin", world.admin("close", follows=9))) == "out_of_date"
    assert code(world.send("admin", world.admin("close", follows=world.ledger().sequence))) == (
        "closed"
    )
    for wrong in ("1", True, 1.5, [1]):
        decision = world.send("admin", world.admin("close", follows=wrong))
        assert decision.outcome is Outcome.INVALID
    assert sound(world)


def test_the_cap_costs_no_search() -> None:
    plan = open_plan(msgspec.convert(CAPPED, Policy))
    assert plan.cap is not None
    asked = price(check_claim(parse_claim("pure:0.1")), plan.priced)
    assert plan.cap.admits(asked)
    assert open_plan(msgspec.convert(BASIC, Policy)).cap is None
