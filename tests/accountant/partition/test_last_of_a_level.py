"""Two requests want the last of a level, or of the budget: the order of the log decides."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any, Final

from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant.partition.circle import sound
from tests.accountant.partition.division import divide, divided
from tests.accountant.world import World
from tests.every_case import check_each, check_rows

PACE: Final = {"pace": {"part": "0.1", "period": "P1D"}}
OWN: Final = {"policy": {"filter": "zcdp", "rho": "0.004996"}}  # of pure:0.1 once, not twice
LEVELS: Final[dict[str, tuple[dict[str, Any], tuple[str, str], str]]] = {
    # The limit, the callers, and what refuses the second.
    "a dataset's pace": ({"scope": "dataset", **PACE}, ("ana", "cy"), "dataset pace"),
    "a team's part": ({"scope": "team", "part": "0.1"}, ("ana", "ben"), "team limit"),
    "a team's own budget": ({"scope": "team", **OWN}, ("ana", "ben"), "team limit"),
    "a team's pace": ({"scope": "team", **PACE}, ("ben", "ana"), "team pace"),
    "an analyst's part": ({"scope": "analyst", "part": "0.1"}, ("ana", "ana"), "analyst limit"),
    "an analyst's own budget": ({"scope": "analyst", **OWN}, ("ana", "ana"), "analyst limit"),
    "an analyst's pace": ({"scope": "analyst", **PACE}, ("ana", "ana"), "analyst pace"),
    "a default's part": ({"scope": "each", "part": "0.1"}, ("ana", "ana"), "each limit"),
    "a default's pace": ({"scope": "each", **PACE}, ("ben", "ben"), "each pace"),
    "what is not reserved": (
        {"scope": "team", "reserved": "0.9"}, ("cy", "eve"), "dataset reserved"),
    "the whole budget": ({"scope": "team", "part": "1"}, ("ana", "cy"), "itself"),
}  # fmt: skip
NAMES: Final = {"dataset": {}, "team": {"name": "blue"}, "each": {"name": "blue"}}


def prepared(name: str, batch: int) -> World:
    """Return a world in which pure:0.1 has room once, at the level or in the budget."""
    fields = dict(LEVELS[name][0])
    scope = fields.pop("scope")
    world = divided(batch=batch)
    if name == "the whole budget":
        assert world.ask("pure:0.9", analyst="ben").granted
    divide(world, scope, **NAMES.get(scope, {"name": "ana"}), **fields)
    world.commit()
    return world


def outcome(world: World, body: bytes) -> str:
    """Return `granted`, or what has no room."""
    decision = world.send("requests", body)
    found = json.loads(world.log[decision.partition_sequence])
    if found["outcome"] == "granted":
        return "granted"
    assert found["reason"] == "exhausted"
    return f"{found['level']['scope']} {found['level']['what']}" if "level" in found else "itself"


def test_only_the_first_request_on_the_log_gets_the_last_of_a_limit() -> None:
    def check_case(name: str, batch: int, order: tuple[int, int]) -> None:
        _, analysts, refuses = LEVELS[name]
        world = prepared(name, batch)
        bodies = [world.request("pure:0.1", analyst=analyst) for analyst in analysts]
        assert [outcome(world, bodies[place]) for place in order] == ["granted", refuses]
        last = json.loads(world.log[-1])
        assert Fraction(last["totals"]["epsilon"]) <= 1
        assert sound(world)

    check_rows(
        check_case,
        [
            (name, batch, order)
            for name in LEVELS
            for batch, order in [*itertools.product((1, 100), ((0, 1), (1, 0)))]
        ],
    )


def test_after_a_kill_an_uncommitted_grant_may_go_to_the_other_request() -> None:
    def check_case(name: str) -> None:
        _, analysts, refuses = LEVELS[name]
        world = prepared(name, batch=100)
        one, other = (world.request("pure:0.1", analyst=analyst) for analyst in analysts)
        log, before = list(world.log), state_rows(world.state)
        assert outcome(world, one) == "granted"
        lost = World(batch=100)  # a new owner, who knows what was committed and nothing else
        lost.__dict__ |= world.__dict__ | {"log": log}
        lost.encoded, lost.decisions = world.encoded[: len(log)], world.decisions[: len(log)]
        lost.state = lost.replayed()
        lost.draft = type(world.draft)(lost.state)
        assert state_rows(lost.state) == before
        assert [outcome(lost, each) for each in (other, one)] == ["granted", refuses]
        lost.commit()
        assert state_rows(lost.replayed()) == lost.rows()
        assert audit(lost.log, genesis=lost.genesis).ok

    check_each(check_case, LEVELS)
