"""Every query of every dashboard, on a Prometheus that scrapes real workers under real load."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from streams.testing import LocalBroker
from tests.observability.programs import Programs, until
from tests.observability.world import SLOW, World, check, world
from tests.rendering.asking import NAMES, answer, board, panels, variables

# It has a horizon, and is not used up: every panel has something to say of it.
CHOSEN = {"overview": {}, "dataset": {"dataset": SLOW}, "service": {}}
PANELS = [
    (name, panel["id"])
    for name in NAMES
    for panel in panels(board(name))
    if panel["type"] != "text"
]


@pytest.fixture(scope="module")
def loaded(
    broker: LocalBroker, programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A week of requests, garbage, and an owner that was fenced."""
    home = tmp_path_factory.mktemp("panels")
    application = f"panels-{home.name}"
    with world(broker, application, programs, home) as running:
        said = running.load()
        assert "census: opened" in said
        assert "spent, exhausted" in said
        running.use_slowly(times=10, pause=1)
        running.send_garbage()
        running.fence(0)
        running.send_garbage()
        yield running


def numbers(result: list[dict]) -> list[float]:
    """Return the values of an answer that are numbers."""
    pairs = [pair for series in result for pair in series.get("values", [series.get("value")])]
    return [float(value) for _, value in pairs if not math.isnan(float(value))]


@pytest.mark.parametrize(("name", "panel_id"), PANELS, ids=str)
def test_every_query_of_a_panel_has_a_result(loaded: World, name: str, panel_id: int) -> None:
    dashboard = board(name)
    (panel,) = [panel for panel in panels(dashboard) if panel["id"] == panel_id]
    values = until("variables", lambda: variables(dashboard, loaded.prometheus, **CHOSEN[name]))
    for target in panel["targets"]:

        def asked(target: dict = target) -> list[float]:
            return numbers(answer(target, loaded.prometheus, values, loaded.window()))

        until(f"{name}, {panel['title']}: {target['expr']}", asked)


@pytest.mark.parametrize("name", NAMES)
def test_alerts_are_found_to_be_marked(loaded: World, name: str) -> None:
    dashboard = board(name)
    (marks,) = dashboard["annotations"]["list"]
    chosen = {"dataset": "census"} if name == "dataset" else {}
    values = variables(dashboard, loaded.prometheus, **chosen)

    def found() -> list[float]:
        return numbers(answer(marks["target"], loaded.prometheus, values, loaded.window()))

    # Of the service an alert fires only when something is wrong for minutes; dead letters do.
    assert until(f"alerts on {name}", found)


def test_a_dataset_that_the_load_used_up_reaches_the_webhook(loaded: World) -> None:
    delivered = until(
        "delivery", lambda: loaded.watch.receiver.of("PrivacyBudgetExhausted", "firing")
    )
    assert delivered[0][2]["labels"]["dataset"] in {"census", "clinic", "shop"}


def test_the_health_checks_of_the_compose_file_pass(loaded: World, programs: Programs) -> None:
    # The one that was fenced replays its partition, and is not ready meanwhile.
    until("the first worker", lambda: check("worker", loaded.workers[0]) == 0)
    until("the second worker", lambda: check("worker-2", loaded.workers[1]) == 0)
    until("the gateway", lambda: check("gateway", loaded.gateway) == 0)
    prometheus, alertmanager = (
        address.removeprefix("http://")
        for address in (loaded.watch.prometheus, loaded.watch.alertmanager)
    )
    assert check("prometheus", prometheus, programs) == 0
    assert check("alertmanager", alertmanager, programs) == 0
