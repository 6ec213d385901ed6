"""Every filter keeps the same promises to the ledger."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import INFINITE, Units
from accountant.claims import check_claim
from accountant.claims.price import Price, amount, price
from accountant.claims.promises import promise
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.policy import Policy, filter_of, guarantee_of
from accountant.policy.compiled_policy import CompiledPolicy, stored_plan
from accountant.records import decode_policy
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant.filters.policies import POLICIES, plan_of
from tests.accountant.world import World, code
from tests.every_case import check_each
from tests.nightly import examples

EVERY = sorted(FILTERS)


def price_of(plan: CompiledPolicy, claim: c.Claim | str) -> Price:
    coerce_claim = parse_claim(claim) if isinstance(claim, str) else claim
    return price(check_claim(coerce_claim), plan.priced)


def claim_for(name: str, epsilon: str = "0.01") -> c.Claim:
    return c.ExPost(epsilon) if name == "ex_post" else c.Pure(epsilon)


def large_for(name: str) -> c.Claim:
    """Return what hardly fits twice, or only in part."""
    if name == "optimal_homogeneous":  # where a claim is either taken, whatever its size, or not
        return c.Repeat(c.Pure("0.1"), 6)
    return claim_for(name, "0.91")


def wire(policy: Policy) -> dict[str, Any]:
    fields = msgspec.to_builtins(policy)
    return {name: value for name, value in fields.items() if value is not None}


def nothing(plan: CompiledPolicy) -> tuple[Units, ...]:
    return (0,) * plan.width


def test_every_filter_has_a_policy_here() -> None:
    assert sorted(POLICIES) == EVERY


class TestEveryFilter:
    def test_its_name_is_its_key_and_its_sums_are_known(self) -> None:
        def check_case(name: str) -> None:
            plan = plan_of(POLICIES[name])
            assert plan.kind.name == name
            for needed in (*plan.kind.needs, *plan.sums[plan.width :]):
                assert amount(needed, promise(c.Pure("0.01"))) >= 0
            assert len(plan.capacity) == len(plan.kind.sums) == len(set(plan.kind.sums))

        check_each(check_case, EVERY)

    def test_equal_policies_share_one_filter(self) -> None:
        def check_case(name: str) -> None:
            again = decode_policy(msgspec.json.encode(POLICIES[name]))
            assert filter_of(again) is filter_of(POLICIES[name])

        check_each(check_case, EVERY)

    def test_its_stored_budget_decides_as_the_computed_one(self) -> None:
        def check_case(name: str) -> None:
            plan = plan_of(POLICIES[name])
            stored = stored_plan(plan.policy, tuple(plan.budget_wire.values()))
            assert stored.capacity == plan.capacity

        check_each(check_case, EVERY)

    def test_infinity_never_fits(self) -> None:
        def check_case(name: str) -> None:
            plan = plan_of(POLICIES[name])
            width = len(plan.kind.needs)
            endless = Price(1, (INFINITE,) * width, {})
            assert not plan.kind.accepts(endless)
            assert plan.kind.charge(plan.capacity, nothing(plan), endless) is None
            assert plan.kind.count(plan.capacity, nothing(plan), endless) == 0

        check_each(check_case, EVERY)

    def test_a_filter_ignores_the_sums_of_odometers(self) -> None:
        def check_case(name: str) -> None:
            plan = plan_of(POLICIES[name])
            plain = price(check_claim(claim_for(name)), plan.kind.needs)
            more = Price(1, (*plain.amounts, INFINITE, INFINITE), {}, plain.parts)
            charged = plan.kind.charge(plan.capacity, nothing(plan), more)
            assert charged is not None
            assert charged == plan.kind.charge(plan.capacity, nothing(plan), plain)

        check_each(check_case, EVERY)

    @pytest.mark.parametrize("name", EVERY)
    @settings(max_examples=examples(15), deadline=None)
    @given(digits=st.integers(10, 99))
    def test_a_filters_count_equals_the_number_of_its_single_grants(
        self, name: str, digits: int
    ) -> None:
        plan = plan_of(POLICIES[name])
        one = price_of(plan, claim_for(name, f"0.0{digits}"))
        spent, count = nothing(plan), 0
        while (after := plan.kind.charge(plan.capacity, spent, one)) is not None:
            spent, count = after, count + 1
            assert plan.kind.holds(plan.capacity, spent)
        assert plan.kind.count(plan.capacity, nothing(plan), one) == count > 0
        assert plan.kind.count(plan.capacity, spent, one) == 0

    def test_a_claim_without_cost_fits_any_number_of_times(self) -> None:
        def check_case(name: str) -> None:
            plan = plan_of(POLICIES[name])
            free = price_of(plan, claim_for(name, "0"))
            assert plan.kind.count(plan.capacity, nothing(plan), free) is None
            maximum = plan.kind.count(plan.capacity, nothing(plan), price_of(plan, claim_for(name)))
            spent = plan.kind.charge(
                plan.capacity,
                nothing(plan),
                price_of(plan, c.Repeat(claim_for(name), maximum or 0)),
            )
            assert spent is not None
            assert plan.kind.charge(plan.capacity, spent, free) == spent

        check_each(check_case, EVERY)

    def test_a_refusal_offers_a_claim_that_is_granted(self) -> None:
        def check_case(name: str) -> None:
            world = World()
            assert code(world.open(**wire(POLICIES[name]))) == "opened"
            large = msgspec.to_builtins(large_for(name))
            while code(refusal := world.ask(large)) == "granted":
                pass
            assert code(refusal) == "exhausted"
            assert refusal.fits is not None
            assert code(world.ask(refusal.fits)) == "granted"

        check_each(check_case, EVERY)

    def test_a_policy_without_its_budget_is_refused(self) -> None:
        def check_case(name: str) -> None:
            without = {"epsilon": None, "rho": None, "order": None, "orders": None}
            fields = {n: v for n, v in wire(POLICIES[name]).items() if n not in without}
            decision = World().open(**fields)
            assert code(decision) == "invalid_field"

        check_each(check_case, EVERY)

    def test_the_guarantee_is_a_constant_of_the_policy(self) -> None:
        def check_case(name: str) -> None:
            name_of, size, delta = guarantee_of(plan_of(POLICIES[name]).policy)
            assert name_of == ("rho" if name == "zcdp" else "epsilon")
            assert size > 0
            assert 0 <= delta < 1

        check_each(check_case, EVERY)


def test_the_processor_decides_replays_and_audits_under_every_filter() -> None:
    """Decided, refolded and audited like any other, to its end and after it."""

    def check_case(name: str, halts: bool) -> None:
        world = World(batch=3)
        opening = world.open(**wire(POLICIES[name]), halt_on_refusal=halts)
        assert code(opening) == "opened", opening.error
        asks: list[object] = [
            claim_for(name, "0.1"),
            c.Repeat(claim_for(name, "0.01"), 3),
            c.AllOf((claim_for(name, "0.02"), claim_for(name, "0.03"))),
            c.ExPost("0.05", "1e-8"),
            c.Gaussian("30", "1"),
            c.Approximate("0.01", "1e-9"),
            c.Brownian("900", "1", "1600"),
            c.Zcdp("1e-9"),
            c.Approximate("0.1", "0.5"),
            c.Repeat(claim_for(name, "0.1"), 1000),
            claim_for(name, "0.001"),
            claim_for(name, "0"),
        ]
        codes = [code(world.ask(msgspec.to_builtins(claim))) for claim in asks]
        assert codes[:3] == ["granted"] * 3
        first = codes.index("exhausted")
        assert codes[first + 1 :].count("halted") == (len(codes) - first - 1 if halts else 0)
        assert code(world.ask(unit="household")) == ("halted" if halts else "unit_mismatch")
        assert world.ledger().halted is halts
        assert code(world.amend(alert_at=["0.01", "1"])) == "amended"
        report = audit(world.log)
        assert report.ok, report.first_disagreement
        rows = world.rows()
        assert state_rows(world.replayed()) == rows
        assert code(world.close()) == "closed"
        assert code(world.ask()) == "closed"

    check_each(check_case, EVERY, [False, True])


def test_the_error_for_an_unknown_filter_lists_the_filters() -> None:
    with pytest.raises(RequestInvalid, match="must be one of basic, "):
        filter_of(Policy(filter="crystal_ball", epsilon="1"))


@pytest.mark.parametrize(
    ("claim", "counts"),
    [
        (
            "pure:0.01",
            {"basic": 100, "advanced_2016": 147, "fully_adaptive": 349, "zcdp_tight": 487},
        ),
        ("pure:0.1", {"basic": 10, "advanced_2016": 1, "fully_adaptive": 3, "zcdp_tight": 4}),
        ("zcdp:0.0005", {"fully_adaptive": 34, "zcdp_tight": 48, "unified_brownian": 48}),
        ("gaussian:sigma=100,sensitivity=3.1622776", {"fully_adaptive": 34, "zcdp_tight": 48}),
        ("brownian:variance=1000,sensitivity=1", {"unified_brownian": 48, "split": 48}),
        ("ex_post:0.01", {"ex_post": 100, "basic": 100, "split": 100, "zcdp_tight": 487}),
    ],
)
def test_how_many_fit_1_and_a_millionth(claim: str, counts: dict[str, int]) -> None:
    found = {}
    for name in counts:
        extra = {"epsilon_ex_post": "1"} if name == "split" else {}
        plan = plan_of(Policy(filter=name, epsilon="1", delta="1e-6", **extra))
        found[name] = plan.kind.count(plan.capacity, nothing(plan), price_of(plan, claim))
        assert one_by_one(plan, price_of(plan, claim)) == found[name]
    assert found == counts


def one_by_one(plan: CompiledPolicy, one: Price) -> int:
    spent, count = nothing(plan), 0
    while (after := plan.kind.charge(plan.capacity, spent, one)) is not None:
        spent, count = after, count + 1
    return count
