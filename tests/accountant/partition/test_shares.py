"""Reserved shares: nobody else may use them, and their owner always can."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import pytest

from accountant.limits.applicable_limits import applicable_limits, team_of
from accountant.records import Decision
from tests.accountant.partition.circle import enrol, sound
from tests.accountant.partition.division import (
    TEAMS,
    ask_for_outcome,
    ask_for_record,
    divide,
    divided,
    level_rows,
    limit,
)
from tests.accountant.world import World, code
from tests.every_case import check_each


def test_a_reserved_share_of_a_team_is_only_for_the_team() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.4")
    assert ask_for_outcome(world, "cy", "0.7") == "dataset reserved"
    assert ask_for_record(world, "cy", "0.7")["fits"] == "pure:0.6"
    assert ask_for_outcome(world, "eve", "0.6") == "granted"
    assert ask_for_outcome(world, "cy", "0.01") == "dataset reserved"
    assert ask_for_outcome(world, "ana", "0.3") == "granted"
    assert ask_for_outcome(world, "ben", "0.1") == "granted"
    assert world.ledger().spent_ratio == 1
    assert sound(world)


def test_a_team_may_exceed_its_share_if_the_rest_is_not_reserved() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.4")
    assert ask_for_outcome(world, "ana", "0.9") == "granted"
    assert ask_for_outcome(world, "cy", "0.1") == "granted"


def test_an_analysts_share_is_part_of_the_teams_and_closed_to_teammates() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.4")
    reported = divide(world, "analyst", "ana", reserved="0.3")
    assert reported["reserved"]["team"] == "blue"
    assert code(limit(world, "analyst", "ben", reserved="0.11")) == "over_reserved"
    assert ask_for_outcome(world, "cy", "0.6") == "granted"
    assert ask_for_outcome(world, "ben", "0.2") == "dataset reserved"
    assert ask_for_outcome(world, "ben", "0.1") == "granted"
    assert ask_for_outcome(world, "ben", "0.01") == "dataset reserved"
    assert ask_for_outcome(world, "ana", "0.3") == "granted"
    assert sound(world)


def test_shares_may_not_add_up_to_more_than_is_left() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.5")
    assert code(limit(world, "team", "red", reserved="0.51")) == "over_reserved"
    divide(world, "team", "red", reserved="0.5")
    assert code(limit(world, "analyst", "eve", reserved="1e-12")) == "over_reserved"
    assert ask_for_outcome(world, "ana", "0.5") == "granted"
    assert code(limit(world, "team", "blue", reserved="0.51")) == "over_reserved"
    divide(world, "team", "blue", reserved="0.5")
    assert ask_for_outcome(world, "ana", "1e-12") == "dataset reserved"
    divide(world, "team", "red", reserved="0.2")
    divide(world, "analyst", "eve", reserved="0.3")
    assert ask_for_outcome(world, "eve", "0.3") == "granted"
    assert ask_for_outcome(world, "cy", "0.2") == "granted"
    assert sound(world)


def test_a_teams_share_is_at_least_the_sum_of_its_analysts_and_can_be_removed() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.5")
    divide(world, "analyst", "ana", reserved="0.3")
    divide(world, "analyst", "ben", reserved="0.2")
    assert code(limit(world, "team", "blue", reserved="0.49")) == "over_reserved"
    assert code(limit(world, "team", "blue")) == "limit_removed"
    assert ask_for_outcome(world, "cy", "0.51") == "dataset reserved"
    assert ask_for_outcome(world, "cy", "0.5") == "granted"
    assert code(limit(world, "analyst", "ana")) == "limit_removed"
    assert ask_for_outcome(world, "cy", "0.3") == "granted"
    assert ask_for_outcome(world, "ben", "0.2") == "granted"
    assert sound(world)


def test_an_analyst_who_changes_teams_takes_their_share_out_of_the_teams() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.5")
    divide(world, "analyst", "ana", reserved="0.3")
    enrol(world, "ana", "analyst", team="red")
    assert ask_for_outcome(world, "cy", "0.5") == "granted"
    assert ask_for_outcome(world, "ana", "0.4") == "dataset reserved"
    moved = ask_for_record(world, "ana", "0.2")["levels"]
    assert [(each["scope"], each["name"], each["used"]["epsilon"]) for each in moved] == [
        ("team", "blue", "0.2"),
        ("analyst", "ana", "0.2"),
    ]
    assert ask_for_outcome(world, "ben", "0.3") == "dataset reserved"
    assert ask_for_outcome(world, "ben", "0.2") == "granted"
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    assert world.ledger().spent_ratio == 1
    assert sound(world)


@pytest.mark.parametrize("analyst", [*TEAMS, "eve", "zoe"])
def test_a_copy_for_one_analyst_has_all_that_their_requests_are_checked_at(analyst: str) -> None:
    """Readers work on such a copy: an analyst's share may lie within that of a team left since."""
    world = divided()
    divide(world, "team", "blue", part="0.9", reserved="0.5")
    divide(world, "analyst", "ana", reserved="0.3")
    divide(world, "analyst", "eve", reserved="0.1")
    divide(world, "each", "red", part="0.8")
    enrol(world, "ana", "analyst", team="red")
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    world.commit()
    state, at = world.state, world.state.decided_at
    team = team_of(state.members.get("census", analyst), at)
    copy = state.levels.for_analyst("census", analyst, team, world.now)
    whole = applicable_limits(world.ledger(), state.levels, analyst, team, at, state.resets)
    assert applicable_limits(world.ledger(), copy, analyst, team, at, state.resets) == whole
    assert whole is not None
    elsewhere = None if whole.former_team is None else whole.former_team.name
    assert elsewhere == ("blue" if analyst == "ana" else None)
    for name in {team, elsewhere or ""}:
        assert copy.reserved_in("census", name) == state.levels.reserved_in("census", name)


