"""A change of key names the key before it and another one, and no other decision has one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.partition.operate import change_key
from accountant.records import Decision, decode_decision, encode
from accountant.records.operator_records import KeyChange
from accountant.records.outcomes import Outcome
from accountant.replay.audit import audit
from tests.accountant.world import World, opened


@pytest.fixture
def world() -> World:
    """A ledger of decisions 0 to 2."""
    world = opened(filter="basic", epsilon="1")
    world.ask("pure:0.1")
    return world


def change(world: World, key: str, by: str) -> Decision:
    world.commit()
    changed = KeyChange(key=key, by=by)
    decided = world.took(change_key(world.draft, world.now, "a rotation", changed))
    world.commit()
    return decided


def first_disagreement(world: World, forged: Decision, at: int) -> str | None:
    report = audit([*world.log[:at], encode(forged)], genesis=world.genesis)
    wrong = report.first_disagreement
    return None if wrong is None else wrong.what


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"key_change": KeyChange(key="k+3+C", by="k+1+A")}, "key_change.by"),
        ({"key_change": KeyChange(key="k+2+B", by="k+2+B")}, "key_change.key"),
        ({"key_change": None}, "key_change"),
        ({"outcome": Outcome.SEALED}, "key_change"),
        ({}, None),
    ],
)
def test_an_audit_names_each_forged_field_of_a_change_of_key(
    world: World, fields: dict[str, Any], field: str | None
) -> None:
    change(world, "k+2+B", by="k+1+A")
    second = change(world, "k+3+C", by="k+2+B")
    assert first_disagreement(world, msgspec.structs.replace(second, **fields), 4) == field


def test_no_other_decision_changes_the_key(world: World) -> None:
    world.commit()
    granted = decode_decision(world.log[2])
    forged = msgspec.structs.replace(granted, key_change=KeyChange(key="k+2+B", by="k+1+A"))
    assert first_disagreement(world, forged, 2) == "key_change"
