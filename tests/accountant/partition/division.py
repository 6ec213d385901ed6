"""One dataset whose budget is divided, as tests of limits set it up and look at it."""

from __future__ import annotations

import json
from typing import Any

from accountant.records import Decision
from accountant.records.limit_records import DAY_MS
from tests.accountant.partition.circle import BASIC, enrol, opened
from tests.accountant.world import World, code

TEAMS = {"ana": "blue", "ben": "blue", "cy": "red", "dan": "red"}
"""Analysts by their team; `eve` has none."""


def divided(policy: dict[str, Any] = BASIC, *, batch: int = 1) -> World:
    """Return a world with `census` open and its analysts enrolled."""
    world = opened(policy, batch=batch)
    for name, team in TEAMS.items():
        enrol(world, name, "analyst", team=team)
    return world


def limit(world: World, scope: str, name: str | None = None, **fields: object) -> Decision:
    named = {} if name is None else {"name": name}
    return world.send("admin", world.admin("limit", scope=scope, **named, **fields))


def divide(world: World, scope: str, name: str | None = None, **fields: object) -> dict[str, Any]:
    """Set a limit and return it as its decision tells it."""
    decision = limit(world, scope, name, **fields)
    assert code(decision) == "limit_set", decision
    reported: dict[str, Any] = json.loads(world.log[decision.partition_sequence])["limit"]
    return reported


def ask_for_record(world: World, analyst: str, epsilon: str) -> dict[str, Any]:
    """Ask, and return the whole decision."""
    decision = world.ask(f"pure:{epsilon}", analyst=analyst)
    found: dict[str, Any] = json.loads(world.log[decision.partition_sequence])
    return found


def ask_for_outcome(world: World, analyst: str, epsilon: str) -> str:
    """Ask, and return `granted` or why not: the reason, or what of which level."""
    found = ask_for_record(world, analyst, epsilon)
    level = found.get("level")
    if level is None:
        return str(found.get("reason", found["outcome"]))
    place = "/".join([level["scope"], *([level["name"]] if "name" in level else [])])
    reason = "" if found["reason"] == "exhausted" else f"{found['reason']} "
    return f"{reason}{place} {level['what']}"


def days(number: float) -> int:
    return round(number * DAY_MS)


def level_rows(world: World) -> dict[str, dict[str, Any]]:
    """Return the rows of levels in `state`."""
    rows = {key.decode(): json.loads(value) for key, value in world.rows()}
    return {key: row for key, row in rows.items() if row["type"] == "level"}