def test_of_two_shares_less_than_a_unit_apart_the_larger_is_reserved() -> None:
    world = divided()
    divide(world, "team", "blue", reserved="0.9")
    # 40 digits: a third of a unit more than what 1/30 leaves of the team's share.
    share = "0.8666666666666666666666666666666666666667"
    divide(world, "analyst", "ana", reserved=share)
    assert code(world.ask("laplace:scale=30,sensitivity=1", analyst="ben")) == "granted"
    assert ask_for_outcome(world, "cy", "0.1") == "dataset reserved"
    assert ask_for_outcome(world, "cy", "0.0999999999999999999999999999999999999999") == "granted"
    assert ask_for_outcome(world, "ana", share) == "granted"
    assert sound(world)


def test_a_share_of_an_analyst_without_a_team_stays_theirs_alone() -> None:
    world = divided()
    divide(world, "analyst", "eve", reserved="0.3")
    divide(world, "team", "blue", reserved="0.3")
    enrol(world, "eve", "analyst", team="blue")
    assert ask_for_outcome(world, "cy", "0.4") == "granted"
    assert ask_for_outcome(world, "ana", "0.4") == "dataset reserved"
    assert ask_for_outcome(world, "eve", "0.6") == "granted"
    assert sound(world)


def test_the_use_of_a_share_is_counted_from_its_making() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.5")
    assert ask_for_outcome(world, "ana", "0.2") == "granted"
    divide(world, "team", "blue", part="0.5", reserved="0.3")
    assert ask_for_outcome(world, "cy", "0.6") == "dataset reserved"
    assert ask_for_outcome(world, "cy", "0.5") == "granted"
    assert ask_for_outcome(world, "ana", "0.1") == "granted"
    divide(world, "team", "blue", part="0.5", reserved="0.2")
    row = level_rows(world)['{"dataset":"census","scope":"team","name":"blue"}']
    assert row["used"]["totals"]["epsilon"] == "0.1"
    assert row["counted"]["totals"]["epsilon"] == "0.3"
    divide(world, "team", "blue", part="0.5")
    divide(world, "team", "blue", part="0.5", reserved="0.2")
    assert ask_for_outcome(world, "cy", "0.1") == "dataset reserved"
    assert sound(world)


def test_a_share_is_of_each_sum() -> None:
    world = divided({"filter": "basic", "epsilon": "1", "delta": "1e-6"})
    reported = divide(world, "team", "blue", reserved="0.4")
    assert reported["reserved"]["budget"] == {"epsilon": "0.4", "delta": "0.0000004"}
    assert code(world.ask("approximate:0.1,7e-7", analyst="cy")) == "exhausted"
    assert code(world.ask("approximate:0.1,6e-7", analyst="cy")) == "granted"
    assert code(world.ask("approximate:0.1,4e-7", analyst="ana")) == "granted"
    assert ask_for_outcome(world, "cy", "0.5") == "granted"
    assert ask_for_outcome(world, "cy", "0.01") == "dataset reserved"
    assert sound(world)


def test_a_third_of_a_unit_of_a_share_is_withheld_exactly() -> None:
    world = divided({"filter": "basic", "epsilon": "1"})
    divide(world, "team", "blue", reserved="0.5")
    third = "laplace:scale=6,sensitivity=1"
    for _ in range(3):
        assert code(world.ask(third, analyst="ana")) == "granted"
    for _ in range(3):
        assert code(world.ask(third, analyst="cy")) == "granted"
    assert world.ledger().spent_ratio == 1
    assert sound(world)


ZERO = Fraction(0)


