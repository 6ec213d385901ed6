"""Each threshold of a limit is reported once, by the decision that is the first to reach it."""

from __future__ import annotations

from typing import Any

import pytest

from accountant.records import Decision
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from accountant.views.alerts import alerts_of
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import code


def scene(*alert_at: str) -> Scene:
    """Return a dataset of epsilon 10, whose analysts ana and ben are a team."""
    made = Scene(filter="basic", epsilon="10", delta="1e-6", alert_at=list(alert_at))
    for name in ("ana", "ben"):
        join(made, name, "red")
    return made


def join(made: Scene, name: str, team: str) -> None:
    assert code(made.member(name, "analyst", team=team)) == "member_set"


def crossed(decision: Decision) -> list[tuple[str, ...]]:
    """Return what a grant reports of limits."""
    return [level.crossed for level in decision.levels]


def reached(decision: Decision) -> list[tuple[str | None, str | None, tuple[str, ...]]]:
    """Return what an owner's record reports of limits."""
    return [(each.name, each.analyst, each.crossed) for each in decision.reached]


def check(made: Scene) -> None:
    """Check that replay and audit agree with the live state."""
    assert made.rows() == state_rows(made.replayed())
    report = audit(made.log, genesis=made.genesis)
    assert report.ok, report.first_disagreement


@pytest.mark.parametrize(("scope", "name"), [("team", "red"), ("analyst", "ana"), ("each", "red")])
def test_a_reservation_that_comes_and_goes_reports_a_threshold_once(scope: str, name: str) -> None:
    made = scene("0.5")
    made.limit(scope, name, part="0.01")
    found = []
    for _ in range(3):
        found += crossed(made.reserve())
        assert code(made.void()) == "voided"
    assert found == [("0.5",), (), ()]
    made.limit(scope, name, part="0.01", pace={"part": "0.5", "period": "P1D"})
    assert crossed(made.reserve()) == [("0.5",)], "of another version nothing was reported"
    check(made)


def test_a_reservation_that_comes_and_goes_reports_a_datasets_threshold_once() -> None:
    made = Scene(filter="basic", epsilon="0.1", delta="1e-6", alert_at=["0.3", "0.5"])
    assert made.reserve().crossed == ("0.3", "0.5")
    made.void()
    assert made.amend(alert_at=["0.4", "0.5", "0.9"]).crossed == ()
    decision = made.reserve()
    assert decision.crossed == ("0.9",)
    assert decision.spent_ratio == 1.0
    check(made)


def test_an_amendment_reports_what_limits_have_reached_and_none_has_reported() -> None:
    made = scene("0.6")
    made.limit("team", "red", part="0.1")
    made.limit("each", "red", part="0.1")
    made.limit("analyst", "ben", part="0.2")
    made.ask("pure:0.7")
    made.ask("pure:0.2", analyst="ben")
    assert reached(made.amend(horizon="P9D")) == []
    amended = made.amend(alert_at=["0.1", "0.6", "0.8"])
    assert reached(amended) == [
        ("red", None, ("0.1", "0.8")),
        ("ben", None, ("0.1",)),
        ("red", "ana", ("0.1",)),
    ]
    ratios = [each.spent_ratio for each in amended.reached]
    assert [round(each, 9) for each in ratios] == [0.9, 0.1, 0.7]
    assert [each.alert_id for each in alerts_of(amended)] == [
        "census/1/level/team/red/1/0.1",
        "census/1/level/team/red/1/0.8",
        "census/1/level/analyst/ben/1/0.1",
        "census/1/level/each/red/ana/1/0.1",
    ]
    assert crossed(made.ask("pure:0.1")) == [(), ("0.8",)]
    check(made)


def test_a_new_version_reports_what_no_version_before_has_reported() -> None:
    made = scene("0.5", "0.8")
    made.limit("each", "red", part="0.1")
    made.ask("pure:0.6")
    made.ask("pure:0.1", analyst="ben")
    assert reached(made.limit("each", "red", part="0.07")) == [("red", "ana", ("0.8",))]
    assert reached(made.limit("each", "red", part="1")) == []
    assert reached(made.limit("each", "red", part="0.1")) == [], "reported under version 1"
    made.ask("pure:0.4", analyst="ana")
    assert reached(made.limit("each", "red", part="0.05")) == []
    made.member("ben", "analyst", team="blue")
    made.limit("team", "blue", part="0.5")
    assert reached(made.limit("each", "blue", part="0.01")) == []
    check(made)


def test_an_analyst_with_another_team_or_an_own_limit_is_not_reported_under_a_default() -> None:
    made = scene("0.9")
    made.limit("each", "red", part="0.1")
    for name in ("ana", "ben"):
        made.ask("pure:0.5", analyst=name)
    join(made, "ana", "blue")
    made.limit("analyst", "ben", part="1")
    assert reached(made.amend(alert_at=["0.1"])) == []
    made.limit("analyst", "ben")
    assert crossed(made.ask("pure:0.01", analyst="ben")) == [("0.1",)]
    check(made)


LONG = [f"0.{number:02}0000000000000000000000000000000000001" for number in range(1, 21)]


@pytest.mark.parametrize("alert_at", [["0.1"], LONG], ids=["short", "long"])
def test_a_record_names_a_bounded_number_and_the_next_grant_reports_the_rest(
    alert_at: list[str],
) -> None:
    made = Scene(filter="basic", epsilon="1000", delta="1e-6", alert_at=["1"])
    team = "t" * 100
    made.limit("each", team, part="0.001")
    names = [f"{number:03}{'a' * 97}" for number in range(103)]
    for name in names:
        join(made, name, team)
        made.ask("pure:0.5", analyst=name)
    amended = made.amend(alert_at=alert_at)
    named = [each.analyst for each in amended.reached]
    assert named == names[: len(named)]
    assert len(named) == 100 if alert_at == ["0.1"] else 0 < len(named) < 100
    assert len(named) + amended.more_reached == 103
    assert len(made.log[-1]) < 65_536
    assert crossed(made.ask("pure:0.01", analyst=names[0])) == [()]
    (unnamed,) = crossed(made.ask("pure:0.01", analyst=names[-1]))
    assert unnamed == tuple(alert_at)
    assert crossed(made.ask("pure:0.01", analyst=names[-1])) == [()]
    check(made)


def test_a_record_of_another_dataset_reports_nothing_of_this_one() -> None:
    made = scene("0.9")
    made.limit("team", "red", part="0.1")
    made.ask("pure:0.5")
    opening: dict[str, Any] = {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
    made.open("census2", **opening)
    other = made.send("admin", made.admin("amend", dataset="census2", alert_at=["0.1"]))
    assert (code(other), reached(other)) == ("amended", [])
