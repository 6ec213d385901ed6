"""`accountant limit`: a budget is divided, and a refusal says by which limit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.every_case import every_case
from tests.streams.cli.conftest import Command

BY = ("--by", "olga")


@pytest.fixture
def census(accountant: Command) -> Command:
    """A file whose dataset `census` olga owns, with two analysts of one team."""
    opened = ("dataset", "open", "census", "--filter", "basic", "--epsilon", "1", *BY)
    assert accountant(*opened, "--access", "members", "--most-per-request", "1").code == 0
    for name in ("ana", "ben"):
        given = ("member", "set", "census", name, "--role", "analyst", "--team", "blue")
        assert accountant(*given, *BY).code == 0
    return accountant


def ask_for_record(census: Command, analyst: str, epsilon: str) -> dict[str, Any]:
    done = census("ask", "census", f"pure:{epsilon}", "--analyst", analyst, "--json")
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_a_team_limit_refuses_and_shows_what_would_fit(census: Command) -> None:
    done = census("limit", "set", "census", "--team", "blue", "--part", "0.3", *BY)
    assert done.code == 0, done.out + done.err
    assert "limit_set: team blue may use 30 % of the budget (version 1)" in done.out + done.err
    assert ask_for_record(census, "ana", "0.2")["outcome"] == "granted"
    refused = ask_for_record(census, "ben", "0.2")
    assert (refused["reason"], refused["fits"]) == ("exhausted", "pure:0.1")
    assert refused["level"] == {"scope": "team", "name": "blue", "what": "limit"}
    reported = census("ask", "census", "pure:0.2", "--analyst", "ben")
    assert reported.code == 1
    assert "The limit of team blue has too little left" in reported.out
    assert "It allows 30 % of the budget; 20 % is used." in reported.out
    assert "team blue: ε 0.1 left" in reported.out
    assert "δ 0" not in reported.out


def test_a_period_limit_and_a_reserved_share_refuse_with_their_own_message(census: Command) -> None:
    assert census("limit", "set", "census", "--each", "blue", "--pace", "0.1", *BY).code == 0
    assert census("limit", "set", "census", "--analyst", "zoe", "--reserved", "0.95", *BY).code == 0
    paced = census("ask", "census", "pure:0.11", "--analyst", "ana").out
    assert "The rest of the budget is reserved for others" in paced
    assert census("limit", "remove", "census", "--analyst", "zoe", *BY).code == 0
    paced = census("ask", "census", "pure:0.11", "--analyst", "ana").out
    assert (
        "The period limit of each analyst of team blue has too little left in this period" in paced
    )
    assert census("audit").code == 0


@every_case(
    ("words", "code", "said"),
    [
        ((), 2, "the limit is empty"),
        (("--team", "a", "--each", "b", "--part", "0.1"), 2, "use one of"),
        (("--team", "blue", "--part", "1.5"), 2, "at most 1"),
        (("--team", "blue", "--part", "0.1", "--by", "ana"), 1, "not_permitted"),
        (("--pace", "0.1", "--period", "daily"), 2, "period"),
        (("--part", "0.5"), 2, "add --team NAME, --analyst NAME or --each TEAM"),
        (("--team", "blue", "--part", "0"), 2, "`accountant member remove`"),
    ],
)
def test_an_empty_limit_and_a_missing_scope_are_errors(
    census: Command, words: tuple[str, ...], code: int, said: str
) -> None:
    done = census("limit", "set", "census", *BY, *words)
    assert (done.code, said in done.out + done.err) == (code, True), done.out + done.err


def test_a_limit_that_is_not_there_is_not_lifted(census: Command) -> None:
    done = census("limit", "remove", "census", "--team", "blue", *BY)
    assert done.code == 1
    assert "census has no limit for team blue" in done.out + done.err


def test_a_limit_after_grants_says_that_they_are_not_counted(census: Command) -> None:
    assert ask_for_record(census, "ana", "0.2")["outcome"] == "granted"
    note = "note: usage is counted from now on; what was used before is not counted\n"
    set_to = ("limit", "set", "census", "--analyst", "ana", "--part")
    assert census(*set_to, "0.3", *BY).err == note
    assert ask_for_record(census, "ana", "0.2")["outcome"] == "granted"
    assert census(*set_to, "0.25", *BY).err == ""


def test_a_changed_limit_prints_a_note_about_each_removed_part(census: Command) -> None:
    def noted(*words: str) -> str:
        done = census("limit", "set", "census", *words, *BY)
        assert done.code == 0, done.out + done.err
        return done.err

    assert "note" not in noted("--team", "blue", "--part", "0.5", "--reserved", "0.3")
    assert noted("--team", "blue", "--part", "0.4") == (
        "note: this removed the reserved 30 %; to keep both: --part 0.4 --reserved 0.3\n"
    )
    assert noted("--team", "blue", "--pace", "0.05", "--period", "P7D") == (
        "note: this removed the limit of 40 %; to keep both: --part 0.4 --pace 0.05 --period P7D\n"
    )
    assert noted("--team", "blue", "--reserved", "0.2") == (
        "note: this removed the period limit of 5 % every 7 days; to keep both: --pace 0.05 "
        "--period P7D --reserved 0.2\n"
    )
    noted("--team", "red", "--epsilon", "0.5", "--delta", "0", "--filter", "basic")
    assert noted("--team", "red", "--pace", "0.01").splitlines()[0] == (
        "note: this removed the separate budget; to keep both: --filter basic "
        "--epsilon 0.5 --delta 0 --pace 0.01 --period P1D"
    )
    assert "existing teams: blue; did you mean blue?" in noted("--team", "bluw", "--part", "0.4")
    assert "note" not in noted("--each", "blue", "--pace", "0.1")
    assert "the default of team blue no longer applies" in noted(
        "--analyst", "ana", "--part", "0.2"
    )
    assert "zoe is not a member yet" in noted("--analyst", "zoe", "--part", "0.2")


def test_a_new_team_name_gets_a_note_with_a_suggestion(accountant: Command) -> None:
    def added(name: str, *words: str) -> str:
        done = accountant("member", "set", "wages", name, "--role", "analyst", *words, *BY)
        assert done.code == 0, done.out + done.err
        return done.err

    opened = ("dataset", "open", "wages", "--filter", "basic", "--epsilon", "1", *BY)
    assert accountant(*opened, "--access", "members").code == 0
    assert added("ana", "--team", "south") == ""  # the first team of the dataset
    note = "note: no limit and no other member of wages names team"
    assert added("ben", "--team", "suoth", "--new") == f"{note} suoth; did you mean south?\n"
    assert added("ben", "--team", "finance") == f"{note} finance\n"
    assert added("ben", "--team", "south") == ""
    assert added("ben") == ""
    assert accountant("limit", "set", "wages", "--each", "west", "--part", "0.1", *BY).code == 0
    assert added("zoe", "--team", "west") == ""
    assert added("zoe", "--team", "wesx", "--json") == ""


def test_a_misspelt_team_in_a_member_file_prints_a_note(opened: Command) -> None:
    names = {"ana": "south", "ben": "south", "zoe": "suoth"}
    rows = [f"{name},analyst,{team}" for name, team in names.items()]
    file = opened.directory / "members.csv"
    file.write_text("\n".join(("member,roles,team", "owner,owner,", *rows, "")))
    for words in (("--dry-run",), ()):
        done = opened("member", "sync", "census", "members.csv", "--new", *words)
        assert done.code == 0, done.out + done.err
        note = "note: no limit and no other member of census names team suoth; did you mean south?"
        assert note in done.err
        assert done.err.count("note:") == 1
    assert "note" not in opened("member", "sync", "census", "members.csv").err
    # A member who changes, but stays in the team, is no news.
    file.write_text(file.read_text().replace("zoe,analyst", "zoe,analyst engine"))
    done = opened("member", "sync", "census", "members.csv")
    assert (done.code, "note" in done.err) == (0, False), done.out + done.err


def test_a_refused_share_names_what_can_be_reserved(census: Command) -> None:
    def refusal(*words: str) -> str:
        done = census(*words, *BY)
        assert done.code == 1, done.out + done.err
        return " ".join(done.out.split())

    assert census("limit", "set", "census", "--team", "blue", "--reserved", "0.6", *BY).code == 0
    asked = ("limit", "set", "census", "--team", "red", "--reserved", "0.5")
    assert "50 % of the budget cannot be reserved for team red: at most 40 % can be" in refusal(
        *asked
    )
    misspelt = refusal("limit", "remove", "census", "--team", "bleu")
    assert "census has no limit for team bleu" in misspelt
    assert "did you mean blue?" in misspelt


def test_a_share_beside_basic_composition_is_refused_by_name(accountant: Command) -> None:
    opened = accountant("dataset", "open", "wages", "--epsilon", "1", "--delta", "1e-6", *BY)
    assert opened.code == 0
    done = accountant("limit", "set", "wages", "--team", "south", "--reserved", "0.4", *BY)
    assert done.code == 1
    assert "wages was opened with `beside: basic`, and cannot reserve a share of 40 %" in done.out


def test_a_refusal_says_when_more_comes(census: Command) -> None:
    assert census("limit", "set", "census", "--team", "blue", "--part", "0.1", *BY).code == 0
    refused = census("ask", "census", "pure:0.2", "--analyst", "ana").out
    assert "raise the limit" in refused
    asks = "ask   accountant more ask census limit"
    assert asks in refused
    dry = census("ask", "census", "pure:0.2", "--analyst", "ana", "--dry-run").out
    assert asks in dry


@every_case(
    ("words", "hint"),
    [
        (("--part", "35 %"), "write 0.35"),
        (("--part", "35"), "write 0.35 for 35 %"),
        (("--pace", "0,05"), "write 0.05"),
        (("--reserved", "10%"), "write 0.1"),
        (("--pace", "0.05", "--period", "7d"), "write P7D"),
    ],
)
def test_another_form_of_a_part_is_refused_with_the_line_to_write(
    census: Command, words: tuple[str, ...], hint: str
) -> None:
    done = census("limit", "set", "census", "--team", "blue", *words, *BY)
    assert done.code == 2
    assert done.err.rstrip().endswith(f": {hint}")
