"""Gauges of limits: their values, their cap, and their labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.settings import Settings
from tests.streams.bodies import enrolment, limiting
from tests.streams.clock import NOON, TestClock
from tests.streams.gateway.local_server import LocalServer

DAY_S = 86_400
PACE = {"pace": {"part": "0.2", "period": "P1D"}}
_numbers = itertools.count(1)


def limited(server: LocalServer, scope: str, name: str | None = None, **more: Any) -> None:
    body = limiting("census", server.clock.now(), next(_numbers), scope, name, **more)
    said = server.service.decide_sync("admin", body, 20)
    assert said is not None
    assert str(said.outcome) in {"limit_set", "limit_removed"}, said


def enrolled(server: LocalServer, name: str, team: str) -> None:
    body = enrolment("census", server.clock.now(), next(_numbers), name, "analyst", team=team)
    assert server.service.decide_sync("admin", body, 20) is not None


def gauge_values(server: LocalServer, family: str) -> dict[str, float]:
    """Return the values of a family of gauges of levels, by its labels."""
    name = f"privacy_level_{family}"
    lines = [line for line in server.http.get("/metrics").text.splitlines() if line[:1] != "#"]
    pairs = [line.rpartition(" ") for line in lines]
    return {
        labels.removeprefix(name).replace('dataset="census",', ""): float(value)
        for labels, _, value in pairs
        if labels.startswith(name + "{")
    }


@pytest.fixture
def server(file: Path, clock: TestClock) -> Iterator[LocalServer]:
    """A dataset with limits of two teams, and a cap of three limits."""
    with LocalServer(file, clock, Settings(port=0, metrics_levels=3)) as made:
        made.open()
        enrolled(made, "ana", "red")
        enrolled(made, "ben", "blue")
        yield made


def test_each_limit_has_its_used_ratio(server: LocalServer) -> None:
    limited(server, "team", "red", part="0.5", reserved="0.25", **PACE)
    limited(server, "dataset", pace={"part": "0.4", "period": "P30D"})
    limited(server, "analyst", "ben", policy={"filter": "zcdp", "rho": "0.02"})
    for analyst in ("ana", "ben"):
        assert server.ask(analyst=analyst).json()["outcome"] == "granted"
    red, ben, whole = (f'{{name="{n}",scope="{s}"}}' for n, s in NAMED)
    assert gauge_values(server, "spent_ratio") == {
        red: pytest.approx(0.2),
        ben: pytest.approx(0.25, rel=1e-3),
    }
    left = gauge_values(server, "left")
    assert left[red.replace("}", ',unit="epsilon"}')] == pytest.approx(0.4)
    assert left[ben.replace("}", ',unit="rho"}')] == pytest.approx(0.015, rel=1e-3)
    assert gauge_values(server, "share_used_ratio") == {red: pytest.approx(0.4)}
    assert gauge_values(server, "pace_used_ratio") == {
        red: pytest.approx(0.5),
        whole: pytest.approx(0.5),
    }
    assert gauge_values(server, "pace_ends_timestamp_seconds") == {
        red: NOON / 1000 + DAY_S,
        whole: NOON / 1000 + 30 * DAY_S,
    }
    assert server.metric("privacy_levels_not_shown") == "0.0"


NAMED = (("red", "team"), ("ben", "analyst"), ("", "dataset"))


def test_a_new_period_shows_nothing_used_before_any_request(
    server: LocalServer, clock: TestClock
) -> None:
    limited(server, "team", "red", **PACE)
    server.ask()
    clock.pass_(seconds=DAY_S)
    (used,) = gauge_values(server, "pace_used_ratio").values()
    (ends,) = gauge_values(server, "pace_ends_timestamp_seconds").values()
    assert (used, ends) == (0, NOON / 1000 + 2 * DAY_S)


def test_teams_come_before_analysts_and_limits_beyond_the_cap_are_counted(
    server: LocalServer,
) -> None:
    limited(server, "each", "red", part="0.3")
    for analyst in ("ana", "ben"):
        limited(server, "analyst", analyst, part="0.3")
    for team in ("red", "blue"):
        limited(server, "team", team, part="0.3")
    assert [name.split('"')[1] for name in gauge_values(server, "spent_ratio")] == [
        "blue",
        "red",
        "ana",
    ]
    assert server.metric("privacy_levels_not_shown") == "1.0"
    limited(server, "team", "blue")
    assert [name.split('"')[1] for name in gauge_values(server, "spent_ratio")] == [
        "red",
        "ana",
        "ben",
    ]
    assert server.metric("privacy_levels_not_shown") == "0.0"


def test_use_under_a_per_analyst_default_has_no_series(server: LocalServer) -> None:
    limited(server, "each", "red", part="0.3", **PACE)
    server.ask()
    for family in ("spent_ratio", "left", "pace_used_ratio"):
        assert gauge_values(server, family) == {}
    assert server.metric("privacy_levels_not_shown") == "0.0"


def test_a_restart_shows_the_same(file: Path, clock: TestClock, server: LocalServer) -> None:
    limited(server, "team", "red", part="0.5", **PACE)
    server.ask()
    before = {
        family: gauge_values(server, family)
        for family in ("spent_ratio", "left", "pace_used_ratio")
    }
    assert all(before.values())
    server.close()
    with LocalServer(file, clock, Settings(port=0, metrics_levels=3)) as again:
        assert {family: gauge_values(again, family) for family in before} == before


def test_a_released_partition_leaves_no_series(server: LocalServer) -> None:
    limited(server, "team", "red", part="0.5")
    assert gauge_values(server, "spent_ratio")
    server.service.live_ledgers.dropped(0, None)
    assert gauge_values(server, "spent_ratio") == {}


def test_by_default_there_are_no_metrics_of_limits(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.open()
        limited(server, "team", "red", part="0.5")
        assert "privacy_level" not in server.http.get("/metrics").text
