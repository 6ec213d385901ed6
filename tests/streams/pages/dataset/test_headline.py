"""The promise in a sentence, the state in a word, the facts beside."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from accountant.policy.lifetime import StoredLifetime
from accountant.views.joint import JointGuarantee
from streams.pages.dataset.headline import headline
from streams.pages.dataset.odometers import odometer_rows
from tests.streams.pages.dataset.view_examples import dataset


def test_the_promise_states_the_guarantee_of_the_policy() -> None:
    view = dataset(policy={"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6"})
    head = headline(view)
    assert head.guarantee == "ε = 1, δ = 1e-6"
    assert "satisfies differential privacy with ε = 1, δ = 1e-6 for each person," in head.promise
    assert head.spent.used == "0 %"
    assert head.sums[0].budget.name == "ρ"


def test_a_rho_budget_is_shown_as_rho() -> None:
    view = dataset(policy={"filter": "zcdp", "epsilon": None, "rho": "0.5", "unit": "household"})
    promise = headline(view).promise
    assert "zero-concentrated differential privacy with ρ = 0.5, δ = 0" in promise
    assert promise.endswith("for each household, whatever is requested.")


@pytest.mark.parametrize(
    ("shared", "which"), [(False, "generation"), (True, "dataset of its life")]
)
def test_the_promise_ends_with_that_of_another_generation(*, shared: bool, which: str) -> None:
    policy = {"filter": "basic", "epsilon": "1", "delta": "0", "population": "people"}
    lifetime = StoredLifetime(
        epsilon="3", shared=shared, first="one", spent={"epsilon": "2", "delta": "0"}
    )
    view = replace(dataset(policy=policy), lifetime=lifetime, lifetime_guarantee="void")
    promise = headline(view).promise
    assert promise.startswith(f"Another {which}")
    assert promise.endswith("so no guarantee holds.")


@pytest.mark.parametrize(
    ("flags", "state"),
    [
        ({}, "open"),
        ({"exhausted": True}, "exhausted"),
        ({"exhausted": True, "halted": True}, "halted"),
        ({"closed": True, "halted": True}, "closed"),
    ],
)
def test_the_headline_shows_the_strongest_state(flags: dict[str, bool], state: str) -> None:
    assert headline(dataset(**flags)).state == state


def test_the_headline_states_the_joint_guarantee_of_a_population() -> None:
    joint_guarantee_view = JointGuarantee(
        population="city", datasets=("a", "b"), others=1, epsilon="2", delta="0"
    )
    said = headline(replace(dataset(), joint_guarantee=joint_guarantee_view)).joint
    assert "are in a, b and 1 other dataset. Together they guarantee ε = 2, δ = 0." in said
    broken = JointGuarantee(population="city", datasets=("a",), why="b was opened after a look")
    said = headline(replace(dataset(), joint_guarantee=broken)).joint
    assert said.endswith("Together they have no guarantee: b was opened after a look.")


def test_the_headline_states_the_limit_of_one_request() -> None:
    facts = dict(headline(dataset()).facts)
    assert facts["One request"] == "may take all that is left"
    capped = dataset(policy={"most_per_request": "0.05", "access": "members"})
    facts = dict(headline(capped).facts)
    assert facts["One request"] == "may take 5 % of the budget"
    assert facts["Who may ask"] == "members with the role analyst"


def test_an_odometer_row_explains_its_value() -> None:
    policy = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6"}
    (reading,) = odometer_rows(dataset(policy=policy, odometers={"one_sided_mixture": "0.4321987"}))
    assert reading.value == "0.4322"
    assert "at most 0.4322 nats, except with probability " in reading.read
    assert "nothing is wrong" not in reading.read


def test_an_odometer_above_the_guarantee_is_explained() -> None:
    policy = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6"}
    (above,) = odometer_rows(dataset(policy=policy, odometers={"one_sided_mixture": "1.25"}))
    assert "exceed the guarantee's ε without any violation" in above.read
    (endless,) = odometer_rows(dataset(policy=policy, odometers={"one_sided_mixture": "inf"}))
    assert endless.value == "no bound"
    assert "The guarantee above still holds." in endless.read


def test_a_sum_without_a_budget_has_no_row() -> None:
    assert [each.budget.name for each in headline(dataset()).sums] == ["ε"]
    with_delta = dataset(policy={"delta": "1e-6", "delta_for_claims": "1e-6"})
    assert [each.budget.name for each in headline(with_delta).sums] == ["ε", "δ"]
