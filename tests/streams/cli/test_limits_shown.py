"""`limit list`, `mine`, `fits --analyst`, dry runs and `dataset show` show what limits leave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from accountant.times import from_iso
from streams.cli.reading.analyst_access import read_access
from streams.cli.reading.dataset_reader import reader
from tests.every_case import every_case
from tests.streams.cli.authenticated_server import AuthenticatedServer, authenticated_server
from tests.streams.cli.conftest import Command
from tests.streams.cli.test_serve import serving

BY = ("--by", "olga")
OPEN = ("--filter", "basic", "--epsilon", "1", "--access", "members", "--most-per-request", "1")


def open_with_limits(census: Command) -> Command:
    """Open `census` with two analysts of team blue; two tenths are used by ana."""
    for words in (
        ("dataset", "open", "census", *OPEN, *BY),
        ("member", "set", "census", "ana", "--role", "analyst", "--team", "blue", *BY),
        ("member", "set", "census", "ben", "--role", "analyst", "--team", "blue", *BY),
        ("limit", "set", "census", "--pace", "0.5", "--period", "P7D", *BY),
        ("limit", "set", "census", "--team", "blue", "--part", "0.6", "--reserved", "0.3", *BY),
        ("limit", "set", "census", "--each", "blue", "--part", "0.25", *BY),
        ("ask", "census", "pure:0.2", "--analyst", "ana"),
    ):
        done = census(*words)
        assert done.code == 0, done.err + done.out
    return census


@pytest.fixture
def census(accountant: Command) -> Command:
    return open_with_limits(accountant)


@pytest.fixture(params=["file", "server"])
def where(request: pytest.FixtureRequest, census: Command) -> Iterator[tuple[str, ...]]:
    """The option that names the ledger: none for the file, or a server that knows nobody."""
    if request.param == "file":
        yield ()
        return
    with serving(census) as (url, _):
        yield "--url", url


def test_the_limits_are_listed_with_what_is_used_and_left(
    census: Command, where: tuple[str, ...]
) -> None:
    done = census("limit", "list", "census", *where)
    assert (done.code, done.err) == (0, "")
    columns = done.out.splitlines()[1].split()
    assert columns == ["limit", "of", "may", "use", "used", "left", "pace", "reserved"]
    assert re.search(r"the whole .* 50 % of the budget every 7 days", done.out), done.out
    assert re.search(r"team blue +60 % of .* ε 0\.4 ", done.out), done.out
    assert re.search(r" until \d{4}-\d\d-\d\d \d\d:\d\d UTC ", done.out), done.out  # not broken
    # A default has no usage of its own, and nothing is left of it as if it were one limit.
    assert "For each analyst separately: `accountant mine" in done.out
    assert "ε 0.25" not in done.out
    narrow = census("limit", "list", "census", *where, COLUMNS="80")
    assert narrow.code == 0
    found = census("limit", "list", "census", "--json", *where).rows
    assert [(each["scope"], each.get("name")) for each in found] == [
        *(("dataset", None), ("team", "blue"), ("each", "blue")),
    ]
    pace, team, default = found
    assert pace["pace"]["left"] == {"epsilon": "0.3", "delta": "0"}
    assert (team["used"]["epsilon"], team["left"]["epsilon"]) == ("0.2", "0.4")
    assert team["reserved"]["left"] == {"epsilon": "0.1", "delta": "0"}
    assert "used" not in default


def test_without_limits_everyone_shares_the_budget(opened: Command) -> None:
    done = opened("limit", "list", "census")
    assert (done.code, done.out) == (
        *(0, "census has no limits that you may see: everyone who may ask shares the budget\n"),
    )
    assert opened("limit", "list", "census", "--json").out == ""
    assert "limit of" not in opened("dataset", "show", "census").out


@every_case("command", [("limit", "list", "sensus"), ("dataset", "show", "sensus")])
def test_an_unknown_dataset_is_named(
    census: Command, where: tuple[str, ...], command: tuple[str, ...]
) -> None:
    done = census(*command, *where)
    assert done.code == 1
    assert "dataset sensus was never opened; did you mean census?" in done.err


def test_a_dataset_is_shown_with_its_limits(census: Command, where: tuple[str, ...]) -> None:
    shown = census("dataset", "show", "census", *where)
    assert shown.code == 0, shown.err
    listed = census("limit", "list", "census", *where).out
    assert listed in shown.out
    assert "limit of" not in census("dataset", "show", "census", "--json", *where).out


def test_an_analyst_sees_their_own_remaining_budget(
    census: Command, where: tuple[str, ...]
) -> None:
    done = census("mine", "--analyst", "ana", *where)
    assert (done.code, done.err) == (0, "")
    reported = [" ".join(line.split()) for line in done.out.splitlines()]
    assert reported[0] == "census ana, team blue"
    by = "the limit of each analyst of team blue"
    assert reported[1] == f"ana may still use 5 % of the budget (ε 0.05), by {by}"
    for begin, end in (
        ("the whole dataset █", "spent left, and not reserved for others: ε 0.8"),
        ("team blue █", "used left: ε 0.4"),
        ("each analyst of team blue █", "used left: ε 0.05"),
    ):
        assert any(line.startswith(begin) and line.endswith(end) for line in reported), done.out
    period = r"% used left: ε 0.3, next period at \d{4}-\d\d-\d\d \d\d:\d\d UTC"
    assert any(re.search(period, line) for line in reported), done.out
    (budget,) = census("mine", "--json", *where, ACCOUNTANT_ANALYST="ben").rows
    assert (budget["analyst"], budget["team"]) == ("ben", "blue")
    assert [each["scope"] for each in budget["levels"]] == ["dataset", "team", "each"]
    assert budget["levels"][2]["left"] == {"epsilon": "0.25", "delta": "0"}
    # Of what is closed nobody may use anything.
    for words in (("open", "ended", *OPEN), ("close", "ended", "--yes")):
        assert census("dataset", *words, *BY, *where).code == 0
    (other,) = census("mine", "--analyst", "eve", "--json", *where).rows
    assert ("team" in other, other["left"]["epsilon"]) == (False, "0.7")


def test_mine_without_an_analyst_is_an_error(census: Command, where: tuple[str, ...]) -> None:
    done = census("mine", *where)
    assert (done.code, done.out) == (2, ""), done.out
    assert "analyst must be passed" in done.err


def test_a_dry_run_says_which_level_refuses_and_when_more_comes(
    census: Command, where: tuple[str, ...]
) -> None:
    before = census("log", "export").out if not where else ""
    done = census("ask", "census", "pure:0.3", "--analyst", "ana", "--dry-run", *where)
    assert done.code == 1
    assert done.out.startswith(
        "would be refused (exhausted); this was a dry run, nothing was recorded"
    )
    assert "The limit of each analyst of team blue has too little left" in done.out
    assert "team blue: ε 0.4 left" in done.out
    assert "each analyst of team blue: ε 0.05 left" in done.out
    assert "ε 0.3 left in this period" in done.out
    assert "It allows 25 % of the budget; 20 % is used." in done.out
    assert "fits  pure:0.05" in done.out
    dry = census("ask", "census", "pure:0.6", "--analyst", "ana", "--dry-run", "--json", *where)
    assert dry.json["level"] == {"scope": "dataset", "what": "pace"}
    if not where:
        assert census("log", "export").out == before
    refused = census("ask", "census", "pure:0.6", "--analyst", "ana", "--json", *where)
    assert (dry.code, refused.code) == (1, 1)
    for field in ("reason", "asked", "left", "fits", "level", "left_at"):
        assert dry.json[field] == refused.json[field]
    nobody = census("ask", "census", "pure:0.3", "--dry-run", "--json", *where)
    assert (nobody.code, "the request names no analyst" in nobody.err) == (2, True)


def test_fits_counts_the_requests_that_fit_every_limit_of_an_analyst(
    census: Command, where: tuple[str, ...]
) -> None:
    fits = ("fits", "--dataset", "census", "--claim", "pure:0.01", *where)
    assert census(*fits, "--json").json["fits"] == 30  # the pace of the whole
    for name, count in (("ana", 5), ("ben", 25)):
        done = census(*fits, "--analyst", name)
        assert (done.code, done.out.split()[0]) == (0, str(count)), done.out
        assert f"about {count - 1} more like this" in done.out
        granted = census(*fits, "--json", ACCOUNTANT_ANALYST=name)
        assert granted.json["fits"] in (count, 30)
    stranger = census(*fits, "--analyst", "eve")
    assert (stranger.code, stranger.out.split()[0]) == (1, "0")
    assert "would be refused (not_permitted)" in stranger.out
    none = census("fits", "--dataset", "census", "--claim", "pure:0.06", "--analyst", "ana", *where)
    assert none.code == 1
    assert none.out.splitlines()[0] == "0"
    assert "The limit of each analyst of team blue has too little left" in none.out
    reported = census(
        *("fits", "--dataset", "census", "--claim", "pure:0.06", "--analyst", "ana", "--json"),
        *where,
    )
    assert (reported.code, reported.json["fits"], reported.json["reason"]) == (1, 0, "exhausted")
    assert reported.json["largest"] == "pure:0.05"
    assert reported.json["level"] == {"scope": "each", "name": "blue", "what": "limit"}


def test_a_new_budget_has_no_analyst(accountant: Command) -> None:
    done = accountant(
        *("fits", "--filter", "basic", "--epsilon", "1", "--claim", "pure:0.1"),
        *("--analyst", "ana"),
    )
    assert (done.code, "--analyst needs --dataset" in done.err) == (2, True)


def test_a_grant_says_how_many_more_fit_at_every_level(
    census: Command, where: tuple[str, ...]
) -> None:
    done = census("ask", "census", "pure:0.02", "--analyst", "ana", *where)
    assert "then  about 1 more like this" in done.out
    last = census("ask", "census", "pure:0.02", "--analyst", "ana", *where)
    assert "then  no more like this" in last.out


@pytest.fixture
def signed_in(accountant: Command) -> Iterator[AuthenticatedServer]:
    with authenticated_server(accountant) as server:
        for name, words in (
            ("root", ("dataset", "open", "census", *OPEN, "--owner", "olga")),
            ("olga", ("member", "set", "census", "ana", "--role", "analyst", "--team", "blue")),
            ("olga", ("member", "set", "census", "ben", "--role", "analyst", "--team", "red")),
            ("olga", ("member", "set", "census", "aud", "--role", "auditor")),
            ("olga", ("limit", "set", "census", "--each", "blue", "--part", "0.25")),
            ("olga", ("limit", "set", "census", "--team", "red", "--part", "0.5")),
        ):
            server.done(name, *words, "--url", server.url)
        yield server


def test_a_server_shows_each_caller_their_own_budget(signed_in: AuthenticatedServer) -> None:
    at = ("--url", signed_in.url)
    for name, scopes in (
        ("olga", ["team", "each"]),
        ("aud", ["team", "each"]),
        ("root", ["team", "each"]),
        ("ana", ["each"]),
        ("ben", ["team"]),
    ):
        listed = signed_in.done(name, "limit", "list", "census", "--json", *at).rows
        assert [each["scope"] for each in listed] == scopes, name
        shown = signed_in.done(name, "dataset", "show", "census", *at).out
        assert ("each analyst of team blue" in shown) == ("each" in scopes), name
    assert signed_in.by("otto", "limit", "list", "census", *at).code == 1
    (budget,) = signed_in.done("ana", "mine", "--json", *at).rows
    assert (budget["analyst"], budget["levels"][0]["analyst"]) == ("ana", "ana")
    assert signed_in.by("ana", "mine", "--json", *at, ACCOUNTANT_ANALYST="ana").rows == [budget]
    otto = signed_in.done("otto", "mine", *at)
    assert "you may ask no dataset" in otto.out
    assert signed_in.by("ana", "mine", "--analyst", "ben", *at).code != 0
    (of_ben,) = signed_in.done("aud", "mine", "--analyst", "ben", "--json", *at).rows
    assert of_ben["analyst"] == "ben"


def test_mine_of_a_removed_or_expired_member_shows_no_amount(
    signed_in: AuthenticatedServer, tmp_path: Path
) -> None:
    at = ("--url", signed_in.url)
    assert "ben may still use" in signed_in.done("olga", "mine", "--analyst", "ben", *at).out
    assert "you may still use" in signed_in.done("ben", "mine", "--analyst", "ben", *at).out
    signed_in.done("olga", "member", "remove", "census", "ben", *at)
    for name, obstacle in (
        ("ben", "ben has no role on census and may ask nothing: ask an owner (o"),
        ("aud", "aud is auditor of census, not analyst, and may ask nothing: ask an owner (o"),
    ):
        shown = signed_in.done("olga", "mine", "--analyst", name, *at).out
        assert obstacle in shown
        assert "may still use" not in shown
        assert "left" not in shown
    until = ("--until", "2099-01-01")
    signed_in.done("olga", "member", "set", "census", "eng", "--role", "analyst", *until, *at)
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.touch(0o600)
    file.write_text(signed_in.tokens["olga"])
    with reader(signed_in.url, file) as ledger:
        budgets = ledger.budgets("eng")
        assert read_access(ledger, "eng", budgets, 0).obstacles == {}
        ended = read_access(ledger, "eng", budgets, from_iso("2099-01-01T00:00:00.000Z"))
    assert ended.obstacles["census"].startswith("the membership of eng in census ended at 2099")


def test_a_hidden_and_an_unknown_dataset_get_the_same_message(
    signed_in: AuthenticatedServer, tmp_path: Path
) -> None:
    file = tmp_path / "members.csv"
    file.write_text("member,roles,team,until\notto,owner,,\n")
    for words in (
        ("dataset", "show", "{}"),
        ("limit", "list", "{}"),
        ("member", "list", "{}"),
        ("member", "sync", "{}", str(file), "--dry-run"),
        ("usage", "{}"),
        ("why", "{}"),
        ("fits", "--claim", "pure:0.1", "--dataset", "{}"),
        ("ask", "{}", "pure:0.1", "--dry-run"),
    ):
        for name in ("census", "nowhere"):
            command = [name if word == "{}" else word for word in words]
            done = signed_in.by("otto", *command, "--url", signed_in.url)
            said = f"dataset {name} was never opened, or you have no role on it; you are signed in "
            assert (done.code, f"error: {said}as otto\n" in done.err) == (1, True), done.err
    by_root = signed_in.by("root", "why", "nowhere", "--url", signed_in.url)
    assert "error: dataset nowhere was never opened\n" in by_root.err


def test_a_request_without_token_and_name_asks_for_the_token_first(
    signed_in: AuthenticatedServer, accountant: Command
) -> None:
    words = ("ask", "census", "pure:0.1", "--url", signed_in.url)
    without = accountant(*words)
    named = accountant(*words, "--analyst", "ana")
    assert (without.code, without.err) == (4, named.err)
    assert "token" in without.err
    elsewhere = accountant("ask", "census", "pure:0.1", "--url", "sqlite:///missing.db")
    assert (elsewhere.code, "the request names no analyst" in elsewhere.err) == (2, True)


def test_mine_names_the_closed_dataset(signed_in: AuthenticatedServer) -> None:
    at = ("--url", signed_in.url)
    signed_in.done("olga", "dataset", "close", "census", "--yes", *at)
    closed = "may ask no open dataset: census is closed and grants nothing more"
    assert f"you {closed}" in signed_in.done("ana", "mine", *at).out
    assert f"ana {closed}" in signed_in.done("olga", "mine", "--analyst", "ana", *at).out
    for name in ("otto", "aud"):
        shown = signed_in.done(name, "mine", *at).out
        assert "you may ask no dataset: ask an owner (whoever runs the ledger can" in shown


def test_a_server_applies_the_limits_of_the_token_s_name(signed_in: AuthenticatedServer) -> None:
    at = ("--url", signed_in.url)
    fits = ("fits", "--dataset", "census", "--claim", "pure:0.05", "--json", *at)
    assert signed_in.done("ana", *fits).json["fits"] == 5
    assert signed_in.done("ben", *fits).json["fits"] == 10
    assert signed_in.done("olga", *fits, "--analyst", "ana").json["fits"] == 5
    dry = signed_in.by("ana", "ask", "census", "pure:0.3", "--dry-run", *at)
    assert "The limit of each analyst of team blue has too little left" in dry.out
    others = signed_in.by("ana", *fits, "--analyst", "ben")
    assert others.code == 1
    assert "what others have left" in others.err


def test_an_analyst_sees_their_own_refusals_by_reason(signed_in: AuthenticatedServer) -> None:
    at = ("--url", signed_in.url)
    why = ("why", "census", "--by")
    assert "ana has no refused request on census" in signed_in.done("ana", *why, "reason", *at).out
    assert signed_in.by("ana", "ask", "census", "pure:0.3", *at).code == 1
    signed_in.by("ben", "ask", "census", "pure:0.6", *at)
    shown = signed_in.done("ana", *why, "reason", *at).out
    assert re.search(r"exhausted .* 1 *$", shown, re.MULTILINE), shown
    assert "the limit of each analyst of a team" in shown
    assert "a team's limit" not in shown  # that is the refusal of another analyst
    assert "does not show ana what everybody asks" in signed_in.done("ana", *why, "week", *at).out


def test_a_refused_record_of_an_owner_is_not_called_a_request(census: Command) -> None:
    assert census("member", "remove", "census", "zoe", "--by", "ana").code == 1
    assert "refused" not in census("dataset", "show", "census", "--json").json["outcomes"]
    assert "counts owners' records" not in census("dataset", "list").out
