"""Basic composition beside a filter: either admits; alone, basic composition ends the filter."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from accountant.advice.fit import fit, unspent
from accountant.amounts import UNIT, Units
from accountant.claims import ExPost, check_claim
from accountant.claims.price import price
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.filters.beside import ENDED, WITHOUT
from accountant.ledger.adjudicate import adjudicate
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records import Decision
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant.filters.policies import POLICIES, opened
from tests.accountant.returned import by_paying, by_voiding
from tests.accountant.world import World
from tests.every_case import check_each

BUDGET: dict[str, Any] = {"epsilon": "1", "delta": "1e-6"}
WITH_DELTA: dict[str, Any] = {"epsilon": "1", "delta": "2e-6", "delta_for_claims": "1e-6"}
SIZES = ("pure:0.01", "pure:0.1", "pure:0.3", "gaussian:sigma=30,sensitivity=1")
TAKERS = sorted(name for name, kind in FILTERS.items() if kind.takes_beside)


def beside(name: str, **fields: Any) -> Policy:
    return msgspec.structs.replace(POLICIES[name], beside="basic", **fields)


def plan_of(policy: Policy) -> CompiledPolicy:
    return open_plan(resolve(policy))


def count(policy: Policy, claim: str) -> int | None:
    return fit(parse_claim(claim), unspent(plan_of(policy))).count


def world_of(name: str = "zcdp_tight", **fields: Any) -> World:
    world = World()
    world.open(**{"filter": name, "beside": "basic", **BUDGET, **fields})
    return world


def marks(decision: Decision) -> tuple[str, str]:
    assert decision.totals is not None
    return str(decision.totals[ENDED]), str(decision.totals[WITHOUT])


@pytest.mark.parametrize(
    ("name", "counts"),
    [("gdp_residue", (558, 10, 5)), ("zcdp_tight", (487, 10, 5)), ("fully_adaptive", (349, 10, 5))],
)
def test_requests_of_one_size_get_the_better_of_both(name: str, counts: tuple[int, ...]) -> None:
    policy = Policy(filter=name, beside="basic", **BUDGET)
    sizes = ("pure:0.01", "pure:0.1", "pure:0.2")
    assert tuple(count(policy, size) for size in sizes) == counts
    capped = msgspec.structs.replace(policy, most_per_request="0.1")
    assert tuple(count(capped, size) for size in sizes) == (counts[0], 10, 0)


def test_the_count_equals_the_number_of_single_grants() -> None:
    def check_case(claim: str, name: str) -> None:
        plan, asked = plan_of(beside(name)), check_claim(parse_claim(claim))
        cost, granted = price(asked, plan.priced), 0
        spent: tuple[Units, ...] = (0,) * plan.width
        while True:
            assert plan.kind.holds(plan.capacity, spent)
            after = plan.kind.charge(plan.capacity, spent, cost)
            assert plan.kind.fits(plan.capacity, spent, cost) == (after is not None)
            if after is None:
                break
            granted, spent = granted + 1, after
        promised = plan.kind.count(plan.capacity, (0,) * plan.width, cost)
        assert promised == granted

    check_each(check_case, SIZES, TAKERS)


def test_is_refused_where_nothing_would_be_gained() -> None:
    def check_case(name: str) -> None:
        if name in TAKERS:
            return
        with pytest.raises(RequestInvalid, match=f"must be left out for filter {name}"):
            plan_of(beside(name))

    check_each(check_case, sorted(FILTERS))


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"beside": "none", **BUDGET}, "must be basic, or left out"),
        ({"beside": "", **BUDGET}, "must be basic, or left out"),
        (
            {"beside": "basic", "filter": "unified_brownian", "rho": "0.05"},
            "must be left out where rho is given",
        ),
    ],
)
def test_anything_else_is_invalid_and_named(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(RequestInvalid, match=rule) as raised:
        plan_of(Policy(**fields))
    assert raised.value.field == "policy.beside"


class TestADecision:
    def test_the_grant_that_ends_the_filter_names_it_and_the_next_does_not(self) -> None:
        world = world_of("gdp_residue")
        first, second = world.ask("pure:0.2"), world.ask("pure:0.2")
        assert (first.ends, second.ends) == ("gdp_residue", None)
        assert [marks(each) for each in (first, second)] == [("1", "0"), ("1", "0")]

    def test_after_one_large_request_only_epsilons_add_up(self) -> None:
        world = world_of("gdp_residue")
        world.ask("pure:0.2")
        granted = 0
        while (last := world.ask("pure:0.01")).outcome is Outcome.GRANTED:
            granted += 1
        assert granted == 80
        assert (last.reason, last.ends) == (Reason.EXHAUSTED, None)

    def test_a_claim_without_an_epsilon_ends_basic_composition(self) -> None:
        world = world_of()
        decision = world.ask("gaussian:sigma=100,sensitivity=1")
        assert (marks(decision), decision.ends) == (("0", "1"), None)
        assert world.ask("pure:0.3").reason is Reason.EXHAUSTED
        assert world.ask("pure:0.01").outcome is Outcome.GRANTED

    def test_once_the_filter_has_ended_a_claim_without_an_epsilon_is_refused(self) -> None:
        world = world_of()
        assert world.ask("pure:0.5").ends == "zcdp_tight"
        refused = world.ask("gaussian:sigma=1000,sensitivity=1")
        assert (refused.reason, refused.fits, refused.ends) == (Reason.EXHAUSTED, None, None)

    def test_a_refusal_names_the_filter_that_its_offer_would_end(self) -> None:
        world = world_of()
        refused = world.ask("pure:3")
        assert (refused.fits, refused.ends) == ("pure:1", "zcdp_tight")
        assert world.ask("gaussian:sigma=1,sensitivity=1").ends is None

    def test_the_ended_half_has_0_left(self) -> None:
        world = world_of()
        assert world.ask("pure:0.5").left == {"rho": "0", "delta": "0", "epsilon": "0.5"}
        other = world_of().ask("gaussian:sigma=100,sensitivity=1")
        assert other.left is not None
        assert other.left["epsilon"] == "0"

    def test_the_log_refolds_and_audits_to_the_same_rows(self) -> None:
        world = world_of("gdp_residue", most_per_request="0.3", **WITH_DELTA)
        claims = ("pure:0.02", "laplace:scale=7,sensitivity=1", "pure:0.25", "pure:3", "pure:0.2")
        for claim in (*claims, "approximate:epsilon=0.1,delta=4e-7", "pure:0.3", "pure:0.01"):
            world.ask(claim)
        assert state_rows(world.replayed()) == world.rows()
        assert audit(world.log, genesis=world.genesis).ok
        assert any(each.ends for each in world.decisions)

    @pytest.mark.parametrize(
        "edit",
        [
            (b',"ends":"gdp_residue"', b""),
            (b'"ends":"gdp_residue"', b'"ends":"basic"'),
            (b'"filter_ended":"1"', b'"filter_ended":"0"'),
        ],
    )
    def test_an_audit_finds_a_mark_that_is_not_right(self, edit: tuple[bytes, bytes]) -> None:
        world = world_of("gdp_residue")
        world.ask("pure:0.2")
        assert edit[0] in world.log[-1]
        report = audit([*world.log[:-1], world.log[-1].replace(*edit)], genesis=world.genesis)
        assert report.first_disagreement is not None
        assert report.first_disagreement.partition_sequence == 2

    def test_an_amendment_that_lowers_the_budget_must_repeat_beside(self) -> None:
        world = world_of()
        lower = {"epsilon": "0.5", "delta": "1e-6"}
        assert world.send("admin", world.admin("amend", policy=lower)).reason is Reason.NOT_LOWER
        kept = world.send("admin", world.admin("amend", policy={**lower, "beside": "basic"}))
        assert kept.outcome is Outcome.AMENDED
        assert world.ask("pure:0.5").outcome is Outcome.GRANTED
        assert world.ask("pure:0.1").reason is Reason.EXHAUSTED


def test_both_halves_share_the_limit_on_deltas() -> None:
    def check_case(name: str) -> None:
        plan = plan_of(beside(name))
        ledger = opened(beside(name))
        limit = ledger.plan.policy.delta_for_claims
        total, large = 0.0, True
        for _ in range(12):
            size, large = ("0.09" if large else "0.001"), not large
            claim = check_claim(parse_claim(f"approximate:epsilon={size},delta=3e-7"))
            ledger, verdict = adjudicate(ledger, claim, "person", "add_remove", 1)
            total += 3e-7 if verdict.outcome is Outcome.GRANTED else 0
        assert total <= float(limit or 0) * (1 + 1e-9)
        assert total > float(limit or 0) - 3e-7 or name.startswith("renyi")
        assert plan.kind.holds(plan.capacity, ledger.spent)

    check_each(check_case, TAKERS)


def test_the_spent_part_never_falls_and_is_all_only_when_nothing_fits() -> None:
    def check_case(name: str) -> None:
        world = World()
        world.open(**msgspec.to_builtins(beside(name)))
        claims = (
            "pure:0.05",
            "pure:0.2",
            "gaussian:sigma=60,sensitivity=1",
            "pure:0.3",
            "pure:0.01",
        )
        before = 0.0
        for number in range(60):
            world.ask(claims[number * 7 % 5])
            world.commit()
            ledger = world.state.ledgers["census"]
            assert before <= ledger.spent_ratio <= 1
            before = ledger.spent_ratio
            if ledger.spent_ratio == 1:
                assert world.ask("pure:0.001").outcome is Outcome.REFUSED

    check_each(check_case, TAKERS)


class TestReservations:
    def charged(self, name: str, *claims: str) -> tuple[CompiledPolicy, list[tuple[Any, ...]]]:
        """Return the plan, and what each of some claims has added to the totals."""
        ledger, added = opened(beside(name)), []
        for text in claims:
            before = ledger.totals
            ledger, verdict = adjudicate(
                ledger, check_claim(parse_claim(text)), "person", "add_remove", 1
            )
            assert verdict.outcome is Outcome.GRANTED
            added.append(tuple(b - a for a, b in zip(before, ledger.totals, strict=True)))
        return ledger.plan, added

    def named(self, plan: CompiledPolicy, amounts: tuple[Any, ...]) -> dict[str, Any]:
        found = dict(zip(plan.sums, amounts, strict=True))
        return {name: found[name] for name in plan.kind.state if found[name]}

    @pytest.mark.parametrize("name", ["zcdp_tight", "gdp_residue"])
    def test_voiding_the_claim_that_ended_the_filter_returns_only_epsilon(self, name: str) -> None:
        plan, added = self.charged(name, "pure:0.5", "pure:0.1")
        for text, charged in zip(("pure:0.5", "pure:0.1"), added, strict=True):
            back = by_voiding(plan, check_claim(parse_claim(text)), charged)
            returned = self.named(plan, back)
            assert returned == {"epsilon": int(float(text[5:]) * 10) * UNIT // 10}

    def test_voiding_a_claim_without_an_epsilon_lowers_their_count(self) -> None:
        text = "gaussian:sigma=100,sensitivity=1"
        plan, added = self.charged("zcdp_tight", text, text)
        returned = by_voiding(plan, check_claim(parse_claim(text)), added[1])
        assert self.named(plan, returned) == {"rho": added[1][0], WITHOUT: UNIT}

    def test_a_settlement_ex_post_lowers_the_sum_of_epsilons_and_no_other_filter_s(self) -> None:
        claim = ExPost("0.3")
        for name, own in (("zcdp_tight", set()), ("split", {"ex_post_epsilon"})):
            plan, _ = self.charged(name, "ex_post:0.3")
            returned = by_paying(plan, claim, Decimal("0.1"))
            assert set(self.named(plan, returned)) == {"epsilon", *own}
