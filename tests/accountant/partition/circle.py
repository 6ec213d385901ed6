"""One dataset and its members, as tests of membership set them up and look at them."""

from __future__ import annotations

import json
from typing import Any

from accountant.records import Decision
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant.world import World, code

BASIC: dict[str, Any] = {"filter": "basic", "epsilon": "1"}
CIRCLE = {**BASIC, "access": "members"}


def opened(policy: dict[str, Any] = CIRCLE, *owners: str, batch: int = 1) -> World:
    """Return a world with `census` open, by `owner` unless others are named."""
    world = World(batch=batch)
    more = {"owners": owners} if owners else {}
    decision = world.send("admin", world.admin("open", policy=policy, **more))
    assert code(decision) == "opened"
    return world


def member(world: World, name: str, *roles: str, **fields: object) -> Decision:
    return world.send("admin", world.admin("member", member=name, roles=roles, **fields))


def enrol(world: World, name: str, *roles: str, **fields: object) -> None:
    assert code(member(world, name, *roles, **fields)) == "member_set"


def ask(world: World, **fields: object) -> str:
    return code(world.ask("pure:0.001", **fields))


def record_of(decision: Decision, world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.log[decision.partition_sequence])
    return found


def rows_of(world: World) -> dict[str, dict[str, Any]]:
    """Return the rows of members in `state`."""
    rows = {key.decode(): json.loads(value) for key, value in world.rows()}
    return {key: row for key, row in rows.items() if row["type"] == "member"}


def sound(world: World) -> bool:
    """Tell whether audit, refold and the oracle find what the world has come to."""
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement
    return state_rows(world.replayed()) == world.rows()
