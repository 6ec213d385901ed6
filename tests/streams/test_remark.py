"""A remark says something public about a decision, and changes nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from streams.client import Accountant
from tests.accountant.judged_life import START, Body, Ids, Life, Sent
from tests.streams.auth.survey_server import HOSTILE
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer

CRASHED = "the job crashed: this grant never ran"
IDS = Ids()
ASKED = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person", "neighbours": "add_remove"}
WITH_LAST = frozenset({"sequence", "changed_at"})
"""What each decision on a dataset moves in its row."""


def record(kind: str, **more: Any) -> Body:
    head = {"version": 1, "type": kind, "request_id": IDS.new(START), "dataset": "census"}
    return {**head, **({} if kind == "request" else {"by": "olga"}), **more}


@pytest.mark.parametrize("batch", [1, 100])
def test_a_remark_is_decided_and_replayed_and_changes_nothing(batch: int) -> None:
    """The oracle judges each decision and row, and a replay of the log or the rows agrees."""
    life, at = Life(seed=1), START
    first = record("remark", decision=2, remark=CRASHED)
    steps = [
        (record("open", policy={"filter": "basic", "epsilon": "1"}), "opened"),
        (record("request", analyst="ana", **ASKED), "granted"),
        (first, "remarked"),
        (first, "repeated"),
        (first | {"remark": "another"}, "conflict"),
        (record("remark", decision=2, remark="its purpose was: yearly"), "remarked"),
        (record("remark", decision=1, remark="opened for the audit"), "remarked"),
        (record("remark", decision=6, remark="on itself"), "unknown_decision"),
        (record("remark", decision=0, remark="on none"), "unknown_decision"),
        (record("remark", decision=2, remark=CRASHED, by="ana"), "not_permitted"),
        (record("remark", decision=2, remark=CRASHED, follows=1), "out_of_date"),
        (record("remark", decision=2, remark=""), "invalid_field"),
        (record("remark", decision=2, remark="x" * 201), "invalid_field"),
        (record("pause"), "paused"),
        (record("remark", decision=2, remark="x" * 200), "remarked"),
        (record("resume"), "resumed"),
        (record("close"), "closed"),
        (record("remark", decision=12, remark="closed after the audit"), "remarked"),
    ]
    before: dict[str, Any] = {}
    for number, (body, expected) in enumerate(steps, 1):
        at += 1
        said = life.decide(Sent.made(body, at))
        assert said.get("reason", said["outcome"]) == expected, body
        if number % batch == 0:
            life.commit()
            row = json.loads(life.rows[b"census"])
            if body["type"] == "remark":
                moved = {name for name in row if row[name] != before.get(name)}
                assert moved <= WITH_LAST, body
            before = row
            life.kill()
    life.finish()


def test_a_command_remarks_on_a_decision(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        done = run_here(tmp_path, *arguments)
        assert done.code == 0, done.err
        return done

    run("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6", "--access", "anyone")
    run("ask", "census", "pure:0.1", "--analyst", "ana")
    spent = run("dataset", "show", "census", "--json").json["totals"]
    said = run("dataset", "remark", "census", "2", CRASHED, "--yes", "--json").json
    assert (said["outcome"], said["request"]["remark"]) == ("remarked", CRASHED)
    assert run("dataset", "show", "census", "--json").json["totals"] == spent
    assert run_here(tmp_path, "dataset", "remark", "census", "4", CRASHED, "--yes").code == 1
    run("audit")


def test_a_remark_is_asked_back_with_the_decision_that_ask_has_numbered(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return run_here(tmp_path, *arguments)

    for name in ("census", "visits"):
        budget = ("--epsilon", "1", "--delta", "1e-6", "--access", "anyone")
        assert run("dataset", "open", name, *budget).code == 0
    asked = run("ask", "visits", "pure:0.1", "--analyst", "ana")
    assert re.search(r"^  id    \S{36} \(decision 2 of visits\)$", asked.out, re.MULTILINE)
    refused = run("ask", "visits", "pure:3", "--analyst", "bo")
    assert "(decision 3 of visits)\n" in refused.out
    for number, said in (
        (2, r"ana asked pure:0\.1 at \S+ \S+ UTC: granted try:"),
        (3, r"bo asked pure:3 at \S+ \S+ UTC: refused \(above_cap\) try:"),
        (1, r"a record of owner at \S+ \S+ UTC: opened try:"),
        (9, "which you cannot read"),
    ):
        back = run("dataset", "remark", "visits", str(number), CRASHED)
        assert (back.code, back.out) == (2, "")
        words = " ".join(back.err.split())
        assert re.search(
            f"stays public .* is about decision {number} of dataset visits.*{said}", words
        )
        assert "add --yes if it is meant" in words
    assert run("dataset", "show", "visits", "--json").json["sequence"] == 3
    assert run("dataset", "remark", "visits", "2", CRASHED, "--yes").code == 0


def test_a_server_shows_a_remark_to_everybody_and_beside_its_request(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        server.open_for_olga("survey", access="members", visibility="own")
        for name, role in (("ana", "analyst"), ("aud", "auditor"), ("ben", "analyst")):
            server.enrol("survey", name, role)
        with Accountant(server.url, token=server.tokens["ana"], clock=server.clock) as ana:
            number = ana.ask("survey", "pure:0.001").decision.sequence

        def body(by: str) -> Body:
            said = {"decision": number, "remark": HOSTILE}
            return {"version": 1, "type": "remark", "by": by, "dataset": "survey", **said}

        path = "/datasets/survey/remark"
        for name in ("ana", "aud", "zoe", "root"):
            assert server.send(name, path, body(name)).status_code in {403, 404}, name
        decided = server.done("olga", path, body("olga"), "remarked")
        with Accountant(server.url, token=server.tokens["olga"], clock=server.clock) as olga:
            assert olga.as_owner().remark("survey", 1, CRASHED).outcome == "remarked"
        for name in ("ana", "aud", "ben", "olga", "root"):
            assert decided["hash"] in server.see(name, "/datasets/survey/requests").text, name
            shown = f"<q>{escape(HOSTILE)}</q>" in server.page(name).text
            assert shown is (name != "ben"), "a remark stands beside a request that is shown"
            remarks = server.see(name, "/datasets/survey/overview").json()["requests"]["remarks"]
            assert list(remarks) == ([] if name == "ben" else [str(number)]), name
