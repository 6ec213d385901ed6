"""What a refusal offers fits, and what is a little larger does not."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import UNIT, Units
from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.ledger.largest_fit import largest
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.replay.audit import audit
from tests.accountant.filters.policies import POLICIES, plan_of
from tests.accountant.strategies import atoms, ex_posts
from tests.accountant.world import World
from tests.every_case import check_each
from tests.nightly import rounds


def fits(claim: c.Claim, plan: CompiledPolicy, spent: tuple[Units, ...]) -> bool:
    asked = price(check_claim(claim), plan.kind.needs)
    return plan.kind.charge(plan.capacity, spent, asked) is not None


def after(plan: CompiledPolicy, times: int) -> tuple[Units, ...]:
    """Return what is spent after as many small claims as fit, at most `times`."""
    kind, nothing = plan.kind, (0,) * plan.width
    small = c.ExPost("0.001") if plan.policy.filter == "ex_post" else c.Pure("0.001")
    maximum = kind.count(plan.capacity, nothing, price(check_claim(small), kind.needs))
    times = min(times, maximum or 0)
    if not times:
        return nothing
    spent = kind.charge(
        plan.capacity, nothing, price(check_claim(c.Repeat(small, times)), kind.needs)
    )
    assert spent is not None
    return spent


# optimal_homogeneous counts claims: of one that does not fit, no smaller one does.
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FILTERS) - {"optimal_homogeneous"}))
@settings(max_examples=rounds(8, 50), deadline=None)
@given(data=st.data(), times=st.integers(0, 100_000))
def test_the_offered_claim_fits_and_the_next_larger_one_does_not(
    name: str, data: st.DataObject, times: int
) -> None:
    plan = plan_of(POLICIES[name])
    kinds = ex_posts(-4, 2) if name == "ex_post" else atoms(small=-4, large=2)
    claim = data.draw(kinds)
    spent = after(plan, times)
    assume(plan.kind.accepts(price(check_claim(claim), plan.kind.needs)))
    assume(not fits(claim, plan, spent))
    offered = largest(claim, plan.kind, plan.capacity, spent)
    if offered is None:  # not even the smallest of the kind fits
        assert not fits_at_its_least(claim, plan, spent)
        return
    found = parse_claim(offered)
    assert type(found) is type(claim)
    assert fits(found, plan, spent)
    # Four digits are offered: one part in a thousand more is too much.
    knob = Fraction(getattr(found, found.knob))
    more = Decimal(float(knob * (1 + Fraction(found.knob_sign, 500))))
    text = f"{more:.6e}".replace("e+", "e")
    assert not fits(msgspec.structs.replace(found, **{found.knob: text}), plan, spent)


def fits_at_its_least(claim: c.Claim, plan: CompiledPolicy, spent: tuple[Units, ...]) -> bool:
    """Tell whether a claim fits with its knob nearly as far as the wire lets it be turned."""
    if claim.knob_sign > 0:
        minimum = "1.1e-25" if claim.knob == "rho" else "1.1e-12"
    elif isinstance(claim, c.Brownian) and isinstance(claim.previous, str):
        minimum = f"{Decimal(claim.previous) * Decimal('0.9989'):.4e}".replace("e+", "e")
    else:
        minimum = "9e8"
    smallest = msgspec.structs.replace(claim, **{claim.knob: minimum})
    try:
        return fits(check_claim(smallest).claim, plan, spent)
    except RequestInvalid:  # so small a cost is not on the wire
        return False


def test_a_repeat_is_offered_the_exact_number_that_fits() -> None:
    def check_case(name: str) -> None:
        plan = plan_of(POLICIES[name])
        nothing = (0,) * plan.width
        one = c.ExPost("0.01") if name == "ex_post" else c.Pure("0.01")
        offered = largest(c.Repeat(one, 1_000_000), plan.kind, plan.capacity, nothing)
        assert offered is not None
        found = parse_claim(offered)
        assert isinstance(found, c.Repeat)
        assert fits(found, plan, nothing)
        assert not fits(c.Repeat(found.claim, found.times + 1), plan, nothing)

    check_each(check_case, sorted(FILTERS))


def test_nothing_is_offered_where_nothing_fits() -> None:
    basic, pure = FILTERS["basic"](), c.Pure("1")
    assert largest(pure, basic, (UNIT, UNIT), (UNIT, 0)) is None
    assert largest(c.Repeat(pure, 3), basic, (UNIT, UNIT), (UNIT, 0)) is None
    assert largest(pure, basic, (10**27, UNIT), (0, 0)) is None  # below 1e-12
    # No epsilon makes up for a delta that does not fit.
    assert largest(c.Approximate("1", "0.1"), basic, (UNIT, 0), (0, 0)) is None


def test_a_batch_of_different_claims_gets_no_offer() -> None:
    batch = c.AllOf((c.Pure("1"), c.Pure("2")))
    assert largest(batch, FILTERS["basic"](), (UNIT, UNIT), (0, 0)) is None


BATCH = "(gaussian:sigma=3,sensitivity=1+pure:0.1)"


def left_for_two() -> World:
    """Return a dataset with room for two of `BATCH` one after another, but not in one request.

    One request is charged for its Gaussians first, so its pure mechanisms find less.
    """
    world = World()
    world.open(filter="gdp_residue", epsilon="5", delta="1e-6", odometers=())
    assert world.ask("gdp:0.8903").granted
    return world


def test_an_offer_of_batches_is_granted_as_one_request() -> None:
    world = left_for_two()
    offered = world.ask(f"5*{BATCH}").fits
    assert offered == f"1*{BATCH}"
    assert world.ask(offered).granted
    assert world.ask(BATCH[1:-1]).granted
    assert audit(world.log).ok