class ShareModel:
    """Shares by the book, of one sum: fractions, and lists added up at every look."""

    def __init__(self) -> None:
        self.spent = ZERO
        self.team_of = dict(TEAMS)
        self.teams: dict[str, list[Fraction]] = {}
        self.analysts: dict[str, tuple[list[Fraction], str]] = {}

    def rest(self, caller: str) -> Fraction:
        (share, used), _ = self.analysts.get(caller, ([ZERO, ZERO], ""))
        return max(share - used, ZERO)

    def within(self, team: str, but: str = "") -> Fraction:
        inside = [caller for caller, (_, booked) in self.analysts.items() if booked == team != ""]
        return sum((self.rest(caller) for caller in inside if caller != but), ZERO)

    def withheld(self, team: str) -> Fraction:
        share, used = self.teams.get(team, [ZERO, ZERO])
        return max(share - used, self.within(team), ZERO)

    def whole(self) -> Fraction:
        booked = {team for _, team in self.analysts.values()} | {*self.teams}
        alone = sum((self.rest(w) for w, (_, team) in self.analysts.items() if not team), ZERO)
        return alone + sum((self.withheld(team) for team in booked if team), ZERO)

    def own(self, caller: str) -> Fraction:
        team, booked = self.team_of.get(caller, ""), self.analysts.get(caller, ([], ""))[1]
        own = self.withheld(team) - self.within(team, but=caller) if team else ZERO
        return own if team and booked == team else own + self.rest(caller)

    def grant(self, caller: str, cost: Fraction) -> bool:
        if self.spent + cost > 1 - (self.whole() - self.own(caller)):
            return False
        team, (_, booked) = self.team_of.get(caller, ""), self.analysts.get(caller, ([], ""))
        if booked and booked != team and booked in self.teams:
            self.teams[booked][1] += min(cost, self.rest(caller))
        if team in self.teams:
            self.teams[team][1] += cost
        if caller in self.analysts:
            self.analysts[caller][0][1] += cost
        self.spent += cost
        return True

    def within_teams(self) -> bool:
        return all(
            sum(s for (s, _), booked in self.analysts.values() if booked == team) <= share
            for team, (share, _) in self.teams.items()
        )

    def holds(self) -> bool:
        return self.spent + self.whole() <= 1

    def set(self, scope: str, name: str, share: Fraction) -> str:
        before = dict(self.teams), dict(self.analysts)
        if scope == "team":
            old = self.teams.pop(name, None)
            known = old
            if share:
                self.teams[name] = [share, old[1] if old else ZERO]
        else:
            known = self.analysts.pop(name, ([], ""))[0] or None
            if share:
                used = known[1] if known else ZERO
                self.analysts[name] = ([share, used], self.team_of.get(name, ""))
        if not share:
            return "limit_removed" if known else "unknown_limit"
        if self.holds() and self.within_teams():
            return "limit_set"
        self.teams, self.analysts = before
        return "over_reserved"


COSTS = (
    *[("pure:0.005", "1/200"), ("pure:0.01", "1/100"), ("pure:0.02", "1/50")],
    *[("laplace:scale=90,sensitivity=1", "1/90"), ("laplace:scale=300,sensitivity=1", "1/300")],
    *[("pure:0.2", "1/5"), ("laplace:scale=30,sensitivity=1", "1/30")],
)


def play(world: World, kept: ShareModel, chance: random.Random) -> tuple[Decision, str]:
    people = [*TEAMS, "eve", "fay"]
    draw = chance.random()
    if draw < 0.06:
        caller, team = chance.choice(people), chance.choice(["blue", "red", "green", ""])
        kept.team_of[caller] = team
        enrol(world, caller, "analyst", **({"team": team} if team else {}))
        return world.decisions[-1], "member_set"
    if draw < 0.25:
        scope = chance.choice(["team", "analyst", "analyst"])
        name = chance.choice(["blue", "red", "green"] if scope == "team" else people)
        share = chance.choice(["0", "0.05", "0.1", "0.2", "0.3", "0.5"])
        fields = {} if share == "0" else {"reserved": share}
        due = kept.set(scope, name, Fraction(share))
        return limit(world, scope, name, **fields), due
    caller = chance.choice(people)
    text, cost = chance.choice(COSTS)
    due = "granted" if kept.grant(caller, Fraction(cost)) else "exhausted"
    return world.ask(text, analyst=caller), due


def test_random_shares_equal_a_simple_model_and_stay_available() -> None:
    def check_case(seed: int) -> None:
        chance = random.Random(seed)
        world, kept = divided(batch=chance.choice([1, 5])), ShareModel()
        for _ in range(120):
            found, due = play(world, kept, chance)
            assert code(found) == due
            assert kept.holds()
        whole: Any = world.draft.levels.reserved("census")
        assert Fraction(int(whole[0]) if whole else 0, 10**40) >= kept.whole() - Fraction(1, 10**40)
        for caller in kept.analysts:
            # Whatever the others did, what is left of one's own share is granted now.
            left = kept.rest(caller)
            if left and str(float(left)) == f"{float(left):.3g}":
                assert ask_for_outcome(world, caller, str(float(left))) == "granted"
                assert kept.grant(caller, left)
        assert sound(world)
        assert json.loads(world.rows()[-1][1]).get("levels", 0) == world.ledger().levels

    check_each(check_case, range(30))
