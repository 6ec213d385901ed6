"""A curator over HTTP: it begins and settles reservations of questions, and sends nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.streams.auth.roles_server import RolesServer
from tests.streams.gateway.records import new_id, opening, request

SCHEMA: dict[str, Any] = {
    "source": {"kind": "parquet", "name": "census"},
    "columns": [{"type": "number", "name": "age", "lower": "0", "upper": "120"}],
    "neighbours": "add_remove",
}


def test_a_curator_begins_and_settles_for_an_analyst(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        body = opening(server.clock, "census", epsilon="10", access="members")
        body |= {"by": "root", "owners": ["olga"], "schema": SCHEMA}
        server.done("root", "/datasets", body, "opened")
        server.enrol("census", "ana", "analyst")
        server.enrol("census", "otto", "curator")
        asked = {"version": 1, "type": "request", "request_id": new_id(server.clock)}
        asked |= {"analyst": "ana", "dataset": "census", "question": {"ask": "count"}}
        asked |= {"noise": {"epsilon": "0.5", "law": "laplace_reduction"}}
        asked |= {"reserve": {"until": "PT1H"}, "stop": {"error": "50"}}
        grant = server.done("ana", "/requests", asked, "reserved")

        def step(name: str, kind: str, **more: Any) -> Any:
            sent = {"version": 1, "type": kind, "request_id": new_id(server.clock)}
            sent |= {"analyst": "ana", "dataset": "census", "grant": grant["hash"], **more}
            return server.send(name, f"/datasets/census/reservations/{kind}", sent)

        mine = step("ana", "begin").json()
        assert (mine["outcome"], mine["reason"]) == ("refused", "not_permitted")
        assert step("otto", "void", via="otto").status_code == 403
        assert step("zoe", "begin", via="zoe").status_code == 403
        assert step("otto", "begin", via="otto").json()["outcome"] == "begun"
        settled = step("otto", "settle", via="otto", shown="64").json()
        assert settled["outcome"] == "settled"
        assert settled["totals"]["epsilon"] == "0.015625"
        for more in ({}, {"via": "otto"}):
            own = request(server.clock, dataset="census", analyst="otto", **more)
            assert server.send("otto", "/requests", own).status_code == 403
        rows = server.see("otto", "/datasets/census/requests").json()["decisions"]
        assert {each["request"]["type"] for each in rows} <= {"open", "begin", "settle", "member"}
        assert server.see("otto", "/datasets/census/usage", by="day").status_code == 403
