"""`accountant limit`: a budget is divided, and a refusal says by which limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streams.cli.root import app


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def census(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTANT_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("ACCOUNTANT_OWNER", "olga")
    monkeypatch.setenv("COLUMNS", "200")
    opened = ("dataset", "open", "census", "--filter", "basic", "--epsilon", "1")
    assert run(*opened, "--access", "members", "--most-per-request", "1").exit_code == 0
    for name in ("ana", "ben"):
        given = ("member", "set", "census", name, "--role", "analyst", "--team", "blue")
        assert run(*given).exit_code == 0


def asked(analyst: str, epsilon: str) -> dict[str, Any]:
    done = run("ask", "census", f"pure:{epsilon}", "--analyst", analyst, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("census")
def test_a_team_s_limit_refuses_and_what_fits_is_offered() -> None:
    done = run("limit", "set", "census", "--team", "blue", "--part", "0.3")
    assert done.exit_code == 0, done.output
    assert "limit_set: team blue, 0.3 of the budget (version 1)" in done.output
    assert asked("ana", "0.2")["outcome"] == "granted"
    refused = asked("ben", "0.2")
    assert (refused["reason"], refused["fits"]) == ("exhausted", "pure:0.1")
    assert refused["level"] == {"scope": "team", "name": "blue", "what": "limit"}
    told = run("ask", "census", "pure:0.2", "--analyst", "ben")
    assert told.exit_code == 1
    assert "the limit of team blue has no room" in told.output
    assert "team blue: left epsilon 0.1" in told.output


@pytest.mark.usefixtures("census")
def test_a_pace_and_a_share_refuse_each_in_its_words() -> None:
    assert run("limit", "set", "census", "--each", "blue", "--pace", "0.1").exit_code == 0
    assert run("limit", "set", "census", "--analyst", "zoe", "--reserved", "0.95").exit_code == 0
    paced = run("ask", "census", "pure:0.11", "--analyst", "ana").output
    assert "the rest of the budget is reserved for others" in paced
    assert run("limit", "remove", "census", "--analyst", "zoe").exit_code == 0
    paced = run("ask", "census", "pure:0.11", "--analyst", "ana").output
    assert "the pace of each analyst of team blue has no room until its period ends" in paced
    assert run("audit").exit_code == 0


@pytest.mark.usefixtures("census")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "nothing is limited"),
        (("--team", "a", "--each", "b", "--part", "0.1"), 2, "give one of"),
        (("--team", "blue", "--part", "1.5"), 2, "at most 1"),
        (("--team", "blue", "--part", "0.1", "--by", "ana"), 1, "not_permitted"),
        (("--pace", "0.1", "--period", "daily"), 2, "period"),
    ],
)
def test_what_limits_nothing_or_by_nobody_is_told(
    words: tuple[str, ...], code: int, said: str
) -> None:
    done = run("limit", "set", "census", *words)
    assert (done.exit_code, said in done.output) == (code, True), done.output


@pytest.mark.usefixtures("census")
def test_a_limit_that_is_not_there_is_not_lifted() -> None:
    done = run("limit", "remove", "census", "--team", "blue")
    assert done.exit_code == 1
    assert "there is no such limit to lift" in done.output
