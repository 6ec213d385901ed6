"""Limits at the server: an owner's word alone, and an analyst's refusal says why."""

from __future__ import annotations

from pathlib import Path

from tests.streams.auth.roles_server import ROLES, RolesServer
from tests.streams.gateway.records import request

LIMIT = {"version": 1, "type": "limit", "dataset": "closed-own", "scope": "analyst", "name": "ana"}
LARGE = {"type": "pure", "epsilon": "10"}


def test_only_owners_set_limits_and_only_callers_with_full_view_see_them(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.furnish()
        path = "/datasets/closed-own/limits"
        before = server.stored_rows()
        for name in ROLES.values():
            if name not in {None, "olga"}:
                answer = server.send(name, path, {**LIMIT, "by": name, "part": "0.001"})
                assert answer.status_code == 403, name
        assert server.send(None, path, {**LIMIT, "by": "olga", "part": "0.001"}).status_code == 401
        assert server.stored_rows() == before
        server.done("olga", path, {**LIMIT, "by": "olga", "part": "0.001"}, "limit_set")
        asked = request(server.clock, dataset="closed-own", analyst="ana", claim=LARGE)
        refused = server.done("ana", "/requests", asked, "refused")
        assert refused["level"] == {"scope": "analyst", "name": "ana", "what": "limit"}
        visible = {
            name: sum(
                each["outcome"] == "limit_set"
                for each in server.see(name, "/datasets/closed-own/requests").json()["decisions"]
            )
            for name in ("olga", "aud", "ana", "ben", "eng")
        }
        assert visible == {"olga": 1, "aud": 1, "ana": 0, "ben": 0, "eng": 0}
