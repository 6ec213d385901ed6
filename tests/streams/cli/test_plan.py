from __future__ import annotations

import json
import os

from tests.every_case import every_case

WISH = ("--sensitivity", "1", "--error", "50", "--confidence", "0.95")
BUDGET = ("--epsilon", "1", "--delta", "1e-6")


def by_mechanism(done) -> dict[str, dict]:
    return {choice["mechanism"]: choice for choice in done.json["choices"]}


def test_the_error_becomes_claims_and_counts_that_fits_confirms(accountant):
    done = accountant("plan", *WISH, *BUDGET, "--json")
    assert done.code == 0, done.err
    for choice in done.json["choices"]:
        fits = accountant("fits", *BUDGET, "--claim", choice["claim"], "--json")
        assert choice["fits"] == fits.json["fits"] > 0
        assert choice["cost"]["rho"] == fits.json["cost"]["rho"]
    assert by_mechanism(done)["gaussian"]["fits"] > by_mechanism(done)["laplace"]["fits"]


def test_without_a_budget_the_claims_are_printed_alone(accountant):
    done = accountant("plan", *WISH)
    assert done.code == 0
    assert "laplace:scale=16.6904,sensitivity=1" in done.out
    assert "cost" not in done.out


def test_a_claim_can_be_copied_whole_from_a_terminal_of_80_columns(accountant):
    ours, theirs = os.openpty()
    wish = ("--error", "0.0213", "--proportion-of", "14241", *BUDGET)
    try:
        done = accountant("plan", *wish, out=os.ttyname(theirs), COLUMNS="80", NO_COLOR="1")
        shown = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.code == 0
    for choice in accountant("plan", *wish, "--json").json["choices"]:
        assert f"  {choice['claim']}\r\n" in shown
        assert f"  {choice['mechanism']}" in shown


def test_a_mechanism_that_the_filter_cannot_take_is_never_counted(accountant):
    done = accountant("plan", *WISH, "--epsilon", "1", "--filter", "basic", "--json")
    assert done.code == 0
    gaussian = by_mechanism(done)["gaussian"]
    assert (gaussian["accepted"], gaussian["fits"], gaussian["cost"]) == (
        False,
        0,
        {"epsilon": "inf"},
    )


def test_a_plan_for_a_dataset_uses_its_remaining_budget(opened):
    claim = "gaussian:sigma=25.5106,sensitivity=1"
    before = by_mechanism(opened("plan", *WISH, "--dataset", "census", "--json"))
    assert before["gaussian"]["fits"] == 31
    assert opened("ask", "census", f"30*{claim}", "--analyst", "ana").code == 0
    after = by_mechanism(opened("plan", *WISH, "--dataset", "census", "--json"))
    assert (after["gaussian"]["fits"], after["laplace"]["fits"]) == (1, 0)
    assert opened("ask", "census", f"{claim}", "--analyst", "ana").code == 0
    ended = opened("plan", *WISH, "--dataset", "census")
    assert ended.code == 1
    assert "within 50" in ended.out


def test_nothing_fits_a_closed_dataset(opened):
    assert opened("dataset", "close", "census", "--yes").code == 0
    done = opened("plan", *WISH, "--dataset", "census")
    assert done.code == 1
    assert "closed" in done.out


def test_what_fits_a_paused_dataset_fits_after_the_pause(opened):
    assert opened("dataset", "pause", "census").code == 0
    done = opened("plan", *WISH, "--dataset", "census")
    assert done.code == 0
    assert "The dataset is paused: it grants nothing until it is resumed." in done.out


def test_a_policy_s_file_is_a_budget_too(accountant):
    policy = {"filter": "zcdp", "rho": "0.01"}
    (accountant.directory / "policy.json").write_text(json.dumps(policy))
    done = accountant("plan", *WISH, "--policy", "policy.json", "--json")
    assert done.json["filter"] == "zcdp"
    assert by_mechanism(done)["gaussian"]["fits"] == 13


def test_filter_renyi_is_tried_at_the_best_order_of_each_mechanism(accountant):
    done = accountant("plan", *WISH, *BUDGET, "--filter", "renyi", "--json")
    assert done.code == 0, done.err
    found = by_mechanism(done)
    assert list(found["gaussian"]["cost"]) == ["renyi_22"]
    assert found["gaussian"]["fits"] == 31
    assert list(found["laplace"]["cost"]) != ["renyi_22"]


def test_plan_proposes_randomized_response_for_a_proportion(accountant):
    done = accountant("plan", "--error", "0.1", "--proportion-of", "1000", "--json")
    response = by_mechanism(done)["randomized_response"]
    assert response["claim"].startswith("randomized_response:epsilon=")


@every_case(
    ("arguments", "named"),
    [
        (("--error", "50"), "--sensitivity"),
        ((*WISH, "--confidence", "1"), "--confidence"),
        (("--error", "0", "--sensitivity", "1"), "--error"),
        (("--error", "2", "--proportion-of", "10"), "--error"),
        ((*WISH, "--epsilon", "1"), "--delta"),
        ((*WISH, "--epsilon", "1", "--filter", "magic"), "--filter"),
        ((*WISH, "--epsilon", "1", "--filter", "split"), "--policy"),
        ((*WISH, "--policy", "nowhere.json"), "nowhere.json"),
        (
            ("--error", "0.001", "--sensitivity", "1"),
            "--error is too small for sensitivity 1 at confidence 0.95, got 0.001",
        ),
        (("--error", "1e-30", "--sensitivity", "1"), "--error is too small for sensitivity 1"),
        (("--error", "1e9", "--sensitivity", "1e-9"), "--error is too large for sensitivity"),
        (
            ("--error", "0.00001", "--proportion-of", "10"),
            "--error is too small for sensitivity 1 at confidence 0.95 and 10 people, got 0.00001",
        ),
        ((*WISH, "--policy", "p.json", "--epsilon", "3"), "--policy excludes --epsilon:"),
        ((*WISH, "--policy", "p.json", "--filter", "zcdp_tight"), "--policy excludes --filter:"),
        ((*WISH, "--policy", "p.json", "--rho", "1", "--delta", "0"), "excludes --rho and --delta"),
        ((*WISH, "--dataset", "census", "--epsilon", "3"), "--dataset excludes --epsilon:"),
        ((*WISH, "--dataset", "census", "--policy", "p.json"), "--dataset excludes --policy:"),
    ],
)
def test_wrong_values_are_named(accountant, arguments, named):
    (accountant.directory / "p.json").write_text('{"filter": "basic", "epsilon": "1"}')
    done = accountant("plan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert named in done.err
