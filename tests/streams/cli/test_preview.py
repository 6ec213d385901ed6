from __future__ import annotations

import json


def test_a_preview_opens_nothing(accountant):
    done = accountant("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6", "--preview")
    assert done.code == 0, done.err
    assert "nothing was opened" in done.out
    assert "487" in done.out
    assert not list(accountant.directory.iterdir())


def test_a_previewed_policy_equals_the_opened_one(accountant):
    policy = {"filter": "fully_adaptive", "epsilon": "2", "delta": "2e-6"}
    policy["delta_for_claims"] = "1e-6"
    (accountant.directory / "policy.json").write_text(json.dumps(policy))
    arguments = ("dataset", "open", "census", "--policy", "policy.json", "--json")
    seen = accountant(*arguments, "--preview").json
    opened = accountant(*arguments).json
    assert opened["outcome"] == "opened"
    assert seen["policy"].items() >= opened["policy"].items()
    assert seen["budget"] == opened["budget"]
    assert seen["guarantee"] == {"epsilon": "2", "delta": "0.000002"}
    for claim, count in seen["fits"].items():
        once = accountant("ask", "census", claim, "--analyst", "ana", "--json").json
        assert (once["outcome"] == "granted") == (count > 0), claim


def test_claims_that_the_filter_cannot_take_are_named(accountant):
    arguments = ("dataset", "open", "x", "--epsilon", "1", "--filter", "basic", "--preview")
    seen = accountant(*arguments, "--json").json
    assert "gaussian:sigma=20,sensitivity=1" in seen["not_taken"]
    assert seen["fits"]["pure:0.1"] == 10
    assert seen["thresholds"]["0.5"] == "0.5"


def test_a_policy_that_would_be_refused_is_refused(accountant):
    done = accountant("dataset", "open", "x", "--epsilon", "1", "--preview")
    assert done.code == 2
    assert "--delta" in done.err


def test_a_preview_shows_the_cap_of_one_request(accountant):
    arguments = ("dataset", "open", "x", "--epsilon", "1", "--filter", "basic")
    assert "may take 10 % of the budget" in accountant(*arguments, "--preview").out
    assert accountant(*arguments).code == 0
    assert "may take 10 % of the budget" in accountant("dataset", "show", "x").out
    accountant("dataset", "amend", "x", "--most-per-request", "1")
    assert "may take all that is left" in accountant("dataset", "show", "x").out
    (accountant.directory / "none.json").write_text('{"filter": "basic", "epsilon": "1"}')
    uncapped = ("dataset", "open", "y", "--policy", "none.json", "--preview")
    assert "may take all that is left" in accountant(*uncapped).out
