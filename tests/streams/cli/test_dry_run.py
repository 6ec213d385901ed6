"""Prices before they are paid: dry runs, what still fits a dataset, and how many more like this."""

from __future__ import annotations

import pytest

from streams.clock import SystemClock
from tests.streams.gateway.local_server import LocalServer

ASK = ("ask", "census", "gaussian:sigma=20,sensitivity=1", "--analyst", "ana")


@pytest.fixture
def served(opened):
    """The address of a server to the same file, without which every command reads the file."""
    with LocalServer(opened.directory / "accountant.db", SystemClock()) as server:
        yield server.url


def test_a_dry_run_shows_the_cost_and_writes_nothing(opened):
    before = opened("log", "export").out
    done = opened(*ASK, "--dry-run")
    assert (done.code, done.err) == (6, "")
    assert done.out.startswith("would be granted; this was a dry run, nothing was recorded")
    assert "cost  ρ 0.00125" in done.out
    dry = opened(*ASK, "--dry-run", "--json").json
    assert opened("log", "export").out == before
    granted = opened(*ASK, "--json").json
    assert dry["cost"] == granted["cost"]
    assert dry["left"] == granted["left"]
    assert (dry["granted"], dry["sequence"]) == (True, granted["sequence"] - 1)


def test_a_dry_run_that_would_be_refused_says_what_would_fit(opened):
    done = opened("ask", "census", "pure:2", "--analyst", "ana", "--dry-run")
    assert done.code == 1
    assert "would be refused (exhausted)" in done.out
    assert "fits  pure:1\n" in done.out
    assert "ends  the ρ budget of zcdp_tight for good, after that claim;" in done.out


def test_a_dry_run_says_which_filter_a_grant_would_end(opened):
    done = opened("ask", "census", "pure:0.5", "--analyst", "ana", "--dry-run")
    assert done.code == 6
    assert (
        "ends  the ρ budget of zcdp_tight for good; only simple addition (ε 0.5 left) remains"
        in done.out
    )


def test_a_dry_run_that_would_take_all_that_is_left_shows_its_cost(opened):
    assert opened("ask", "census", "pure:0.05", "--analyst", "ana").code == 0
    done = opened("ask", "census", "pure:0.95", "--analyst", "ana", "--dry-run")
    assert done.code == 6
    assert "cost  ε 0.95\n" in done.out
    assert "left  ρ 0, ε 0\n" in done.out


def test_a_dry_run_obeys_the_cap(accountant):
    accountant("dataset", "open", "census", "--filter", "basic", "--epsilon", "1")
    dry = accountant("ask", "census", "pure:0.5", "--analyst", "ana", "--dry-run", "--json")
    assert (dry.code, dry.json["reason"], dry.json["fits"]) == (1, "above_cap", "pure:0.1")


def test_the_commands_that_a_refusal_advises_to_owners_work_as_printed(accountant):
    policy = ("--filter", "basic", "--epsilon", "1", "--by", "registrar")
    opening = accountant("dataset", "open", "census", *policy)
    raise_cap = "accountant dataset amend census --most-per-request 1 --by registrar"
    assert f"`{raise_cap}`" in opening.out
    unnamed = accountant("dataset", "amend", "census", "--most-per-request", "1")
    assert (unnamed.code, "Add `--by registrar`" in unnamed.out) == (1, True), unnamed.out
    assert "You gave no name" in unnamed.out
    ask = ("ask", "census", "pure:0.5", "--analyst", "ana")
    for refused in (accountant(*ask), accountant(*ask, "--dry-run")):
        assert (refused.code, f"`{raise_cap}`" in refused.out) == (1, True), refused.out
    amended = accountant(*raise_cap.split()[1:])
    assert amended.code == 0, amended.out
    assert accountant(*ask).code == 0


def test_a_dry_run_uses_the_unit_of_its_option(opened):
    dry = opened(*ASK, "--dry-run", "--json", "--unit", "household")
    assert (dry.code, dry.json["reason"]) == (1, "unit_mismatch")


@pytest.mark.parametrize("server", [False, True])
def test_a_grant_says_how_many_more_like_it(request, opened, server):
    more = ()
    if server:
        more = ("--url", request.getfixturevalue("served"))
    done = opened(*ASK, *more)
    assert done.code == 0, done.err
    counted = opened("fits", "--dataset", "census", "--claim", ASK[2], "--json", *more).json
    assert counted["fits"] > 5
    assert f"then  about {counted['fits']} more like this" in done.out
    printed = [line.split()[0] for line in done.out.splitlines()]
    assert printed == ["granted:", "cost", "left", "ends", "id", "then"]
    dry = opened(*ASK, "--dry-run", "--json", *more).json
    assert dry["more"] == counted["fits"] - 1


