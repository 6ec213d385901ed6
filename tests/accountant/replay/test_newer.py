"""A log goes on from older rules to newer ones; an older program stops at what it cannot know."""

from __future__ import annotations

import json

import msgspec
import pytest

from accountant.errors import MadeByNewer
from accountant.records import FIRST_RULES, RULES, VERSION, decode_decision, encode
from accountant.replay.audit import audit
from accountant.replay.refold import Refold, state_rows
from tests.accountant.world import World


def mixed() -> World:
    """Return a ledger that a program of the first rules began, and this one goes on with."""
    world = World(rules=FIRST_RULES)
    world.open(epsilon="1", delta="0")
    world.ask("pure:0.25")
    world.rules = RULES
    world.commit()
    world.ask("pure:0.25")
    return world


def test_a_log_of_both_rules_refolds_and_audits_each_by_its_own() -> None:
    world = mixed()
    assert [decode_decision(value).rules for value in world.log] == [1, 1, 1, RULES]
    assert audit(world.log).ok
    assert state_rows(world.refolded()) == world.rows()


def test_rules_never_go_back() -> None:
    world = mixed()
    world.ask("pure:0.25")
    last = decode_decision(world.log[-1])
    older = encode(msgspec.structs.replace(last, rules=FIRST_RULES))
    found = audit([*world.log[:-1], older]).first_disagreement
    assert found is not None
    assert (found.partition_sequence, found.what) == (4, "rules")


def made_by(newer: dict[str, object], value: bytes) -> bytes:
    return json.dumps(json.loads(value) | newer | {"outcome": "undreamt_of"}).encode()


@pytest.mark.parametrize("newer", [{"rules": RULES + 1}, {"version": VERSION + 1}])
def test_a_decision_of_a_newer_program_is_told_before_anything_else_of_it_is_read(
    newer: dict[str, int],
) -> None:
    world = mixed()
    world.log[-1] = made_by(newer, world.log[-1])
    refold = Refold(world.genesis)
    for value in world.log[:-1]:
        refold.take_decision(value)
    ((what, number),) = newer.items()
    words = f"made by {what} {number}.*run the newer version"
    with pytest.raises(MadeByNewer, match=words):
        refold.take_decision(world.log[-1])
    found = audit(world.log).first_disagreement
    assert found is not None
    assert "run the newer version" in found.found


def test_a_row_of_a_newer_program_is_told() -> None:
    world = mixed()
    (key, value) = world.rows()[-1]
    row = json.loads(value) | {"rules": RULES + 1, "head": None}
    with pytest.raises(MadeByNewer, match="run the newer version"):
        Refold(world.genesis).take_row(key, json.dumps(row).encode())
