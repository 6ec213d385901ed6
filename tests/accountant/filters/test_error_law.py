"""The law that a question with `error` gets by default, by the table of filters."""

from __future__ import annotations

import msgspec
import pytest

from accountant.claims import CheckedClaim, check_claim
from accountant.claims.price import price
from accountant.filters import FILTERS, Filter
from accountant.policy import Policy
from accountant.questions import Noise, as_claimed, check_question, derive
from accountant.questions.laws import FORMS, LAWS, OneAnswerLaw
from accountant.questions.schema import DataSource, NumberColumn, Schema
from accountant.questions.statistics import CountQuestion
from tests.accountant.filters.policies import POLICIES, plan_of

_SCHEMA = Schema(
    source=DataSource(kind="csv", name="people"),
    columns=(NumberColumn(name="age", lower="0", upper="120"),),
    neighbours="add_remove",
)
_LAWS = [name for name in FORMS["error"] if isinstance(LAWS[name], OneAnswerLaw)]


def _claim(law: str, error: str) -> CheckedClaim:
    noise = msgspec.convert({"error": error, "confidence": "0.95", "law": law}, Noise)
    return check_claim(derive(check_question(CountQuestion(), _SCHEMA), noise).claim)


def _admitted(kind: Filter, capacity: tuple[int, ...], claim: CheckedClaim) -> int:
    """Return how many of a claim fit an empty dataset."""
    each, spent, count = price(claim, kind.needs), (0,) * len(kind.state), 0
    while (after := kind.charge(capacity, spent, each)) is not None:
        spent, count = after, count + 1
    return count


@pytest.mark.parametrize("name", sorted(set(FILTERS) - {"ex_post", "optimal_homogeneous"}))
def test_no_other_law_admits_more_of_a_small_error(name: str) -> None:
    plan = plan_of(POLICIES[name])
    fits = {law: _admitted(plan.kind, plan.capacity, _claim(law, "150")) for law in _LAWS}
    assert fits[plan.kind.error_law] == max(fits.values())
    assert fits[plan.kind.error_law] > 0


@pytest.mark.parametrize(
    ("policy", "law"),
    [
        (Policy(filter="zcdp", rho="0.05", delta="1e-6"), "discrete_gaussian"),
        (Policy(filter="zcdp_tight", epsilon="1", delta="1e-6"), "discrete_gaussian"),
        (
            Policy(filter="zcdp_tight", epsilon="1", delta="1e-6", beside="basic"),
            "discrete_laplace",
        ),
        (Policy(filter="gdp_residue", epsilon="1", delta="1e-6"), "rounded_gaussian"),
        (
            Policy(filter="gdp_residue", epsilon="1", delta="1e-6", beside="basic"),
            "discrete_laplace",
        ),
    ],
)
def test_basic_beside_a_filter_decides_the_law(policy: Policy, law: str) -> None:
    assert plan_of(policy).error_law == law


def test_an_odometer_of_epsilons_keeps_laplace_noise() -> None:
    """A Gaussian's claim has no epsilon, and would end what the odometer reads."""
    policy = msgspec.convert(
        {"filter": "zcdp", "rho": "0.05", "delta": "1e-6", "odometers": [{"type": "basic"}]},
        Policy,
    )
    assert plan_of(policy).error_law == "discrete_laplace"


@pytest.mark.parametrize("law", _LAWS)
def test_the_claim_tells_the_law(law: str) -> None:
    noise = Noise(error="150", confidence="0.95")
    claim = derive(
        check_question(CountQuestion(), _SCHEMA),
        msgspec.structs.replace(noise, law=LAWS[law].name),
    ).claim
    assert as_claimed(noise, claim).law == law
    assert as_claimed(Noise(rho="0.01"), claim) == Noise(rho="0.01")
    named = Noise(error="150", confidence="0.95", law="discrete_laplace")
    assert as_claimed(named, claim) == named