def test_the_last_grant_says_that_no_more_fits(accountant):
    opening = ("--filter", "basic", "--epsilon", "1", "--most-per-request", "1")
    accountant("dataset", "open", "census", *opening)
    done = accountant("ask", "census", "pure:0.6", "--analyst", "ana")
    assert (done.code, "then  no more like this" in done.out) == (0, True)
    free = accountant("ask", "census", "pure:0", "--analyst", "ana")
    assert "then  any number more like this" in free.out


def test_a_dry_run_sends_no_id(opened):
    done = opened(*ASK, "--dry-run", "--id", "01a1aaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa")
    assert (done.code, "--dry-run excludes --id" in done.err) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "sensus", "pure:0.1", "--analyst", "ana", "--dry-run"),
        ("fits", "--dataset", "sensus", "--claim", "pure:0.1"),
    ],
)
def test_an_unopened_dataset_is_named(opened, command):
    done = opened(*command)
    assert done.code == 1
    assert "dataset sensus was never opened; did you mean census?" in done.err


def test_the_remaining_grants_of_a_dataset_are_counted(opened):
    whole = opened("fits", "--epsilon", "1", "--delta", "1e-6", "--claim", "pure:0.01")
    assert opened("fits", "--dataset", "census", "--claim", "pure:0.01").out.split()[0] == "487"
    assert whole.out == "487\n"
    opened("ask", "census", "40*pure:0.01", "--analyst", "ana")
    left = opened("fits", "--dataset", "census", "--claim", "pure:0.01")
    assert (left.code, left.out.split()[0]) == (0, "447")
    assert "then  about 446 more like this" in left.out
    none = opened("fits", "--dataset", "census", "--claim", "pure:1", "--json")
    assert (none.code, none.json["fits"], none.json["reason"]) == (1, 0, "exhausted")
    assert none.json["largest"].startswith("pure:0.")
    opened("dataset", "close", "census", "--yes")
    closed = opened("fits", "--dataset", "census", "--claim", "pure:0.01", "--json")
    assert (closed.code, closed.json["fits"], closed.json["reason"]) == (1, 0, "closed")


def test_a_dataset_excludes_a_budget(opened):
    done = opened("fits", "--dataset", "census", "--epsilon", "1", "--claim", "pure:0.01")
    assert (done.code, "--dataset excludes --epsilon" in done.err) == (2, True)


def test_show_prints_how_many_more_grants_fit(opened):
    assert "more like this" not in opened("dataset", "show", "census").out
    opened("ask", "census", "pure:0.02", "--analyst", "ana")
    opened("ask", "census", "pure:0.01", "--analyst", "ana")
    opened("ask", "census", "pure:1", "--analyst", "ana")
    shown = opened("dataset", "show", "census").out
    left = opened("fits", "--dataset", "census", "--claim", "pure:0.01", "--json").json["fits"]
    assert f"about {left} more like this: pure:0.01" in shown
    other = opened("dataset", "show", "census", "--like", "pure:0.1").out
    fits = opened("fits", "--dataset", "census", "--claim", "pure:0.1", "--json").json["fits"]
    assert f"about {fits} more like this: pure:0.1" in other


def test_show_previews_a_claim_through_a_server(opened, served):
    shown = opened("dataset", "show", "census", "--url", served, "--like", "pure:0.01").out
    assert "about 487 more like this: pure:0.01" in shown


def test_a_dry_run_names_an_analyst_who_may_not_send_requests(accountant):
    opening = ("--filter", "basic", "--epsilon", "1", "--access", "members", "--by", "olga")
    accountant("dataset", "open", "census", *opening)
    dry = ("ask", "census", "pure:0.01", "--dry-run")
    stranger = accountant(*dry, "--analyst", "stranger")
    assert (stranger.code, stranger.out[:31]) == (1, "would be refused (not_permitted")
    assert accountant(*dry).code == 2
    accountant("member", "set", "census", "ana", "--role", "analyst", "--by", "olga")
    assert accountant(*dry, "--analyst", "ana").code == 6
    through = accountant(*dry, "--analyst", "ana", "--via", "eng", "--json")
    assert (through.code, through.json["reason"]) == (1, "not_permitted")
    accountant("member", "set", "census", "eng", "--role", "engine", "--by", "olga")
    assert accountant(*dry, "--analyst", "ana", "--via", "eng").code == 6
