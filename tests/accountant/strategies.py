"""Hypothesis strategies: claims of every kind, in the forms that the wire allows."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from accountant import claims as c
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from tests.accountant.filters import policies


def decimals(minimum: int, maximum: int) -> st.SearchStrategy[str]:
    """Decimals of 1 to 4 digits, their first digit between 10^least and 10^most."""
    return st.builds(
        lambda digits, exponent: f"{digits[0]}.{digits[1:] or '0'}e{exponent}",
        st.integers(1, 9999).map(str),
        st.integers(minimum, maximum),
    )


def atoms(*, small: int = -6, large: int = -1) -> st.SearchStrategy[c.Claim]:
    """Single mechanisms whose epsilon is about 10^small to 10^large."""
    epsilon = decimals(small, large)
    rho = decimals(2 * small, 2 * large)
    delta = st.one_of(st.just("0"), decimals(-20, -7))
    noise = decimals(0, 2)
    query = decimals(max(small, -20), large)
    return st.one_of(
        st.builds(c.Pure, epsilon),
        st.builds(c.Approximate, epsilon, delta),
        st.builds(c.Probabilistic, epsilon, delta),
        st.builds(c.RandomizedResponse, epsilon, delta),
        st.builds(c.Zcdp, rho),
        st.builds(c.ApproximateZcdp, rho, delta),
        st.builds(c.Gdp, epsilon),
        st.builds(c.BoundedRange, epsilon),
        st.builds(c.Laplace, noise, query),
        st.builds(c.Gaussian, noise, query),
        st.builds(c.SubsampledGaussian, noise, query, decimals(-6, -1)),
        st.builds(c.Brownian, noise, query),
        st.builds(c.Brownian, noise, query, noise),
        st.builds(c.ExPost, epsilon, delta),
    ).filter(_in_range)


def ex_posts(small: int = -6, large: int = -1) -> st.SearchStrategy[c.Claim]:
    """Ex-post claims whose bound is about 10^small to 10^large."""
    delta = st.one_of(st.just("0"), decimals(-12, -7))
    return st.builds(c.ExPost, decimals(small, large), delta).filter(_in_range)


def _in_range(claim: c.Claim) -> bool:
    try:
        claim.check()
    except RequestInvalid:
        return False
    return True


def batches(of: st.SearchStrategy[c.Claim]) -> st.SearchStrategy[c.Claim]:
    return st.one_of(
        st.builds(c.Repeat, of, st.integers(1, 1000)),
        st.builds(c.AllOf, st.lists(of, min_size=1, max_size=4).map(tuple)),
    )


def claims(*, small: int = -6, large: int = -1) -> st.SearchStrategy[c.Claim]:
    """Single mechanisms and batches, nested at most twice."""
    single = atoms(small=small, large=large)
    batch = batches(single)
    return st.one_of(single, single, batch, batches(st.one_of(single, batch)))


_OWN: tuple[dict[str, object], ...] = (
    {"epsilon": "1", "delta": "1e-6"},
    {"epsilon": "1", "delta": "2e-6", "delta_for_claims": "1e-6"},
    {"filter": "basic", "epsilon": "1", "delta": "1e-6", "odometers": [{"type": "basic"}]},
    {"filter": "zcdp", "rho": "0.05", "delta": "1e-7"},
    {
        "filter": "fully_adaptive",
        "epsilon": "2",
        "delta": "1e-5",
        "delta_for_claims": "1e-6",
        "odometers": [
            {"type": "basic"},
            {"type": "linear", "delta": "1e-6", "y": "0.01"},
            {"type": "mixture", "delta": "1e-6", "r": "0.01"},
            {"type": "one_sided_mixture", "delta": "1e-6", "r": "0.01"},
            {"type": "stitched", "delta": "1e-6", "v0": "0.0001"},
        ],
        "horizon": "P30D",
    },
    {
        "filter": "advanced_2016",
        "epsilon": "1",
        "delta": "1e-6",
        "odometers": [{"type": "basic"}, {"type": "mixture", "delta": "1e-6", "r": "0.01"}],
    },
    {"filter": "ex_post", "epsilon": "1", "delta": "1e-6", "odometers": [{"type": "basic"}]},
    {
        "filter": "split",
        "epsilon": "1",
        "delta": "2e-6",
        "delta_for_claims": "1e-6",
        "epsilon_ex_post": "0.5",
        "delta_ex_post": "1e-7",
        "odometers": [{"type": "basic"}, {"type": "mixture", "delta": "1e-6", "r": "0.01"}],
    },
    {"filter": "unified_brownian", "rho": "0.05", "delta": "1e-7"},
    {"filter": "unified_brownian", "epsilon": "1", "delta": "1e-6", "halt_on_refusal": True},
    {"filter": "gdp_residue", "epsilon": "1", "delta": "2e-6", "delta_for_claims": "1e-6"},
    {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": "22"},
    {"filter": "optimal_homogeneous", "epsilon": "1", "delta": "1e-6", "epsilon_each": "0.02"},
    {
        "filter": "renyi_weighted",
        "epsilon": "1",
        "delta": "1e-6",
        "orders": ["18", "40", "300"],
        "odometers": [{"type": "mixture", "delta": "1e-6", "r": "0.01"}],
    },
    {"filter": "basic", "epsilon": "0.3", "delta": "1e-6", "halt_on_refusal": True},
)
POLICIES = (
    *_OWN,
    *(
        msgspec.to_builtins(policies.POLICIES[name])
        for name in FILTERS
        if name not in {policy.get("filter", "zcdp_tight") for policy in _OWN}
    ),
)
"""One policy of each filter at least, two that halt, one with every odometer."""
