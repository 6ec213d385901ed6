"""Alerts of limits: from grants and from records."""

from __future__ import annotations

from typing import Any

from accountant.records import decode_decision
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert
from tests.accountant.world import World, code, opened

RED, BLUE = "red:1", "red"
"""Names that an id must keep apart: a version and an analyst of the other look alike."""


def divided(*, alert_at: tuple[str, ...] = ("0.5", "0.8"), **policy: Any) -> World:
    """Return a dataset with ana and ben in a team, and carl in another."""
    world = opened(filter="basic", epsilon="10", alert_at=list(alert_at), **policy)
    for name, team in (("ana", RED), ("ben", RED), ("carl", BLUE)):
        enrol(world, name, team)
    return world


def enrol(world: World, name: str, team: str | None) -> None:
    more = {} if team is None else {"team": team}
    reported = world.send("admin", world.admin("member", member=name, roles=["analyst"], **more))
    assert code(reported) == "member_set"


def limit(world: World, scope: str, name: str | None = None, **more: Any) -> None:
    reported = world.send("admin", world.admin("limit", scope=scope, **_given(name), **more))
    assert code(reported) in {"limit_set", "limit_removed"}, reported


def _given(name: str | None) -> dict[str, str]:
    return {} if name is None else {"name": name}


def grant(world: World, epsilon: str, analyst: str = "ana") -> None:
    assert code(world.ask(f"pure:{epsilon}", analyst=analyst)) == "granted"


class ReportedAlerts:
    """Reads what the decisions since the last call say of limits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.read = len(world.log)

    def more(self) -> list[Alert]:
        made, self.read = self.world.log[self.read :], len(self.world.log)
        found = [alert for value in made for alert in alerts_of(decode_decision(value))]
        return [alert for alert in found if alert.scope is not None]


def ids(found: list[Alert]) -> list[str]:
    return [alert.alert_id for alert in found]


def test_a_grant_alerts_about_the_thresholds_that_its_team_reaches() -> None:
    world = divided()
    limit(world, "team", RED, part="0.1")
    reported = ReportedAlerts(world)
    grant(world, "0.4")
    assert reported.more() == []
    grant(world, "0.1", "ben")
    (alert,) = reported.more()
    assert alert == Alert(
        alert_id="census/1/level/team/red:1/1/0.5",
        dataset="census",
        generation=1,
        threshold="0.5",
        spent_ratio=alert.spent_ratio,
        decided_at=world.decisions[-1].decided_at,
        scope="team",
        name=RED,
        team=RED,
        version=1,
    )
    assert 0.5 <= alert.spent_ratio < 0.5 + 1e-9
    grant(world, "0.01", "carl")
    grant(world, "0.01")
    assert reported.more() == [], "reported once"


def test_each_analyst_under_a_default_has_alerts_of_their_own() -> None:
    world = divided()
    limit(world, "each", RED, part="0.1")
    reported = ReportedAlerts(world)
    grant(world, "0.9")
    grant(world, "0.6", "ben")
    found = reported.more()
    assert ids(found) == [
        "census/1/level/each/red:1/ana/1/0.5",
        "census/1/level/each/red:1/ana/1/0.8",
        "census/1/level/each/red:1/ben/1/0.5",
    ]
    assert [(each.analyst, each.team, each.name) for each in found[1:]] == [
        ("ana", RED, RED),
        ("ben", RED, RED),
    ]


def test_no_two_alerts_of_names_that_look_alike_have_one_id() -> None:
    world = divided(alert_at=("0.1", "1"))
    enrol(world, "ana:1", RED)
    enrol(world, "1", "each")
    enrol(world, "each", "1")
    for scope in ("team", "each"):
        for team in (RED, BLUE, "each", "1"):
            limit(world, scope, team, part="0.5")
    for analyst in ("ana:1", "each"):
        limit(world, "analyst", analyst, part="0.2")
    reported = ReportedAlerts(world)
    analysts = ("ana", "ben", "carl", "ana:1", "1", "each")
    for analyst in analysts:
        grant(world, "1", analyst)
    found = reported.more()
    assert len(found) == len(set(ids(found)))
    own = {each.name for each in found if each.scope == "analyst"}
    under = {each.analyst for each in found if each.scope == "each"}
    assert own == {"ana:1", "each"}
    assert under == {"ana", "ben", "carl", "1"}
    assert {each.name for each in found if each.scope == "team"} == {RED, BLUE, "each", "1"}


def test_a_changed_limit_alerts_about_thresholds_already_reached() -> None:
    world = divided()
    limit(world, "team", RED, part="0.2")
    reported = ReportedAlerts(world)
    grant(world, "0.9")
    assert reported.more() == []
    limit(world, "team", RED, part="0.1")
    assert ids(reported.more()) == [
        "census/1/level/team/red:1/2/0.5",
        "census/1/level/team/red:1/2/0.8",
    ]
    limit(world, "team", RED, part="0.15")
    assert reported.more() == [], "raised: half of it was reached, and reported, before"
    grant(world, "0.5")
    assert ids(reported.more()) == ["census/1/level/team/red:1/3/0.8"]
    limit(world, "team", RED)
    assert reported.more() == [], "removed"


def test_a_limit_with_another_filter_starts_at_0_and_sends_no_alert() -> None:
    world = divided()
    limit(world, "team", RED, part="0.1")
    grant(world, "0.9")
    reported = ReportedAlerts(world)
    limit(world, "team", RED, policy={"filter": "zcdp", "rho": "0.1"})
    assert reported.more() == []


def test_a_threshold_that_an_amendment_adds_is_reported_for_limits_too() -> None:
    world = divided(alert_at=("0.9",))
    limit(world, "team", RED, part="0.1")
    limit(world, "each", BLUE, part="0.1")
    grant(world, "0.6")
    grant(world, "0.6", "carl")
    reported = ReportedAlerts(world)
    world.amend(alert_at=["0.3"])
    assert sorted(ids(reported.more())) == [
        "census/1/level/each/red/carl/1/0.3",
        "census/1/level/team/red:1/1/0.3",
    ]
