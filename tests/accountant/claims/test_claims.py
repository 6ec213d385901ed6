from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant import claims as c
from accountant.claims import atoms, check_claim, depth
from accountant.claims.promises import promise
from accountant.errors import RequestInvalid
from tests.accountant.strategies import claims
from tests.every_case import check_each, check_rows

PURE = c.Pure("0.1")


@given(claims())
def test_a_checked_claim_counts_its_mechanisms(claim: c.Claim) -> None:
    assert check_claim(claim).mechanisms == sum(times for _, times in atoms(claim))
    assert depth(claim) <= 3


def test_equal_fields_of_different_kinds_are_different_claims() -> None:
    # They share caches, and an approximate claim must never be priced as a probabilistic one.
    kinds = (c.Approximate, c.Probabilistic, c.RandomizedResponse)
    made = [kind("0.1", "1e-9") for kind in kinds]
    assert len({*made}) == 3
    assert [type(check_claim(claim).claim) for claim in made] == list(kinds)


def test_batches_nest_three_deep_and_no_deeper() -> None:
    three = c.Repeat(c.AllOf((c.Repeat(PURE, 2),)), 2)
    assert check_claim(three).mechanisms == 4
    with pytest.raises(RequestInvalid, match="at most 3 deep"):
        check_claim(c.AllOf((three,)))


def test_a_batch_has_at_most_1e9_mechanisms() -> None:
    assert check_claim(c.Repeat(c.Repeat(PURE, 1_000_000), 1000)).mechanisms == 10**9
    with pytest.raises(RequestInvalid, match="at most 1e9"):
        check_claim(c.Repeat(c.Repeat(PURE, 1_000_000), 1001))


def test_the_ends_of_a_range_are_taken() -> None:
    def check_case(claim: c.Claim) -> None:
        assert check_claim(claim).mechanisms == 1

    check_each(
        check_case,
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
            c.ExPost("1e-12"),
            c.ExPost("1000", "0.9999999999999999999999999999999999999999"),
            c.ExPost("0", "0"),
            c.Brownian("1e9", "1"),
            c.Brownian("5e-7", "1"),
            c.Brownian("1", "1", "1.000000000000000000000001"),
            c.Brownian("1", "0", "2"),
        ],
    )


def test_beyond_a_range_is_refused_by_name() -> None:
    def check_case(claim: c.Claim, field: str) -> None:
        with pytest.raises(RequestInvalid) as caught:
            check_claim(claim)
        assert caught.value.field == field
        assert caught.value.value in str(caught.value)

    check_rows(
        check_case,
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
            (c.ExPost("9e-13"), "epsilon"),
            (c.ExPost("1001"), "epsilon"),
            (c.ExPost("1", "1"), "delta"),
            (c.Brownian("0", "1"), "variance"),
            (c.Brownian("1", "1", "0"), "previous"),
            (c.Brownian("2", "1", "2"), "variance"),
            (c.Brownian("3", "1", "2"), "variance"),
            (c.Brownian("4e-7", "1"), "sensitivity^2 / 2 (1 / variance - 1 / previous)"),
            (
                c.Brownian("1", "1", "1.0000000000000000000000000000001"),
                "sensitivity^2 / 2 (1 / variance - 1 / previous)",
            ),
        ],
    )


def test_refinements_of_a_session_add_up_to_the_cost_of_its_last_variance() -> None:
    """However a session is cut, its costs telescope to D^2 / (2 t)."""
    variances = ["2500", "900", "899.99", "64", "1.5"]
    steps = [c.Brownian(variances[0], "3")]
    steps += [c.Brownian(after, "3", before) for before, after in pairwise(variances)]
    for claim in steps:
        claim.check()
    assert sum(claim.rho() for claim in steps) == Fraction(9) / (2 * Fraction("1.5"))


@given(st.sampled_from(["0.01", "0.5", "3"]), st.sampled_from(["0", "1e-9"]))
def test_an_ex_post_claim_has_the_amounts_of_its_approximate_bound(
    epsilon: str, delta: str
) -> None:
    shown, plain = promise(c.ExPost(epsilon, delta)), promise(c.Approximate(epsilon, delta))
    assert shown.ex_post
    assert not plain.ex_post
    fields = ("rho", "epsilon", "pure_epsilon", "delta", "intrinsic_time", "mu_squared")
    assert [getattr(shown, f) for f in fields] == [getattr(plain, f) for f in fields]
