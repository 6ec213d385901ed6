from __future__ import annotations

import pytest
from hypothesis import given

from accountant import claims as c
from accountant.claims import atoms, checked, depth
from accountant.errors import RequestInvalid
from tests.accountant.strategies import claims

PURE = c.Pure("0.1")


@given(claims())
def test_a_checked_claim_counts_its_mechanisms(claim: c.Claim) -> None:
    assert checked(claim).mechanisms == sum(times for _, times in atoms(claim))
    assert depth(claim) <= 3


def test_equal_fields_of_different_kinds_are_different_claims() -> None:
    # They share caches, and an approximate claim must never be priced as a probabilistic one.
    kinds = (c.Approximate, c.Probabilistic, c.RandomizedResponse)
    made = [kind("0.1", "1e-9") for kind in kinds]
    assert len({*made}) == 3
    assert [type(checked(claim).claim) for claim in made] == list(kinds)


def test_batches_nest_three_deep_and_no_deeper() -> None:
    three = c.Repeat(c.AllOf((c.Repeat(PURE, 2),)), 2)
    assert checked(three).mechanisms == 4
    with pytest.raises(RequestInvalid, match="at most 3 deep"):
        checked(c.AllOf((three,)))


def test_a_batch_holds_at_most_1e9_mechanisms() -> None:
    assert checked(c.Repeat(c.Repeat(PURE, 1_000_000), 1000)).mechanisms == 10**9
    with pytest.raises(RequestInvalid, match="at most 1e9"):
        checked(c.Repeat(c.Repeat(PURE, 1_000_000), 1001))


@pytest.mark.parametrize(
    "claim",
    [
        c.Pure("1e-12"),
        c.Pure("1000"),
        c.Zcdp("1e-25"),
        c.Zcdp("1e6"),
        c.Gdp("1000"),
        c.Gaussian("1e-3", "1"),
        c.Gaussian("1e9", "1e-3"),
        c.Laplace("1e9", "1e-3"),
        c.Laplace("1", "1000"),
    ],
)
def test_the_ends_of_a_range_are_taken(claim: c.Claim) -> None:
    assert checked(claim).mechanisms == 1


@pytest.mark.parametrize(
    ("claim", "field"),
    [
        (c.Pure("9e-13"), "epsilon"),
        (c.Pure("1000.1"), "epsilon"),
        (c.Zcdp("9e-26"), "rho"),
        (c.Zcdp("1000001"), "rho"),
        (c.Gdp("1000.1"), "mu"),
        (c.BoundedRange("1001"), "eta"),
        (c.Gaussian("1e-4", "1"), "sensitivity^2 / (2 sigma^2)"),
        (c.Laplace("1e9", "1e-4"), "sensitivity / scale"),
        (c.ApproximateZcdp("0.1", "1"), "delta"),
    ],
)
def test_beyond_a_range_is_refused_by_name(claim: c.Claim, field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        checked(claim)
    assert caught.value.field == field
    assert caught.value.value in str(caught.value)
