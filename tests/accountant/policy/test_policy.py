"""A policy is checked field by field, and what is opened is written out in full."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from msgspec import UNSET

from accountant.filters import FILTERS
from accountant.policy import PARAMETERS, Policy, parse_budget
from accountant.records import Decision, decode_policy, encode
from tests.accountant.world import World, code
from tests.every_case import check_each, check_rows

GOOD: dict[str, object] = {"epsilon": "1", "delta": "1e-6"}


def open_with(**changes: object) -> Decision:
    return World().open(**{k: v for k, v in (GOOD | changes).items() if v != "left out"})


BAD: list[tuple[dict[str, object], str]] = [
    ({"filter": "advanced"}, "policy.filter"),
    ({"epsilon": "left out"}, "policy.epsilon"),
    ({"epsilon": "0"}, "policy.epsilon"),
    ({"epsilon": "1001"}, "policy.epsilon"),
    ({"epsilon": "-1"}, "policy.epsilon"),
    ({"rho": "1"}, "policy.rho"),
    ({"filter": "zcdp"}, "policy.epsilon"),
    ({"filter": "zcdp", "epsilon": "left out"}, "policy.rho"),
    ({"filter": "zcdp", "epsilon": "left out", "rho": "0"}, "policy.rho"),
    ({"delta": "1"}, "policy.delta"),
    ({"delta": "0"}, "policy.delta"),
    ({"delta": "left out"}, "policy.delta"),
    ({"filter": "fully_adaptive", "delta": "0"}, "policy.delta"),
    ({"delta_for_claims": "1e-6"}, "policy.delta"),
    ({"delta_for_claims": "2e-6"}, "policy.delta_for_claims"),
    ({"unit": ""}, "policy.unit"),
    ({"neighbours": "all"}, "policy.neighbours"),
    ({"alert_at": ["0"]}, "policy.alert_at[0]"),
    ({"alert_at": ["0.5", "0.5"]}, "policy.alert_at[1]"),
    ({"alert_at": ["0.5", "1.1"]}, "policy.alert_at[1]"),
    ({"alert_at": [f"0.{n}" for n in range(10, 31)]}, "policy.alert_at"),
    ({"horizon": "1 year"}, "policy.horizon"),
    ({"horizon": "P0D"}, "policy.horizon"),
    ({"odometers": [{"type": "mixture", "delta": "0", "r": "1"}]}, "policy.odometers[0].delta"),
    ({"odometers": [{"type": "mixture", "delta": "1", "r": "1"}]}, "policy.odometers[0].delta"),
    ({"odometers": [{"type": "mixture", "delta": "1e-6", "r": "0"}]}, "policy.odometers[0].r"),
    ({"odometers": [{"type": "linear", "delta": "1e-6", "y": "-1"}]}, "policy.odometers[0].y"),
    ({"odometers": [{"type": "stitched", "delta": "1e-6"}]}, "policy.odometers[0].v0"),
    ({"odometers": [{"type": "basic"}, {"type": "basic"}]}, "policy.odometers"),
    ({"odometers": [{"type": "basic"}] * 9}, "policy.odometers"),
    ({"odometers": [{"type": "crystal ball"}]}, "policy.odometers[0].type"),
    ({"other": 1}, "policy.other"),
    ({"halt_on_refusal": "yes"}, "policy.halt_on_refusal"),
    ({"halt_on_refusal": None}, "policy.halt_on_refusal"),
    ({"order": "22"}, "policy.order"),
    ({"orders": ["22"]}, "policy.orders"),
    ({"weights": ["1"]}, "policy.weights"),
    ({"epsilon_ex_post": "1"}, "policy.epsilon_ex_post"),
    ({"delta_ex_post": "1e-9"}, "policy.delta_ex_post"),
    ({"filter": "split"}, "policy.epsilon_ex_post"),
    ({"filter": "split", "epsilon_ex_post": "0"}, "policy.epsilon_ex_post"),
    ({"filter": "split", "epsilon_ex_post": None}, "policy.epsilon_ex_post"),
    ({"filter": "split", "epsilon_ex_post": "1", "delta_ex_post": "1"}, "policy.delta_ex_post"),
    (
        {"filter": "split", "epsilon_ex_post": "1", "delta_ex_post": "0.9999999"},
        "policy.delta_ex_post",
    ),
    ({"filter": "split", "epsilon_ex_post": "1", "epsilon": "left out"}, "policy.epsilon"),
    ({"filter": "advanced_2016", "epsilon": "left out"}, "policy.epsilon"),
    ({"filter": "advanced_2016", "delta": "0.4"}, "policy.delta"),
    ({"filter": "advanced_2016", "rho": "1"}, "policy.rho"),
    ({"filter": "unified_brownian", "epsilon": "left out"}, "policy.epsilon"),
    ({"filter": "unified_brownian", "rho": "1"}, "policy.rho"),
    ({"filter": "unified_brownian", "delta": "0"}, "policy.delta"),
    ({"filter": "ex_post", "epsilon": "left out"}, "policy.epsilon"),
]


def test_a_policy_that_breaks_a_rule_names_its_field() -> None:
    def check_case(changes: dict[str, object], field: str) -> None:
        decision = open_with(**changes)
        assert code(decision) == "invalid_field", decision
        assert decision.error is not None
        assert decision.error.field == field

    check_rows(check_case, BAD)


def test_the_ends_of_the_ranges_open_or_are_refused_never_raise() -> None:
    def check_case(changes: dict[str, object]) -> None:
        world = World()
        decision = world.open(**{k: v for k, v in (GOOD | changes).items() if v != "left out"})
        assert code(decision) in {"opened", "invalid_field"}
        if code(decision) == "opened":
            for claim in ("pure:1e-12", "pure:1000", "zcdp:1e6", "approximate:1,0.5"):
                assert code(world.ask(claim)) in {"granted", "exhausted", "claim_not_accepted"}

    check_each(
        check_case,
        [
            {"epsilon": "1e-12", "delta": "1e-40"},
            {"epsilon": "1000", "delta": "1e-40"},
            {"epsilon": "1000", "delta": "0.9999999999999999999999999999999999999999"},
            {"epsilon": "0.001", "delta": "0.5"},
            {"filter": "fully_adaptive", "epsilon": "1000", "delta": "1e-40"},
            {"filter": "fully_adaptive", "delta": "0.999"},
            {"filter": "basic", "epsilon": "1e-12", "delta": "0"},
            {"filter": "zcdp", "epsilon": "left out", "rho": "1e-25"},
            {"filter": "advanced_2016", "epsilon": "1e-12", "delta": "1e-40"},
            {"filter": "advanced_2016", "epsilon": "1000", "delta": "1e-40"},
            {"filter": "advanced_2016", "epsilon": "1000", "delta": "0.367"},
            {"filter": "ex_post", "epsilon": "1e-12", "delta": "0"},
            {"filter": "split", "epsilon": "1000", "delta": "1e-40", "epsilon_ex_post": "1e-12"},
            {"filter": "unified_brownian", "epsilon": "1000", "delta": "1e-40"},
        ],
    )


def test_the_claims_share_of_delta_has_a_default_by_filter() -> None:
    def check_case(changes: dict[str, object], for_claims: str) -> None:
        policy = open_with(**changes).policy
        assert policy is not None
        assert policy.delta_for_claims == for_claims

    check_rows(
        check_case,
        [
            ({}, "0"),
            ({"filter": "fully_adaptive"}, "0"),
            ({"filter": "basic"}, "0.000001"),
            ({"filter": "zcdp", "epsilon": "left out", "rho": "1"}, "0.000001"),
            ({"filter": "basic", "delta_for_claims": "0"}, "0"),
            ({"filter": "advanced_2016"}, "0.0000005"),
            ({"filter": "advanced_2016", "delta_for_claims": "0"}, "0"),
            ({"filter": "ex_post"}, "0.000001"),
            ({"filter": "split", "epsilon_ex_post": "1"}, "0"),
            ({"filter": "unified_brownian"}, "0"),
            ({"filter": "unified_brownian", "epsilon": "left out", "rho": "1"}, "0.000001"),
        ],
    )


@pytest.mark.parametrize("name", ["zcdp_tight", "fully_adaptive", "advanced_2016"])
def test_claims_and_the_filter_share_one_delta(name: str) -> None:
    policy = open_with(filter=name, delta="0.000001", delta_for_claims="0.0000004").policy
    assert policy is not None
    budget = parse_budget(policy)
    assert budget.delta_for_claims == Decimal("0.0000004")
    assert budget.delta_for_filter == Decimal("0.0000006")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ["one_sided_mixture"]),
        ({"filter": "fully_adaptive"}, ["one_sided_mixture"]),
        ({"filter": "basic"}, []),
        ({"filter": "zcdp", "epsilon": "left out", "rho": "1"}, []),
        ({"odometers": []}, []),
    ],
)
def test_the_default_odometer_requires_epsilon_and_delta_in_the_policy(
    changes: dict[str, object], names: list[str]
) -> None:
    decision = open_with(**changes)
    assert decision.policy is not None
    assert decision.policy.odometers is not None
    assert [str(o.__struct_config__.tag) for o in decision.policy.odometers] == names
    assert list(decision.odometers or {}) == names


def test_the_default_odometer_is_tuned_to_the_budget() -> None:
    # At a full budget it stands within a quarter of the epsilon that the filter promises.
    world = World()
    world.open(**GOOD)
    decision = world.ask("487*pure:0.01")
    assert decision.odometers is not None
    assert 1 < float(decision.odometers["one_sided_mixture"]) < 1.25


def test_unused_fields_of_a_policy_are_not_written() -> None:
    """An opening from before this field existed is written again byte for byte."""
    before = b'{"filter":"basic","epsilon":"1","rho":null,"delta":"0","delta_for_claims":"0",'
    before += b'"unit":"person","neighbours":"add_remove","odometers":[],"alert_at":["0.5"],'
    before += b'"horizon":null}'
    assert encode(decode_policy(before)) == before


def test_used_fields_of_a_policy_survive_encoding_and_decoding() -> None:
    given = {"filter": "split", "epsilon_ex_post": "0.5", "halt_on_refusal": True}
    policy = open_with(**given).policy
    assert policy is not None
    assert decode_policy(encode(policy)) == policy
    assert (policy.epsilon_ex_post, policy.halt_on_refusal) == ("0.5", True)


def test_every_parameter_is_a_field_of_a_policy_and_some_filter_s():
    further = {
        name
        for name, default in zip(Policy.__struct_fields__, Policy.__struct_defaults__, strict=True)
        if default is UNSET
    }
    assert set(PARAMETERS) == further - {
        *("halt_on_refusal", "most_per_request", "beside", "access", "visibility", "population"),
        *("open_per_holder", "approve_above", "approve_within"),
    }
    for kind in FILTERS.values():
        for name, parameter in kind.parameters.items():
            decoded = msgspec.convert({name: parameter.example}, Policy, strict=True)
            assert getattr(decoded, name) == parameter.example
            assert parameter.help.endswith(".")
