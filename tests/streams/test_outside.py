"""Releases made elsewhere: the command, the server, pages, metrics, and a stand-alone verifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.client import Accountant
from streams.evidence import verify
from tests.accountant.judged_life import Body
from tests.golden.replayed_logs import played
from tests.streams.auth.survey_server import HOSTILE
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer

AT = ("--at", "2026-01-01", "--evidence", "table 3")
VOID = "none: a release made elsewhere did not fit the budget"
BOUNDED = "two things were fixed before anything was released"


def test_a_command_records_a_release_and_says_what_it_has_done(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        done = run_here(tmp_path, *arguments)
        assert done.code == 0, done.err
        return done

    opening = ("--epsilon", "1", "--delta", "1e-6", "--filter", "basic", "--access", "anyone")
    run("dataset", "open", "census", *opening, "--beside", "none")
    run("limit", "set", "census", "--team", "blue", "--reserved", "0.9")
    (tmp_path / "table.pdf").write_bytes(b"rows")
    document = ("--document", str(tmp_path / "table.pdf"), "--json")
    asked = run_here(tmp_path, "dataset", "record", "census", "pure:5", *AT)
    assert (asked.code, asked.out) == (2, "")
    assert "nothing was done: no later record takes a charge of pure:5 to dataset" in asked.err
    assert "note: It costs ε 5; ε 1, δ 1e-6 left.\n" in asked.err
    assert "It does not fit: dataset census guarantees nothing then, for ever." in asked.err
    fits = run_here(tmp_path, "dataset", "record", "census", "pure:0.5", *AT).err
    assert "note: It costs ε 0.5; ε 1, δ 1e-6 left.\n" in fits
    assert "note: The guarantee of dataset census then holds if the size of this" in fits
    assert "note: It was made before the opening, so only if this budget was fixed before" in fits
    assert "note: Reserved shares that it leaves no room for are cut, the newest first.\n" in fits
    said = run("dataset", "record", "census", "pure:0.05", *AT, *document, "--yes").json
    assert said["request"]["released_at"] == "2026-01-01T00:00:00.000Z"
    assert said["request"]["evidence_hash"].startswith("sha256:")
    assert BOUNDED in " ".join(run("dataset", "show", "census").out.split())
    done = run("dataset", "record", "census", "pure:0.25", *AT, "--yes")
    assert "note: the reserved share of team blue is cut by epsilon 0.2" in done.err
    shown = " ".join(run("limit", "list", "census").out.split())
    assert "cut by a release made elsewhere" in shown
    (limit,) = run("limit", "list", "census", "--json").rows
    assert limit["reserved"]["cut"]["epsilon"] == "0.2"
    assert limit["reserved"]["left"]["epsilon"] == "0.7"
    alerts = run("watch", "--once", "--alerts", "--json").rows
    of_it = f"census/1/level/team/blue/1/cut/{limit['reserved']['cut_by']}"
    assert [alert["alert_id"] for alert in alerts] == [of_it]
    (alert,) = alerts
    assert (alert["cut"]["epsilon"], alert["threshold"]) == ("0.2", "")
    words = "team blue in census has less of its reserved share: a release made elsewhere has cut"
    assert words in " ".join(run("watch", "--once", "--alerts").out.split())
    done = run("dataset", "record", "census", "pure:0.8", *AT, "--yes")
    assert "guarantees nothing any more, for ever" in done.err
    assert VOID in run("dataset", "show", "census").out
    missing = run_here(tmp_path, "dataset", "record", "census", "pure:1", *AT, "--document", "no")
    assert (missing.code, "cannot be read" in missing.err) == (2, True)
    run("audit")


@pytest.mark.parametrize("fixed_before", [False, True])
def test_a_command_opens_a_dataset_with_what_was_released_before(
    tmp_path: Path, fixed_before: bool
) -> None:
    spent = tmp_path / "spent.json"
    said = {"claim": "pure:0.25", "evidence": "table 3", "fixed_before": fixed_before}
    spent.write_text(json.dumps(said))
    opening = ("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6", "--spent")
    opened = run_here(tmp_path, *opening, str(spent), "--json")
    assert opened.code == 0, opened.err
    assert opened.json["cost"]["epsilon"] == "0.25"
    shown = " ".join(run_here(tmp_path, "dataset", "show", "census").out.split())
    words = (
        "this budget was fixed before the first of it" if fixed_before else "from the opening on"
    )
    assert words in shown
    assert run_here(tmp_path, "audit").code == 0
    spent.write_text("{}")
    again = run_here(tmp_path, *opening, str(spent))
    assert (again.code, "does not say what was released before" in again.err) == (2, True)


def test_a_server_shows_a_void_guarantee_and_hides_the_limits_of_others(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        opening = {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
        server.open_for_olga("survey", access="members", visibility="own", **opening)
        server.enrol("survey", "ana", "analyst", team="blue")
        server.enrol("survey", "ben", "analyst", team="red")
        with Accountant(server.url, token=server.tokens["olga"], clock=server.clock) as client:
            olga = client.as_owner()
            for team in ("red", "blue"):
                assert olga.set_limit("survey", "team", team, reserved="0.5").reason is None

        def body(epsilon: str) -> Body:
            claim = {"type": "pure", "epsilon": epsilon}
            fields = {"released_at": "2026-01-01T00:00:00.000Z", "evidence": HOSTILE}
            head = {"version": 1, "type": "record", "by": "olga", "dataset": "survey"}
            return {**head, "claim": claim, "team": "red", **fields}

        path = "/datasets/survey/record"
        for name in ("ana", "ben", "zoe", "root"):
            assert server.send(name, path, body("0.1") | {"by": name}).status_code in {403, 404}
        server.done("olga", path, body("0.7"), "recorded")
        seen = {}
        for name in ("ana", "ben", "olga"):
            lines = server.see(name, "/datasets/survey/requests").json()["decisions"]
            (seen[name],) = [each for each in lines if each["outcome"] == "recorded"]
            assert BOUNDED in server.page(name).text, name
        assert [each["name"] for each in seen["ana"]["shares_cut"]] == ["blue"]
        words = "Team blue in survey has less of its reserved share"
        pages = {name: server.page(name).text for name in ("ana", "ben", "olga")}
        assert {name: words in text for name, text in pages.items()} == {
            "ana": True,
            "ben": False,
            "olga": True,
        }
        assert "levels" not in seen["ana"]
        assert "cut by a release made elsewhere" in server.page("olga").text
        assert [each["name"] for each in seen["ben"]["levels"]] == ["red"]
        assert "shares_cut" not in seen["ben"]
        assert "hash" not in seen["ben"]
        assert {"levels", "shares_cut", "hash"} <= seen["olga"].keys()
        assert 'privacy_guarantee_void{dataset="survey"} 0.0' in server.see("root", "/metrics").text
        server.done("olga", path, body("0.7"), "recorded")
        assert 'privacy_guarantee_void{dataset="survey"} 1.0' in server.see("root", "/metrics").text
        view = server.see("ana", "/datasets/survey").json()
        assert (view["guarantee"], view["over_budget"]) == ("void", True)
        assert "A release made elsewhere did not fit the budget, so" in server.page("ana").text
        server.done("olga", path, body("0.01"), "recorded")
        assert server.see("ana", "/datasets/survey").json()["guarantee"] == "void"


def _charged(said: Body) -> bool:
    return said["outcome"] == "recorded" and "cost" in said


def _voided(said: Body) -> bool:
    return said["outcome"] == "recorded" and "cost" not in said


def _at_a_team(said: Body) -> bool:
    return said["outcome"] == "recorded" and "levels" in said


def _with_less(level: Body) -> Body:
    """Return what a limit has counted, without the release."""
    return level | {"totals": dict.fromkeys(level["totals"], "0")}


FORGED = {
    "smaller_cost": (
        _charged,
        lambda said: said | {"cost": said["cost"] | {"epsilon": "0.1"}},
        "growth of|costs",
    ),
    "smaller_claim": (
        _charged,
        lambda said: (
            said | {"request": said["request"] | {"claim": {"type": "pure", "epsilon": "0.1"}}}
        ),
        "costs",
    ),
    "guarantee_stays": (
        _voided,
        lambda said: {name: each for name, each in said.items() if name != "guarantee"},
        "guarantee of census",
    ),
    "void_that_fits": (
        _voided,
        lambda said: (
            said | {"request": said["request"] | {"claim": {"type": "pure", "epsilon": "0.1"}}}
        ),
        "and fits|costs",
    ),
    "team_not_charged": (
        _at_a_team,
        lambda said: {name: each for name, each in said.items() if name != "levels"},
        "limits of its team",
    ),
    "team_charged_less": (
        _at_a_team,
        lambda said: said | {"levels": [_with_less(each) for each in said["levels"]]},
        "of limit .* costs",
    ),
    "team_without_its_count": (
        _at_a_team,
        lambda said: (
            said
            | {
                "levels": [
                    {name: amounts for name, amounts in each.items() if name != "totals"}
                    for each in said["levels"]
                ]
            }
        ),
        "counts of limit",
    ),
    "void_lifted": (
        lambda said: said["outcome"] == "closed",
        lambda said: said | {"guarantee": "if_bounded"},
        "guarantee of census",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_the_verifier_notices_a_forged_record(name: str) -> None:
    chosen, forge, words = FORGED[name]
    log = verify.Log()
    values = played("records").log
    lines = [json.loads(value) for value in values]
    place = next(number for number, said in enumerate(lines) if chosen(said))
    for value in values[:place]:
        log.take(value)
    with pytest.raises(verify.Wrong, match=words):
        log.decision(forge(lines[place]), "sha256:" + "0" * 64)
