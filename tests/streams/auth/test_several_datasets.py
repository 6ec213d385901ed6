"""Requests over several datasets on a server: who may send them, and who is shown what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.streams.auth.roles_server import RolesServer
from tests.streams.gateway.records import new_id, request


@pytest.fixture
def shop(census: RolesServer) -> RolesServer:
    """A server with two datasets: olga owns both, ana asks both, ben asks `sales` alone."""
    for name in ("sales", "returns"):
        census.open_for_olga(name, epsilon="1", access="members", visibility="members")
        census.enrol(name, "ana", "analyst")
    census.enrol("sales", "ben", "analyst")
    census.enrol("returns", "aud", "auditor")
    return census


def both(server: RolesServer, analyst: str = "ana", **fields: Any) -> dict[str, Any]:
    names = {"dataset": "sales", "other_datasets": ["returns"]}
    return request(server.clock, analyst=analyst, **names | fields)


def test_the_sender_gets_the_whole_record(shop: RolesServer) -> None:
    body = both(shop)
    answer = shop.send("ana", "/requests", body).json()
    assert (answer["outcome"], answer["granted"]) == ("granted", True)
    assert [part["dataset"] for part in answer["parts"]] == ["sales", "returns"]
    assert answer["hash"].startswith("sha256:")
    found = shop.see("ana", f"/datasets/sales/requests/{body['request_id']}", analyst="ana")
    assert found.json() == answer
    again = shop.send("ana", "/requests", body).json()
    assert (again["outcome"], again["first"]["granted"]) == ("repeated", True)


def test_a_role_in_one_dataset_is_not_enough(shop: RolesServer) -> None:
    answer = shop.send("ben", "/requests", both(shop, "ben"))
    assert answer.status_code == 403
    assert answer.json()["value"] == "returns"
    # No word of whether `returns` exists, as for a name that does not.
    unknown = shop.send("ben", "/requests", both(shop, "ben", other_datasets=["nothing"]))
    assert answer.json()["message"].replace("returns", "nothing") in unknown.json()["message"]


def test_a_list_has_the_decision_as_its_dataset_sees_it(shop: RolesServer) -> None:
    shop.send("ana", "/requests", both(shop))
    for name in ("sales", "returns"):
        last = shop.see("olga", f"/datasets/{name}/requests", after=0).json()["decisions"][-1]
        assert (last["dataset"], last["outcome"]) == (name, "granted")
        assert last["totals"] == shop.see("olga", f"/datasets/{name}").json()["totals"]
        assert last["part_of"].startswith("sha256:")
        assert not {"parts", "hash"} & last.keys()
        assert "other_datasets" not in last["request"]
        assert last["request"]["dataset"] == name


@pytest.mark.parametrize("name", ["ben", "aud"])
def test_nobody_learns_the_name_of_a_dataset_that_is_hidden(shop: RolesServer, name: str) -> None:
    seen, hidden = {"ben": ("sales", "returns"), "aud": ("returns", "sales")}[name]
    body, stream = both(shop), Stream(shop, name)
    shop.send("ana", "/requests", body)
    shop.send("ana", "/requests", body)  # a repeat, which has no parts
    shop.send("ana", "/requests", both(shop, claim={"type": "pure", "epsilon": "3"}))
    found = shop.see(name, f"/datasets/{seen}/requests", after=0).text
    assert '"outcome":"granted"' in found
    assert hidden not in found
    of_id = f"/datasets/{seen}/requests/{body['request_id']}"
    assert hidden not in shop.see(name, of_id, analyst="ana").text.replace("unknown", "")
    events = "".join(map(json.dumps, stream.read()))
    assert seen in events
    assert hidden not in events


class Stream:
    """The events that somebody is sent from here on."""

    def __init__(self, server: RolesServer, name: str, **query: str) -> None:
        self._url, self._query = f"{server.url}/events", query
        self._headers = server.auth_headers(name)
        self._start = next(value for field, value in self._lines() if field == "id")

    def _lines(self) -> Iterator[tuple[str, str]]:
        options = {"headers": self._headers, "params": self._query, "timeout": 3}
        with (
            suppress(httpx.ReadTimeout),
            httpx.stream("GET", self._url, **options, trust_env=False) as answer,
        ):
            for line in answer.iter_lines():
                field, _, value = line.partition(": ")
                yield field, value

    def read(self) -> list[dict[str, Any]]:
        """Return the data of the events so far."""
        self._headers |= {"Last-Event-ID": self._start}
        return [json.loads(value) for field, value in self._lines() if field == "data"]


def test_events_have_the_record_once_or_the_parts_that_are_seen(shop: RolesServer) -> None:
    names = ("root", "ana", "aud")
    streams = {name: Stream(shop, name) for name in names}
    of_returns = Stream(shop, "root", dataset="returns")
    record = shop.send("ana", "/requests", both(shop)).json()
    for name in ("root", "ana"):
        decision, *alerts = streams[name].read()
        assert decision == record
        assert [each["dataset"] for each in alerts] == ["sales", "returns"]
    for stream in (streams["aud"], of_returns):
        part, alert = stream.read()
        assert (part["dataset"], part["part_of"]) == ("returns", record["hash"])
        assert alert["alert_id"] == "returns/1/0.001"


def test_a_refusal_names_the_dataset_to_its_sender(shop: RolesServer) -> None:
    huge = {"type": "pure", "epsilon": "3"}
    answer = shop.send("ana", "/requests", both(shop, claim=huge)).json()
    assert (answer["outcome"], answer["refused_by"]) == ("refused", "sales")
    listed = shop.see("olga", "/datasets/returns/requests", after=0).json()["decisions"][-1]
    assert (listed["reason"], listed.get("refused_by")) == ("other_dataset", None)


def take(server: RolesServer, kind: str, grant: str, name: str = "ana") -> httpx.Response:
    """Send a step of a reservation."""
    body = {"version": 1, "type": kind, "request_id": new_id(server.clock), "analyst": name}
    body |= {"dataset": "sales", "grant": grant}
    return server.send(name, f"/datasets/sales/reservations/{kind}", body)


def test_the_holder_takes_each_step_in_all_datasets(shop: RolesServer) -> None:
    reserved = shop.send("ana", "/requests", both(shop, reserve={"until": "PT30M"})).json()
    assert reserved["outcome"] == "reserved"
    for name in ("sales", "returns"):
        (row,) = shop.see("ana", f"/datasets/{name}/reservations").json()["reservations"]
        assert row["grant"] == reserved["hash"]
    for kind, outcome in (("begin", "begun"), ("settle", "settled")):
        found = take(shop, kind, reserved["hash"]).json()
        assert found["outcome"] == outcome
        assert [part["dataset"] for part in found["parts"]] == ["sales", "returns"]


def test_an_owner_learns_no_other_dataset_from_a_step(shop: RolesServer) -> None:
    """Owners of one dataset alone get no name of the other, not even in answer to their step."""
    shop.enrol("sales", "otto", "owner")
    shop.enrol("returns", "zoe", "owner")
    reserved = shop.send("ana", "/requests", both(shop, reserve={"until": "PT30M"})).json()
    tried = take(shop, "void", reserved["hash"], "otto")
    assert tried.json()["reason"] == "other_dataset"
    assert take(shop, "begin", reserved["hash"]).json()["outcome"] == "begun"
    for name, seen, hidden in (("otto", "sales", "returns"), ("zoe", "returns", "sales")):
        listed = shop.see(name, f"/datasets/{seen}/requests", after=0)
        assert [each["outcome"] for each in listed.json()["decisions"]][-2:] == [
            "refused",
            "begun",
        ]
        assert hidden not in listed.text
        assert hidden not in shop.see(name, f"/datasets/{seen}/reservations").text
    assert "returns" not in tried.text
