"""Interactive mechanisms: which claims they may have, what they cost, how they are written."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from accountant import claims as c
from accountant.claims import check_claim
from accountant.claims.price import SUMS, price
from accountant.claims.promises import promise
from accountant.claims.text import claim_text, parse_claim
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.records.coerce import coerce_claim
from accountant.replay.audit import audit
from tests.accountant.filters.policies import POLICIES, plan_of
from tests.accountant.world import World, code
from tests.every_case import check_each

TAKEN = (
    "pure:0.01",
    "laplace:scale=100,sensitivity=1",
    "randomized_response:epsilon=0.01,delta=0",
    "gaussian:sigma=100,sensitivity=1",
    "gdp:0.01",
    "zcdp:0.0001",
    "approximate_zcdp:rho=0.0001,delta=0",
    "subsampled_gaussian:sigma=100,sensitivity=1,rate=0.01",
)
WITH_DELTA = ("approximate:epsilon=0.01,delta=1e-9", "randomized_response:epsilon=0.01,delta=1e-9")
REFUSED = (
    ("bounded_range:0.01", "claim.type"),
    ("brownian:variance=100,sensitivity=1", "claim.type"),
    ("ex_post:epsilon=0.01,delta=0", "claim.type"),
    ("probabilistic:epsilon=0.01,delta=1e-9", "claim.type"),
    ("approximate_zcdp:rho=0.0001,delta=1e-9", "claim.delta"),
    ("2*pure:0.01", "claim.type"),
    ("pure:0.01+pure:0.02", "claim.type"),
)


def interactive(text: str) -> c.Interactive:
    return c.Interactive(parse_claim(text))


def test_each_filter_charges_an_interactive_claim_the_cost_of_its_inner_claim() -> None:
    def check_case(text: str, name: str) -> None:
        plan = plan_of(POLICIES[name])
        ours, alone = check_claim(interactive(text)), check_claim(parse_claim(text))
        one, other = (price(claim, plan.kind.needs) for claim in (ours, alone))
        assert one.amounts == other.amounts
        spent = (0,) * plan.width
        charged = [plan.kind.charge(plan.capacity, spent, each) for each in (one, other)]
        assert charged[0] == charged[1]
        assert ours.only_for == alone.only_for

    check_each(check_case, TAKEN + WITH_DELTA, FILTERS)


def test_odometer_sums_of_an_interactive_claim_without_delta_equal_the_inner_ones() -> None:
    def check_case(text: str) -> None:
        sums = tuple(name for name in SUMS if name.startswith("loss_"))
        ours, alone = (check_claim(each) for each in (interactive(text), parse_claim(text)))
        assert price(ours, sums).amounts == price(alone, sums).amounts

    check_each(check_case, TAKEN)


@pytest.mark.parametrize("text", WITH_DELTA)
def test_odometers_are_infinite_after_one_with_a_delta(text: str) -> None:
    assert promise(interactive(text)).loss is None
    world = World()
    world.open(epsilon="1", delta="2e-6", delta_for_claims="1e-6")
    granted = world.ask(f"interactive:{text}")
    assert code(granted) == "granted"
    assert granted.odometers == {"one_sided_mixture": "inf"}


@pytest.mark.parametrize(("text", "field"), REFUSED)
def test_other_claims_are_invalid_and_name_the_field(text: str, field: str) -> None:
    with pytest.raises(RequestInvalid, match="interactive mechanism") as caught:
        check_claim(interactive(text))
    assert caught.value.field == field
    world = World()
    world.open(epsilon="1", delta="1e-6")
    decision = world.ask({"type": "interactive", "claim": msgspec.to_builtins(parse_claim(text))})
    assert code(decision) == "invalid_field"
    assert decision.error is not None
    assert decision.error.field == f"claim.{field}"


def test_a_nested_interactive_claim_is_refused() -> None:
    twice = c.Interactive(interactive("pure:0.1"))
    with pytest.raises(RequestInvalid, match="interactive mechanism must be claimed by one of"):
        check_claim(twice)
    with pytest.raises(RequestInvalid, match="must be interactive once"):
        parse_claim("interactive: interactive:pure:0.1")
    with pytest.raises(RequestInvalid):
        parse_claim("interactive:" * 10_000 + "pure:0.1")


def test_its_text_is_read_back() -> None:
    def check_case(text: str) -> None:
        one = interactive(text)
        for claim in (one, c.Repeat(one, 3), c.AllOf((one, parse_claim("pure:0.1"), one))):
            assert parse_claim(claim_text(claim)) == claim
        assert claim_text(one).startswith("interactive:")
        assert coerce_claim({"type": "interactive", "claim": msgspec.to_builtins(one.claim)}) == one
        assert coerce_claim(one) == one

    check_each(check_case, TAKEN + WITH_DELTA)


def test_python_numbers_inside_an_interactive_claim_become_decimal_text() -> None:
    inner = {"type": "pure", "epsilon": Decimal("0.1")}
    found = coerce_claim({"type": "interactive", "claim": inner})
    assert found == interactive("pure:0.1")


def test_a_batch_with_interactive_claims_costs_the_sum_of_its_mechanisms() -> None:
    world = World()
    world.open(filter="basic", epsilon="1")
    assert code(world.ask("3*interactive:pure:0.1+pure:0.1")) == "granted"
    assert world.ledger().mechanisms == 4
    refused = world.ask("interactive:pure:0.7")
    assert (code(refused), refused.fits) == ("exhausted", "interactive:pure:0.6")
    assert code(world.ask(refused.fits)) == "granted"
    assert audit(world.log).ok


def bodies(kind: str) -> list[object]:
    one: dict[str, object] = {"type": kind, "claim": {"type": "pure", "epsilon": "0.1"}}
    pure = {"type": "pure", "epsilon": "0.1"}
    repeat = {"type": "repeat", "claim": one, "times": 2}
    return [
        one,
        repeat,
        {"type": "all_of", "claims": [pure, one]},
        {"type": "all_of", "claims": [pure, repeat, {"type": "pure"}]},
        {"type": "all_of", "claims": [{"type": "pure"}, one]},
        {"type": "repeat", "times": "2", "claim": one},
    ]
