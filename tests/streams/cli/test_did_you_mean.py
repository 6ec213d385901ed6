"""Commands suggest a known word for an unknown one."""

from __future__ import annotations

import json

from tests.every_case import every_case


@every_case(
    ("arguments", "meant"),
    [
        (["dataset", "opne", "x"], "open"),
        (["ask", "d", "gausian:1,1", "--analyst", "ann"], "gaussian"),
        (["ask", "d", "pure:1", "--analyst", "ann", "--neighbours", "add-remove"], "add_remove"),
        (["ask", "d", "pure:1", "--anlyst", "ann"], "--analyst"),
        (["dataset", "open", "d", "--epsilon", "1", "--filter", "zcdp-tight"], "zcdp_tight"),
        (["dataset", "open", "d", "--epsilon", "1", "--neighbours", "replaced"], "replace"),
        (["fits", "--claim", "pure:1", "--epsilon", "1", "--filter", "basik"], "basic"),
    ],
)
def test_an_unknown_word_gets_a_suggestion(accountant, arguments, meant):
    done = accountant(*arguments)
    assert done.code == 2
    assert meant in done.err.rpartition("ossible options" if meant[0] == "-" else "id you mean")[2]


@every_case(
    ("arguments", "words"),
    [
        (["ask", "pure:0.01", "survey"], "not a claim, got pure:0.01: put the dataset first"),
        (["ask", "survey", "pure:1", "--epsilon", "1"], "try:   leave --epsilon out"),
        (["ask", "survey", "pure:1", "--relative-error", "1"], "leave --relative-error out"),
    ],
)
def test_a_claim_in_the_wrong_place_is_named(accountant, arguments, words):
    done = accountant(*arguments, "--analyst", "ann")
    assert done.code == 2
    assert words in done.err


def test_a_suggestion_comes_before_a_list_of_all_words(accountant):
    for arguments in (
        ["ask", "d", "puree:0.1", "--analyst", "ann"],
        ["dataset", "open", "d", "--epsilon", "1", "--filter", "basik"],
    ):
        before, found, after = accountant(*arguments).err.partition("did you mean ")
        assert found
        assert "must be" not in before
        assert "must be" in after


def test_an_unknown_field_of_a_policy_file_gets_a_suggestion(accountant, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"epsilonn": "1"}))
    done = accountant("dataset", "open", "d", "--policy", str(path))
    assert done.code == 2
    assert "did you mean epsilon?" in done.err


@every_case(
    "command",
    [
        ("ask", "sensus", "pure:0.1", "--analyst", "ana"),
        ("ask", "sensus", "pure:0.1", "--analyst", "ana", "--dry-run"),
        ("dataset", "show", "sensus"),
        ("dataset", "amend", "sensus", "--horizon", "P1D"),
        ("dataset", "close", "sensus", "--yes"),
        ("member", "set", "sensus", "ana", "--role", "analyst"),
        ("member", "remove", "sensus", "ana"),
        ("member", "list", "sensus"),
        ("member", "sync", "sensus", "members.csv"),
        ("limit", "set", "sensus", "--team", "blue", "--part", "0.1"),
        ("limit", "remove", "sensus", "--team", "blue"),
        ("limit", "list", "sensus"),
        ("usage", "sensus"),
        ("usage", "sensus", "--url", "log.jsonl"),
        ("why", "sensus"),
        ("fits", "--claim", "pure:0.1", "--dataset", "sensus"),
        ("plan", "--error", "1", "--sensitivity", "1", "--dataset", "sensus"),
    ],
)
def test_a_misspelt_dataset_gets_a_suggestion_from_every_command(opened, command):
    (opened.directory / "members.csv").write_text("member,roles\nolga,owner\n")
    (opened.directory / "log.jsonl").write_text(opened("log", "export").out)
    done = opened(*command)
    assert done.code == 1, done.out + done.err
    assert "id you mean census?" in done.out + done.err
