"""The field rules of limit records: which field an error names, and that valid ones pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.policy import PARAMETERS, Policy
from accountant.records.inputs import check
from accountant.records.limit_fields import BUDGET_FIELDS, kind_of, own_policy, stored_policy
from accountant.records.limit_records import is_scope_row_key, scope_row_key
from accountant.records.members import is_member_row_key, member_row_key
from accountant.records.requests import SetLimit
from accountant.times import uuid7
from tests.every_case import check_rows

TEAM: dict[str, Any] = {"scope": "team", "name": "blue"}
PACE = {"part": "0.1", "period": "P1D"}
OWN = {"filter": "zcdp", "rho": "0.1"}


def body(**fields: object) -> bytes:
    whole = {"version": 1, "type": "limit", "dataset": "census", "by": "olga"}
    return json.dumps({**whole, "request_id": uuid7(1, b"\0" * 10), **fields}).encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"scope": "dataset"},
        {"scope": "dataset", "name": None, "pace": PACE},
        TEAM,
        {**TEAM, "part": "1", "pace": {"part": "1e-9", "period": "P36500D"}, "reserved": "0.1"},
        {**TEAM, "policy": OWN, "follows": 3, "reason": "why not"},
        {"scope": "analyst", "name": "ana@example.org", "part": "0.2", "reserved": "1"},
        {"scope": "each", "name": "blue", "policy": {"epsilon": "1", "delta": "1e-6"}},
    ],
)
def test_a_sound_record_is_taken(fields: dict[str, Any]) -> None:
    checked = check("admin", body(**fields))
    assert isinstance(checked.body, SetLimit)
    assert checked.caller == "olga"


def test_the_field_that_breaks_a_rule_is_named() -> None:
    def check_case(fields: dict[str, Any], field: str) -> None:
        with pytest.raises(RequestInvalid) as reported:
            check("admin", body(**fields))
        assert reported.value.field == field

    check_rows(
        check_case,
        [
            ({}, "scope"),
            ({"scope": "everybody"}, "scope"),
            ({"scope": "dataset", "name": "census"}, "name"),
            ({"scope": "dataset", "part": "0.1"}, "part"),
            ({"scope": "dataset", "policy": OWN}, "policy"),
            ({"scope": "dataset", "reserved": "0.1"}, "reserved"),
            ({"scope": "team"}, "name"),
            ({"scope": "team", "name": "a b"}, "name"),
            ({"scope": "each", "name": "blue", "reserved": "0.1"}, "reserved"),
            ({**TEAM, "part": "0.1", "policy": OWN}, "policy"),
            ({**TEAM, "part": "0"}, "part"),
            ({**TEAM, "part": "1.1"}, "part"),
            ({**TEAM, "part": 0.1}, "part"),
            ({**TEAM, "part": ""}, "part"),
            ({**TEAM, "reserved": "-1"}, "reserved"),
            ({**TEAM, "pace": {"part": "0.1"}}, "pace.period"),
            ({**TEAM, "pace": {"part": "2", "period": "P1D"}}, "pace.part"),
            ({**TEAM, "pace": {"part": "0.1", "period": "P0D"}}, "pace.period"),
            ({**TEAM, "pace": {"part": "0.1", "period": "P36501D"}}, "pace.period"),
            ({**TEAM, "pace": {"part": "0.1", "period": "PT24H"}}, "pace.period"),
            ({**TEAM, "pace": {**PACE, "since": "now"}}, "pace.since"),
            ({**TEAM, "policy": {}}, "policy.epsilon"),
            ({**TEAM, "policy": {**OWN, "filter": "unheard"}}, "policy.filter"),
            ({**TEAM, "policy": {**OWN, "epsilon": "1"}}, "policy.epsilon"),
            ({**TEAM, "policy": {**OWN, "order": "22"}}, "policy.order"),
            ({**TEAM, "policy": {**OWN, "rho": ["0.1"]}}, "policy.rho"),
            ({**TEAM, "policy": {**OWN, "unit": "person"}}, "policy.unit"),
            ({**TEAM, "policy": {**OWN, "alert_at": ["0.5"]}}, "policy.alert_at"),
            ({**TEAM, "policy": {"filter": "zcdp_tight", "epsilon": "1"}}, "policy.delta"),
            ({**TEAM, "policy": {**OWN, "beside": "basic"}}, "policy.beside"),
            ({**TEAM, "as": "administrator"}, "as"),
            ({**TEAM, "reason": "x" * 201}, "reason"),
            ({**TEAM, "follows": "3"}, "follows"),
        ],
    )


def test_a_limit_with_its_own_filter_may_have_every_filter_parameter() -> None:
    assert set(PARAMETERS) - set(BUDGET_FIELDS) == {"outside"}
    assert set(BUDGET_FIELDS) < set(Policy.__struct_fields__)
    for kind in FILTERS.values():
        given: dict[str, Any] = {"filter": kind.name, "delta": "1e-6"}
        given["epsilon" if "epsilon" in kind.budget_fields else "rho"] = "1"
        given |= {f: each.example for f, each in kind.parameters.items() if not each.is_flag}
        reported = stored_policy(given)
        assert list(reported) == [field for field in BUDGET_FIELDS if field in reported]
        assert own_policy(reported) == own_policy(stored_policy(reported))
        assert kind_of(own_policy(reported)).startswith(kind.name)


def test_an_own_budget_is_stored_resolved_and_nothing_else() -> None:
    reported = stored_policy({"delta": "1e-6", "epsilon": "1", "delta_for_claims": "1e-7"})
    assert reported == {
        "filter": "zcdp_tight",
        "epsilon": "1",
        "delta": "1e-6",
        "delta_for_claims": "0.0000001",
    }
    assert list(reported) == ["filter", "epsilon", "delta", "delta_for_claims"]


def test_the_kind_of_use_depends_only_on_the_filter_and_its_parameters() -> None:
    one = kind_of(own_policy({"filter": "renyi", "order": "22", "epsilon": "1", "delta": "1e-6"}))
    same = kind_of(own_policy({"filter": "renyi", "order": "22", "epsilon": "2", "delta": "1e-7"}))
    other = kind_of(own_policy({"filter": "renyi", "order": "24", "epsilon": "1", "delta": "1e-6"}))
    assert one == same != other


def test_keys_of_limits_and_members_never_collide() -> None:
    levels = {
        scope_row_key("census", scope, team, name)
        for scope in ("team", "analyst", "each")
        for team in ("", "blue", "member")
        for name in ("blue", "scope", "member")
    }
    assert len(levels) == 27
    assert scope_row_key("census", "team", "", "blue") in levels
    assert all(is_scope_row_key(key) and not is_member_row_key(key) for key in levels)
    key = member_row_key("scope", "member")
    assert is_member_row_key(key)
    assert not is_scope_row_key(key)
    assert not is_scope_row_key(b"census")
