"""The events that a server logs and counts, and the administrator records in an audit."""

from __future__ import annotations

import json
import logging

import pytest

from accountant.records.kinds import KINDS
from tests.ledger_file import connected
from tests.streams.auth.roles_server import RolesServer, setting
from tests.streams.cli.here import run_here
from tests.streams.gateway.records import opening, pausing, request


def test_the_log_has_grants_of_roles_and_reads_of_others_but_no_secret(
    census: RolesServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    census.done("opie", "/datasets", {**opening(census.clock, "own"), "by": "opie"}, "opened")
    body = setting("root", "census", "aud", "auditor", **{"as": "administrator"})
    census.done("root", "/datasets/census/members", body, "member_set")
    census.granted("census", "ana")
    others, own = ("requests", "usage", "why", "limits", "budgets/ana"), ("budgets/aud",)
    for name in ("aud", "ana"):
        for tail in (*others, *own):
            census.see(name, f"/datasets/census/{tail}")
        for analyst in ({}, {"analyst": "ana"}):
            wish = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person", **analyst}
            previewed = census.http.post(
                "/datasets/census/preview",
                json={**wish, "neighbours": "add_remove"},
                headers=census.auth_headers(name),
            )
            assert previewed.status_code == 200
        assert census.http.head("/events", headers=census.auth_headers(name)).status_code == 200
    assert "event='dataset_opened' dataset='own' by='opie' owners=['opie']" in caplog.text
    set_member = "event='member_set' dataset='census' by='root' member='aud'"
    assert set_member in caplog.text
    assert "administrator=True" in caplog.text
    read = [line for line in caplog.messages if "others_requests_read" in line]
    # What somebody else asked, used or has left, and nothing of one's own.
    assert ["name='aud'" in line for line in read] == [True] * (len(others) + 2)
    for token in census.tokens.values():
        assert token not in caplog.text
    assert "epsilon" not in caplog.text


def test_metrics_count_actions_that_are_not_permitted(census: RolesServer) -> None:
    series = 'privacy_http_not_permitted_total{action="request"}'
    census.send("ben", "/requests", request(census.clock, analyst="ben"))
    census.see("ben", "/metrics")
    lines = census.see("root", "/metrics").text.splitlines()
    assert f"{series} 1.0" in lines
    assert 'privacy_http_not_permitted_total{action="metrics"} 1.0' in lines
    shown = {line.removesuffix(" 0.0") for line in lines}
    for kind in KINDS[1:]:  # from zero: Prometheus sees no increase in a series that begins at 1
        assert f'privacy_http_not_permitted_total{{action="{kind.name}"}}' in shown, kind.name


def test_administrator_records_are_counted_and_printed_by_an_audit(census: RolesServer) -> None:
    path = "/datasets/census/members"
    series = 'privacy_administrator_records_total{partition="0"}'
    assert f"{series} 0.0" in census.see("root", "/metrics").text.splitlines()
    help_ = {"as": "administrator", "reason": "olga is [away]"}
    census.done(
        "root", path, setting("root", "census", "ben", "owner", "auditor", **help_), "member_set"
    )
    census.done("root", path, setting("root", "census", "ben", **help_), "member_removed")
    for kind in ("pause", "resume"):
        body = pausing(census.clock, "census", kind, **{**help_, "by": "root"})
        census.done("root", f"/datasets/census/{kind}", body, f"{kind}d")
    assert f"{series} 4.0" in census.see("root", "/metrics").text.splitlines()
    copy = census.path.with_name("copy.db")
    with (
        connected(census.path) as file,
        connected(copy) as other,
        other.backup("main", file, "main") as backup,
    ):
        backup.step()
    printed, result = (
        run_here(copy.parent, "audit", str(copy), *more).out for more in ((), ("--json",))
    )
    assert "root made ben owner and auditor on census: olga is [away]" in printed
    assert "root removed ben from census: olga is [away]" in printed
    assert "root paused census: olga is [away]" in printed
    assert "root resumed census: olga is [away]" in printed
    (part,) = json.loads(result)["partitions"]
    paused = part["report"]["administered_pauses"]
    assert [(each["by"], each["paused"]) for each in paused] == [("root", True), ("root", False)]
    assert [each["roles"] for each in part["report"]["administered"]] == [["owner", "auditor"], []]
