"""What a refusal offers fits, and what is a little larger does not."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accountant import claims as c
from accountant.amounts import INFINITE, UNIT
from accountant.claim_text import parse_claim
from accountant.claims import checked
from accountant.filters import FILTERS
from accountant.largest import largest
from accountant.totals import price
from tests.accountant.strategies import atoms


def fits(claim: c.Claim, name: str, room: int) -> bool:
    kind = FILTERS[name]()
    return kind.charge((room, UNIT), (0, 0), price(checked(claim), kind.needs)) is not None


@settings(max_examples=300, deadline=None)
@given(atoms(small=-4, large=2), st.sampled_from(sorted(FILTERS)), st.integers(0, 10))
def test_what_is_offered_fits_and_the_next_larger_does_not(
    claim: c.Claim, name: str, digits: int
) -> None:
    room = UNIT // 10**digits
    assume(INFINITE not in price(checked(claim), FILTERS[name]().needs).amounts)
    assume(not fits(claim, name, room))
    offered = largest(claim, FILTERS[name](), (room, UNIT), (0, 0))
    if offered is None:  # it would take more noise than the wire can say
        assert claim.knob_sign < 0
        assert not fits(msgspec.structs.replace(claim, **{claim.knob: "9e8"}), name, room)
        return
    found = parse_claim(offered)
    assert type(found) is type(claim)
    assert fits(found, name, room)
    # Four digits are offered: one part in a thousand more is too much.
    knob = Fraction(getattr(found, found.knob))
    more = Decimal(float(knob * (1 + Fraction(found.knob_sign, 500))))
    text = f"{more:.6e}".replace("e+", "e")
    assert not fits(msgspec.structs.replace(found, **{found.knob: text}), name, room)


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_a_repeat_is_offered_the_exact_number_that_fits(name: str) -> None:
    claim = c.Repeat(c.Pure("0.01"), 1_000_000)
    room = UNIT // 7
    offered = largest(claim, FILTERS[name](), (room, UNIT), (0, 0))
    assert offered is not None
    found = parse_claim(offered)
    assert isinstance(found, c.Repeat)
    assert fits(found, name, room)
    assert not fits(c.Repeat(found.claim, found.times + 1), name, room)


def test_nothing_is_offered_where_nothing_fits() -> None:
    basic, pure = FILTERS["basic"](), c.Pure("1")
    assert largest(pure, basic, (UNIT, UNIT), (UNIT, 0)) is None
    assert largest(c.Repeat(pure, 3), basic, (UNIT, UNIT), (UNIT, 0)) is None
    assert largest(pure, basic, (10**27, UNIT), (0, 0)) is None  # below 1e-12
    # No epsilon makes up for a delta that does not fit.
    assert largest(c.Approximate("1", "0.1"), basic, (UNIT, 0), (0, 0)) is None


def test_a_batch_is_offered_nothing() -> None:
    batch = c.AllOf((c.Pure("1"), c.Pure("2")))
    assert largest(batch, FILTERS["basic"](), (UNIT, UNIT), (0, 0)) is None
