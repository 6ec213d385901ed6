"""The fields of openings, amendments, requests and members' records that tell of people."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.accountant.partition.circle import BASIC, opened, rows_of, sound
from tests.accountant.world import World, code
from tests.every_case import check_each, check_rows

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"roles": [], "team": "blue"}, "team"),
    ({"roles": [], "until": "2027-01-01T00:00:00.000Z"}, "until"),
    ({"roles": ["owner"], "until": "2027-01-01T00:00:00.000Z"}, "until"),
    ({"roles": ["analyst", "owner"], "until": "2027-01-01T00:00:00.000Z"}, "until"),
    ({"until": "2027-01-01T00:00:00Z"}, "until"),
    ({"until": "2027-01-01T00:00:00.0000Z"}, "until"),
    ({"until": "2027-01-01T00:00:00.000+00:00"}, "until"),
    ({"until": "2027-01-01 00:00:00.000Z"}, "until"),
    ({"until": "2027-02-29T00:00:00.000Z"}, "until"),
    ({"until": "2027-01-01T24:00:00.000Z"}, "until"),
    ({"until": "2027-01-01T00:00:60.000Z"}, "until"),
    ({"until": "٢027-01-01T00:00:00.000Z"}, "until"),
    ({"until": ""}, "until"),
    ({"until": 1_798_761_600_000}, "until"),
    ({"team": ""}, "team"),
    ({"team": "a/b"}, "team"),
    ({"member": "x" * 101}, "member"),
    ({"member": "a b"}, "member"),
    ({"roles": ["analyst", "analyst"]}, "roles"),
    ({"roles": ["Owner"]}, "roles"),
    ({"roles": "owner"}, "roles"),
    ({"as": "owner"}, "as"),
    ({"as": ""}, "as"),
    ({"reason": "x" * 201}, "reason"),
    ({"policy": BASIC}, "policy"),
    ({"analyst": "ana"}, "analyst"),
]


def test_a_field_that_breaks_its_rule_is_named() -> None:
    def check_case(fields: dict[str, Any], field: str) -> None:
        world = opened()
        body = {"member": "ana", "roles": ["analyst"], **fields}
        decision = world.send("admin", world.admin("member", **body))
        assert code(decision) == "invalid_field"
        assert decision.error is not None
        assert decision.error.field.partition("[")[0] == field
        assert decision.sequence is None

    check_rows(check_case, WRONG)


@pytest.mark.parametrize("roles", [["analyst"], ["owner"], []])
def test_null_is_as_if_a_field_of_a_member_was_left_out(roles: list[str]) -> None:
    world = opened()
    nothing = dict.fromkeys(("team", "until", "as", "follows"))
    body = world.admin("member", member="owner", roles=["owner", "engine"], **nothing)
    assert code(world.send("admin", body)) == "member_set"
    body = world.admin("member", member="ana", roles=roles, **nothing)
    assert code(world.send("admin", body)) == ("member_set" if roles else "unknown_member")
    assert sound(world)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("request", {"via": None}),
        ("open", {"owners": None, "policy": BASIC}),
        *(("open", {"policy": {**BASIC, n: None}}) for n in ("access", "visibility", "population")),
    ],
)
def test_null_is_no_value_elsewhere(kind: str, fields: dict[str, Any]) -> None:
    world = opened(BASIC)
    if kind == "request":
        assert code(world.ask("pure:0.001", **fields)) == "invalid_field"
    else:
        body = world.admin(kind, dataset="other", **fields)
        assert code(world.send("admin", body)) == "invalid_field"


def test_a_request_with_a_duplicate_optional_field_is_undecodable() -> None:
    def check_case(again: str, via: str) -> None:
        world = opened(BASIC)
        body = json.loads(world.request("pure:0.001", via=via, purpose=""))
        text = json.dumps(body, separators=(",", ":"))
        twice = f"{text[:-1]},{again}}}".encode()
        assert code(world.send("requests", twice)) == "undecodable"

    check_each(
        check_case,
        ['"via":"a:b"', '"via":"c"', '"via" : "c:"', '"purpose":""'],
        ["engine-1", "a:b", "::"],
    )


@pytest.mark.parametrize("missing", ["member", "roles", "by", "dataset", "version"])
def test_a_members_record_needs_each_of_its_fields(missing: str) -> None:
    world = opened()
    body = json.loads(world.admin("member", member="ana", roles=["analyst"]))
    del body[missing]
    assert code(world.send("admin", json.dumps(body).encode())) == "invalid_field"


@pytest.mark.parametrize(
    ("owners", "right"),
    [
        (["olga"], True),
        ([f"o-{number}" for number in range(100)], True),
        ([f"o-{number}" for number in range(101)], False),
        ([], False),
        (["olga", "olga"], False),
        (["a/b"], False),
        ("olga", False),
    ],
)
def test_an_opening_names_1_to_100_owners(owners: Any, right: bool) -> None:
    world = World()
    decision = world.send("admin", world.admin("open", policy=BASIC, owners=owners))
    assert code(decision) == ("opened" if right else "invalid_field")
    assert len(rows_of(world)) == (len(owners) if right else 0)
