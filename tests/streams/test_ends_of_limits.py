"""Limits with an end: commands, previews, the page and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accountant.times import iso
from streams.client import Accountant
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer

END = "2126-12-31"
IN_FULL = "2126-12-31T00:00:00.000Z"
DAY_S = 86_400


def test_commands_say_when_a_limit_ends_and_what_follows(tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> Any:
        done = run_here(tmp_path, *arguments)
        assert done.code == code, done.err
        return done

    opening = ("--epsilon", "1", "--delta", "1e-6", "--filter", "basic", "--access", "anyone")
    run("dataset", "open", "census", *opening, "--beside", "none")
    run("member", "set", "census", "ana", "--role", "analyst", "--team", "red")
    done = run("limit", "set", "census", "--team", "red", "--part", "0.1", "--until", END)
    assert f"note: team red: unlimited from {END}" in done.err
    run("limit", "set", "census", "--each", "red", "--part", "0.5")
    done = run("limit", "set", "census", "--analyst", "ana", "--part", "0.05", "--until", END)
    assert "on the default of team red applies" in done.err
    assert END in run("limit", "list", "census").out
    rows = run("limit", "list", "census", "--json").rows
    assert [row.get("until") for row in rows] == [IN_FULL, None, IN_FULL]
    assert END in run("mine", "--analyst", "ana").out
    asked = run("ask", "census", "pure:0.09", "--analyst", "ana", code=1)
    said = " ".join((asked.out + asked.err).split())
    assert "the limit of analyst ana ends at 2126-12-31" in said.lower()
    assert "Waiting does not help" not in said
    done = run("ask", "census", "pure:0.09", "--analyst", "ana", "--dry-run", code=1)
    assert END in done.out + done.err
    past = ("limit", "set", "census", "--team", "red", "--part", "0.1", "--until", "2020-01-01")
    assert "is in the past" in run(*past, code=2).err
    run("audit")


def test_a_page_and_a_preview_know_that_a_limit_is_over(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        opening = {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
        server.open_for_olga("survey", access="members", visibility="own", **opening)
        server.enrol("survey", "ana", "analyst", team="blue")
        later = server.clock.now() + 2 * DAY_S * 1000
        with Accountant(server.url, token=server.tokens["olga"], clock=server.clock) as client:
            olga = client.as_owner()
            until = iso(later)
            done = olga.set_limit("survey", "team", "blue", part="0.1", until=until)
            assert done.limit is not None
            assert done.limit.until == until
            assert olga.set_limit("survey", "team", "red", reserved="0.5", until=until).limit
        assert "unlimited from" in server.page("olga").text
        assert 'name="until"' in server.page("olga").text
        with Accountant(server.url, token=server.tokens["ana"], clock=server.clock) as client:
            assert not client.cost("survey", "pure:0.2").granted
            assert client.budget("survey").levels[0].until == until
        # Nobody decides anything meanwhile: views alone know that the time has come.
        server.clock.pass_(seconds=2 * DAY_S)
        assert "unlimited from" not in server.page("olga").text
        with Accountant(server.url, token=server.tokens["ana"], clock=server.clock) as client:
            assert client.cost("survey", "pure:0.9").granted
            assert client.budget("survey").levels == ()
            assert client.budget("survey").left["epsilon"] == "1"
        assert 'scope="team"' not in server.see("root", "/metrics").text
