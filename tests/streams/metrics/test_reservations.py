"""What is spent, reserved and left stands apart, and open reservations are counted by state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, pausing

HOUR_S = 3600
SESSION = {"type": "ex_post", "epsilon": "0.4", "sensitivity": "1", "first": "100", "least": "2.5"}
"""At most 0.4; shown at scale 10 it costs 0.1."""
SMALL = {"type": "pure", "epsilon": "0.01"}


@pytest.fixture
def server(file: Path, clock: TestClock) -> Iterator[LocalServer]:
    with LocalServer(file, clock) as made:
        made.open(horizon="P365D")
        yield made


def gauges(server: LocalServer, dataset: str = "census") -> dict[str, float]:
    """Return the gauges of a dataset, by name and, where there is one, unit or state."""
    found: dict[str, float] = {}
    for text in server.http.get("/metrics").text.splitlines():
        series, _, value = text.rpartition(" ")
        name, _, labels = series.partition("{")
        if name.startswith("privacy_") and f'dataset="{dataset}"' in labels:
            more = [each.split('"')[1] for each in labels.split(",")[1:]]
            found[" ".join([name.removeprefix("privacy_"), *more])] = float(value)
    return found


def reserve(
    server: LocalServer, until: str = "PT1H", claim: dict[str, Any] = SESSION, **more: Any
) -> str:
    """Reserve, and return the name of the reservation."""
    said = server.ask(claim=claim, reserve={"until": until}, **more)
    assert said.json()["outcome"] == "reserved", said.text
    return str(said.json()["hash"])


def step(server: LocalServer, kind: str, grant: str, **more: Any) -> dict[str, Any]:
    body = {"version": 1, "type": kind, "request_id": new_id(server.clock), "analyst": "ana"}
    body |= {"dataset": "census", "grant": grant, **more}
    said = server.post(f"/datasets/census/reservations/{kind}", body)
    found: dict[str, Any] = json.loads(said.content)
    return found


def amounts(server: LocalServer) -> tuple[float, float, float, float, float]:
    """Return what is left and reserved in epsilon, and the ratios spent or reserved, and spent."""
    found = gauges(server)
    left, reserved = found["filter_left epsilon"], found["filter_reserved epsilon"]
    ratio, settled = found["filter_spent_ratio"], found["filter_settled_ratio"]
    return left, reserved, ratio, settled, found["filter_budget epsilon"] - left - reserved


def test_what_is_reserved_is_neither_spent_nor_left(server: LocalServer) -> None:
    server.ask()
    assert amounts(server) == pytest.approx((0.9, 0, 0.1, 0.1, 0.1))
    grant = reserve(server)
    assert amounts(server) == pytest.approx((0.5, 0.4, 0.5, 0.1, 0.1))
    assert step(server, "begin", grant)["outcome"] == "begun"
    assert amounts(server) == pytest.approx((0.5, 0.4, 0.5, 0.1, 0.1))
    assert step(server, "settle", grant, shown="10")["outcome"] == "settled"
    assert amounts(server) == pytest.approx((0.8, 0, 0.2, 0.2, 0.2))
    assert step(server, "void", reserve(server))["outcome"] == "voided"
    assert amounts(server) == pytest.approx((0.8, 0, 0.2, 0.2, 0.2))


def test_what_is_reserved_does_not_count_as_burnt(server: LocalServer) -> None:
    grant = reserve(server)
    assert gauges(server)["filter_burn_ratio"] == 0
    step(server, "begin", grant)
    step(server, "settle", grant, shown="10")
    assert gauges(server)["filter_burn_ratio"] == pytest.approx(36.5)


def states(server: LocalServer, family: str = "reservations") -> dict[str, float]:
    named = f"{family} "
    found = gauges(server)
    return {k.removeprefix(named): v for k, v in found.items() if k.startswith(named) and v}


def deadlines(server: LocalServer) -> dict[str, float]:
    """Return the seconds until the first deadline of each state."""
    found = states(server, "reservation_deadline_timestamp_seconds")
    return {name: at - server.clock.now() / 1000 for name, at in found.items()}


def test_open_reservations_are_counted_by_state_and_none_has_no_series(
    server: LocalServer,
) -> None:
    server.ask()
    assert not [name for name in gauges(server) if name.startswith("reservation")]
    first, _ = reserve(server), reserve(server, "PT2H")
    assert states(server) == {"reserved": 2}
    assert deadlines(server) == {"reserved": HOUR_S}
    step(server, "begin", first)
    assert states(server) == {"reserved": 1, "begun": 1}
    assert deadlines(server) == {"reserved": 2 * HOUR_S, "begun": HOUR_S}
    step(server, "settle", first)
    assert states(server) == {"reserved": 1}
    assert deadlines(server) == {"reserved": 2 * HOUR_S}


def test_a_deadline_moves_a_reservation_without_a_record(
    server: LocalServer, clock: TestClock
) -> None:
    begun, _ = reserve(server), reserve(server)
    step(server, "begin", begun)
    before = amounts(server)
    clock.pass_(seconds=HOUR_S - 1)
    assert states(server) == {"reserved": 1, "begun": 1}
    clock.pass_(seconds=1)
    assert states(server) == {"lapsed": 1, "final": 1}
    assert deadlines(server) == {}
    clock.pass_(seconds=HOUR_S)
    assert states(server) == {"final": 2}
    assert amounts(server) == before  # nothing moves at a deadline
    server.post("/datasets/census/pause", pausing(clock))
    assert states(server) == {}
    assert amounts(server)[:2] == (before[0], 0)


def test_reservations_expire_soon_in_the_last_tenth_of_their_time(
    server: LocalServer, clock: TestClock
) -> None:
    begun, _, _ = reserve(server), reserve(server, claim=SMALL), reserve(server, "P1D", claim=SMALL)
    step(server, "begin", begun)
    clock.pass_(seconds=0.9 * HOUR_S - 1)
    assert states(server, "reservations_expiring") == {}
    clock.pass_(seconds=1)
    assert states(server, "reservations_expiring") == {"reserved": 1, "begun": 1}
    clock.pass_(seconds=0.1 * HOUR_S)
    assert states(server, "reservations_expiring") == {}
    clock.pass_(seconds=22 * HOUR_S)
    assert states(server, "reservations_expiring") == {"reserved": 1}


def test_a_broken_reservation_suspends_its_dataset_and_voids_the_guarantee(
    server: LocalServer, clock: TestClock
) -> None:
    names = ("dataset_suspended", "guarantee_void")
    server.open("adult")
    grant = reserve(server)
    step(server, "begin", grant)
    assert [gauges(server)[name] for name in names] == [0, 0]
    assert step(server, "settle", grant, shown="2")["reason"] == "beyond_maximum"
    assert states(server) == {"broken": 1}
    assert [gauges(server)[name] for name in names] == [1, 1]
    assert [gauges(server, "adult")[name] for name in names] == [0, 0]
    clock.pass_(seconds=100 * HOUR_S)
    assert states(server) == {"broken": 1}
    ended = {"grant": grant, "claim": {"type": "pure", "epsilon": "5"}}
    body = pausing(clock, kind="resolve", **ended)
    assert server.post("/datasets/census/resolve", body).json()["outcome"] == "resolved"
    assert [gauges(server)[name] for name in names] == [0, 1]


def test_steps_are_counted_by_outcome_and_reason(server: LocalServer) -> None:
    grant = reserve(server)
    step(server, "settle", grant)
    step(server, "begin", grant)
    step(server, "begin", grant)
    step(server, "settle", grant)
    step(server, "void", grant)
    found = {
        name.removeprefix("requests_total "): value
        for name, value in gauges(server).items()
        if name.startswith("requests_total")
    }
    assert found == {
        "opened ": 1,
        "reserved ": 1,
        "refused not_begun": 1,
        "begun ": 1,
        "refused already_begun": 1,
        "settled ": 1,
        "refused not_open": 1,
    }


def test_a_restart_shows_the_same(file: Path, clock: TestClock) -> None:
    with LocalServer(file, clock) as server:
        server.open(horizon="P365D")
        begun, _ = reserve(server), reserve(server, "PT2H")
        step(server, "begin", begun)
        before = gauges(server)
    with LocalServer(file, clock) as server:
        after = gauges(server)
    kept = [name for name in before if not name.startswith("requests_total")]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert before["reservations begun"] == 1
