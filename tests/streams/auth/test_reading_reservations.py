"""Open reservations over HTTP: who sees which, a page at a time, by the log's clock and by now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.every_case import check_each
from tests.streams.auth.roles_server import KINDS, ROLES, RolesServer, misspelt
from tests.streams.auth.visible import SEE_ALL, status
from tests.streams.clock import TestClock

everywhere = pytest.mark.parametrize("dataset", KINDS)
SESSION = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    with RolesServer(tmp_path_factory.mktemp("reservations")) as server:
        server.furnish()
        for dataset in KINDS:
            server.reserved(dataset, "ana", purpose="of ana")
            server.reserved(dataset, "ana", via="eng", purpose="of eng")
            server.reserved(dataset, "ben", purpose="of ben")
        yield server


def listed(server: RolesServer, name: str | None, dataset: str, **query: int) -> dict[str, Any]:
    answer = server.see(name, f"/datasets/{dataset}/reservations", **query)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


def purposes(page: dict[str, Any]) -> list[str]:
    return [each["purpose"] for each in page["reservations"]]


def test_everybody_sees_their_own_reservations_and_those_who_see_all_see_all(
    furnished: RolesServer,
) -> None:
    def check_case(dataset: str, name: str | None) -> None:
        answer = furnished.see(name, f"/datasets/{dataset}/reservations")
        expected = status(name, dataset)
        assert answer.status_code == expected
        if expected != 200:
            return
        own = {"ana": ["of ana", "of eng"], "ben": ["of ben"], "eng": ["of eng"]}.get(str(name), [])
        everything = ["of ana", "of eng", "of ben"]
        assert purposes(answer.json()) == (everything if name in SEE_ALL else own)

    check_each(check_case, KINDS, list(ROLES.values()))


@everywhere
def test_a_hidden_dataset_is_as_one_that_was_never_opened(
    furnished: RolesServer, dataset: str
) -> None:
    for name in (dataset, misspelt(dataset)):
        answer = furnished.see("ana", f"/datasets/{name}x/reservations")
        assert (answer.status_code, answer.json()["error"]) == (404, "unknown_dataset")


def test_a_reservation_names_its_grant_and_its_request_and_what_it_holds(
    furnished: RolesServer,
) -> None:
    found = furnished.see("olga", "/datasets/closed-own/requests", limit=1_000).json()["decisions"]
    (decision,) = [
        each for each in found if each["request"].get("purpose") == "of eng" and each["hash"]
    ]
    (listing,) = [
        each
        for each in listed(furnished, "eng", "closed-own")["reservations"]
        if each["purpose"] == "of eng"
    ]
    assert listing == {
        "dataset": "closed-own",
        "grant": decision["hash"],
        "sequence": decision["sequence"],
        "request_id": decision["request"]["request_id"],
        "analyst": "ana",
        "via": "eng",
        "purpose": "of eng",
        "claim": {"type": "pure", "epsilon": "0.1"},
        "state": "reserved",
        "reserved_at": decision["decided_at"],
        "until": decision["reservation"]["until"],
        "deadline_passed": False,
        "final_at": decision["reservation"]["until"].replace("T13", "T14"),
        "held": {"epsilon": "0.1", "delta": "0"},
    }


def test_pages_have_each_reservation_once(furnished: RolesServer) -> None:
    found, after = [], 0
    while True:
        page = listed(furnished, "olga", "closed-own", after=after, limit=2)
        assert len(page["reservations"]) <= 2
        if page["next"] == after:
            break
        found += purposes(page)
        after = page["next"]
    assert found == ["of ana", "of eng", "of ben"]


def test_a_page_of_ones_own_is_as_long_as_it_may_be(furnished: RolesServer) -> None:
    page = listed(furnished, "ben", "closed-own", limit=1)
    assert purposes(page) == ["of ben"]
    assert purposes(listed(furnished, "ben", "closed-own", after=page["next"])) == []


@pytest.mark.parametrize("limit", ["x", "-1", "0", "1001", ""])
def test_a_page_that_is_none_is_refused(furnished: RolesServer, limit: str) -> None:
    answer = furnished.see("olga", "/datasets/closed-own/reservations", limit=limit)
    assert answer.status_code == 422


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RolesServer]:
    with RolesServer(tmp_path, clock=TestClock()) as running:
        running.open_for_olga("sessions", access="members", filter="zcdp", rho="1", epsilon=None)
        running.enrol("sessions", "ana", "analyst")
        yield running


def states(server: RolesServer) -> list[tuple[str, bool]]:
    page = listed(server, "olga", "sessions")
    return [(each["state"], each["deadline_passed"]) for each in page["reservations"]]


def test_a_deadline_passes_by_the_servers_clock_and_the_state_moves_with_the_log(
    server: RolesServer,
) -> None:
    begun = server.reserved("sessions", "ana", claim=SESSION)
    assert server.step("begin", begun).json()["outcome"] == "begun"
    server.reserved("sessions", "ana", claim=SESSION)
    assert states(server) == [("begun", False), ("reserved", False)]
    server.clock.pass_(seconds=3_600)
    assert states(server) == [("begun", True), ("reserved", True)]
    server.open_for_olga("another")  # the log's clock moves, the dataset does not
    assert states(server) == [("lapsed_after_begin", True), ("lapsed", True)]
    server.reserved("sessions", "ana", claim=SESSION)  # drops what is final
    assert states(server) == [("lapsed", True), ("reserved", False)]


def test_a_broken_reservation_says_what_it_showed(server: RolesServer) -> None:
    grant = server.reserved("sessions", "ana", claim=SESSION)
    server.step("begin", grant)
    assert server.step("settle", grant, shown="100").json()["reason"] == "beyond_maximum"
    (broken,) = listed(server, "ana", "sessions")["reservations"]
    assert (broken["state"], broken["shown"], broken["grant"]) == ("broken", "100", grant["hash"])
    assert "final_at" not in broken
    server.clock.pass_(seconds=7_200)
    assert states(server) == [("broken", False)]


def test_what_is_settled_or_voided_is_listed_no_more(server: RolesServer) -> None:
    grants = [server.reserved("sessions", "ana", claim=SESSION) for _ in range(3)]
    server.step("begin", grants[0])
    server.step("settle", grants[0], shown="400")
    server.step("void", grants[1])
    (left,) = listed(server, "ana", "sessions")["reservations"]
    assert left["grant"] == grants[2]["hash"]
