"""Limits and budgets as people look at them are what decisions say, whatever was done before."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, Final

import pytest

from accountant.ledger.snapshots import left_wire
from accountant.partition.levels import team_of
from accountant.views.level_views import Divided, analyst_budget, level_views
from accountant.views.levels import AnalystBudget
from tests.accountant.partition.circle import BASIC, enrol
from tests.accountant.partition.division import TEAMS, asked, days, divide, divided, limit, said
from tests.accountant.partition.test_pace import set_back
from tests.accountant.views.level_life import Watched
from tests.accountant.world import START, World, code
from tests.nightly import rounds

STEPS: Final = 600
DAILY: Final = {"part": "0.1", "period": "P1D"}


@pytest.mark.parametrize("seed", range(rounds(3, 60)))
def test_what_is_looked_at_is_what_the_next_decision_says(seed: int) -> None:
    life = Watched(seed + 1)
    for _ in range(STEPS):
        life.step()
    found = life.found
    assert min(found["seen"], found["left_at"], found["moved"]) > STEPS / 20, found


def now(world: World) -> Divided:
    """Return a world's dataset and how it is divided."""
    world.commit()
    at = max(world.now, world.state.decided_at)
    return Divided(world.ledger(), world.state.levels, at, world.state.resets)


def budget(world: World, analyst: str) -> AnalystBudget:
    shown = now(world)
    team = team_of(world.state.members.get("census", analyst), shown.at)
    return analyst_budget(shown, analyst, team)
