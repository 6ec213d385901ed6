"""A label says what a dataset is, to everybody who may see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from streams.client import Accountant
from tests.accountant.judged_life import START, Body, Ids, Life, Sent
from tests.streams.auth.survey_server import HOSTILE
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer

CENSUS = "Answers to the 2020 census, one row a household"
IDS = Ids()


def record(kind: str, **more: Any) -> Body:
    head = {"version": 1, "type": kind, "request_id": IDS.new(START), "dataset": "census"}
    return {**head, **({} if kind == "request" else {"by": "olga"}), **more}


@pytest.mark.parametrize("batch", [1, 100])
def test_a_label_is_decided_and_replayed_on_open_paused_and_closed_datasets(batch: int) -> None:
    """The oracle judges each decision and row, and a replay of the log or the rows agrees."""
    life, at = Life(seed=1), START
    first = record("label", label=CENSUS)
    asked = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person"}
    steps = [
        (record("open", policy={"filter": "basic", "epsilon": "1"}), "opened", ""),
        (first, "label_set", CENSUS),
        (first, "repeated", CENSUS),
        (first | {"label": "another"}, "conflict", CENSUS),
        (record("request", analyst="ana", neighbours="add_remove", **asked), "granted", CENSUS),
        (record("label", label="a new one", by="ana"), "not_permitted", CENSUS),
        (record("label", label="a new one", follows=1), "out_of_date", CENSUS),
        (record("label", label="x" * 201), "invalid_field", CENSUS),
        (record("label", label="a\nb"), "invalid_field", CENSUS),
        (record("pause"), "paused", CENSUS),
        (record("label", label="being mended"), "label_set", "being mended"),
        (record("resume"), "resumed", "being mended"),
        (record("label", label=""), "label_removed", ""),
        (record("close"), "closed", ""),
        (record("label", label="x" * 200), "label_set", "x" * 200),
        (record("label", label=""), "label_removed", ""),
        (record("label", label=CENSUS), "label_set", CENSUS),
    ]
    for number, (body, expected, label) in enumerate(steps, 1):
        at += 1
        said = life.decide(Sent.made(body, at))
        assert said.get("reason", said["outcome"]) == expected, body
        ledger = life.draft.ledger("census")
        assert ledger is not None
        assert ledger.facts.label == label, body
        if number % batch == 0:
            life.commit()
            row = json.loads(life.rows[b"census"])
            assert row.get("label", "") == label, body
            life.kill()
    life.finish()


def test_a_command_sets_and_removes_a_label(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        done = run_here(tmp_path, *arguments)
        assert done.code == 0, done.err
        return done

    run("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6")
    assert "label" not in run("dataset", "show", "census").out
    assert run("dataset", "label", "census", f"{CENSUS}\u200b", "--json").json["granted"] is False
    # Like a purpose, it cannot act on a terminal: a character that nobody sees is shown.
    assert f"{CENSUS}\\u200b" in run("dataset", "show", "census").out
    (listed,) = run("dataset", "list", "--json").rows
    assert listed["label"] == f"{CENSUS}\u200b"
    run("dataset", "close", "census", "--yes")
    assert run("dataset", "label", "census", "").out.startswith("label_removed\n")
    assert "label" not in run("dataset", "show", "census").out
    run("audit")


def test_a_server_shows_a_label_to_everybody_who_sees_the_dataset(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        server.open_for_olga("survey", access="members", visibility="own")
        for name, role in (("ana", "analyst"), ("eng", "engine"), ("aud", "auditor")):
            server.enrol("survey", name, role)

        def body(by: str, label: str) -> Body:
            return {"version": 1, "type": "label", "by": by, "dataset": "survey", "label": label}

        path = "/datasets/survey/label"
        for name in ("ana", "eng", "aud", "zoe", "root"):
            assert server.send(name, path, body(name, CENSUS)).status_code in {403, 404}, name
        assert server.see("olga", "/datasets/survey").json()["label"] == ""
        decided = server.done("olga", path, body("olga", HOSTILE), "label_set")
        for name in ("ana", "eng", "aud", "olga", "root"):
            assert server.see(name, "/datasets/survey").json()["label"] == HOSTILE, name
            assert f"<q>{escape(HOSTILE)}</q>" in server.page(name).text, name
            lines = server.see(name, "/datasets/survey/requests").text
            assert decided["hash"] in lines, name
        assert server.see("zoe", "/datasets/survey").status_code in {403, 404}
        with Accountant(server.url, token=server.tokens["olga"], clock=server.clock) as olga:
            assert olga.as_owner().label("survey", "").outcome == "label_removed"
        assert server.see("ana", "/datasets/survey").json()["label"] == ""
        assert "<q>" not in server.page("ana").text
