"""`accountant dataset open --for` proposes a policy, and opens nothing."""

from __future__ import annotations

import shlex

import pytest

BUDGET = ("--epsilon", "8", "--delta", "1e-6")
TRAINING = "96*subsampled_gaussian:sigma=1.1,sensitivity=1,rate=0.03125"


def test_the_printed_command_opens_a_dataset_that_grants_the_claim(accountant):
    proposal = accountant("dataset", "open", "train", *BUDGET, "--for", TRAINING)
    assert proposal.code == 0, proposal.err
    assert "filter renyi at order 4. The budget admits 15 of them" in proposal.out
    assert "each uses 6.6 % of it" in proposal.out
    assert not list(accountant.directory.iterdir())
    command = shlex.split(proposal.out.strip().splitlines()[-1])
    assert command[0] == "accountant"
    assert accountant(*command[1:]).code == 0
    granted = accountant("ask", "train", TRAINING, "--analyst", "ana")
    assert granted.code == 0, granted.out


def test_the_json_of_a_proposal_has_the_command_and_the_policy(accountant):
    found = accountant("dataset", "open", "train", *BUDGET, "--for", TRAINING, "--json").json
    assert found["policy"]["filter"] == "renyi"
    assert found["expected_fits"] == 15
    assert "--order 4" in found["command"]
    assert found["preview"] is True


def test_a_proposal_counts_what_fits_below_the_ceiling(accountant):
    budget = ("--epsilon", "2", "--delta", "1e-6", "--ceiling", "3")
    asked = ("dataset", "open", "x", *budget, "--for", "laplace:scale=100,sensitivity=1")
    assert accountant(*asked, "--json").json["expected_fits"] == 2009
    assert "The budget admits 2,009 of them" in accountant(*asked).out


def test_typed_options_stay_in_a_proposal(accountant):
    typed = ("--filter", "renyi_mixture", "--beside", "none", "--most-per-request", "0.5")
    found = accountant("dataset", "open", "x", *BUDGET, *typed, "--for", "pure:0.1", "--json").json
    assert found["policy"]["filter"] == "renyi_mixture"
    assert found["policy"]["most_per_request"] == "0.5"
    assert "beside" not in found["policy"]


def test_a_request_larger_than_the_usual_cap_gets_a_larger_cap(accountant):
    small = ("--epsilon", "1", "--delta", "1e-6")
    found = accountant("dataset", "open", "x", *small, "--for", "pure:0.45", "--json").json
    assert found["policy"]["most_per_request"] == "0.5"
    for rounded, cap in ("0.40000000000000001", "0.4"), ("0.400000001", "0.5"):
        found = accountant(
            "dataset", "open", "x", *small, "--for", f"pure:{rounded}", "--json"
        ).json
        assert found["policy"]["most_per_request"] == cap


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--for", "pure:100"), "no filter grants pure:100 under this budget"),
        (("--filter", "basic", "--for", TRAINING), "filter basic does not grant 96*"),
    ],
)
def test_a_claim_that_nothing_grants_is_named(accountant, options, words):
    done = accountant("dataset", "open", "x", *BUDGET, *options)
    assert done.code == 1
    assert words in done.err
    assert "accountant fits --filter all" in done.err


def test_a_proposal_without_a_budget_says_what_to_add(accountant):
    done = accountant("dataset", "open", "x", "--for", "pure:0.1")
    assert done.code == 2
    assert "--for needs the budget" in done.err
    assert "add --epsilon" in done.err


def test_a_policy_file_excludes_a_proposal(accountant):
    (accountant.directory / "policy.json").write_text('{"epsilon": "1", "delta": "1e-6"}')
    done = accountant("dataset", "open", "x", "--policy", "policy.json", "--for", "pure:0.1")
    assert done.code == 2
    assert "--policy excludes --for" in done.err


def test_the_order_of_a_renyi_filter_has_an_option(accountant):
    options = ("--filter", "renyi", "--order", "22", *BUDGET)
    assert accountant("dataset", "open", "x", *options, "--json").json["policy"]["order"] == "22"
    options = ("--filter", "renyi_mixture", "--orders", "16,22", *BUDGET)
    found = accountant("dataset", "open", "y", *options, "--json").json
    assert found["policy"]["orders"] == ["16", "22"]


def test_a_refusal_names_the_filter_that_would_grant(accountant):
    accountant("dataset", "open", "x", *BUDGET)
    for options in ((), ("--dry-run",)):
        done = accountant("ask", "x", TRAINING, "--analyst", "ana", *options)
        assert done.code == 1
        assert "filter renyi at order 4 would take it for 6.6 % of the budget" in done.out


def test_a_preview_asks_what_the_opening_fixes_for_ever(accountant):
    seen = accountant("dataset", "open", "x", *BUDGET, "--preview").out
    assert seen.index("fixed for ever") < seen.index("guarantee")
    assert "Reserve a share of the budget for a team or an analyst?" in seen
    assert "--beside none" in seen
    arguments = ("dataset", "open", "x", *BUDGET, "--beside", "none", "--preview", "--json")
    answers = {each["question"]: each for each in accountant(*arguments).json["one_way"]}
    assert answers["Reserve a share of the budget for a team or an analyst?"]["allowed"] is True
    assert answers["Give teams a part of the budget, or so much a week?"]["allowed"] is True
    residue = (*arguments[:3], *BUDGET, "--filter", "gdp_residue", "--preview", "--json")
    answers = {each["question"]: each for each in accountant(*residue).json["one_way"]}
    shares = answers["Reserve a share of the budget for a team or an analyst?"]
    assert (shares["allowed"], shares["change"]) == (False, "--filter zcdp_tight --beside none")
    assert answers["Give teams a part of the budget, or so much a week?"]["allowed"] is False


def test_a_proposal_keeps_what_is_fixed_beside_the_policy(accountant):
    beside = ("--ceiling", "2", "--lifetime", "4", "--lifetime-delta", "1e-5")
    owners = ("--owner", "olga", "--owner", "otto")
    budget = ("--epsilon", "1", "--delta", "1e-6")
    opening = ("dataset", "open", "plans", "--for", "pure:0.01", *budget)
    done = accountant(*opening, *beside, *owners)
    assert done.code == 0, done.err
    assert "in force ε = 1 of 2, the ceiling" in " ".join(done.out.split())
    assert "the dataset will guarantee epsilon 4, delta 1e-5 for all generations" in done.err
    assert (
        accountant(*opening, *beside, *owners, "--json")
        .json["command"]
        .endswith(" ".join((*beside, *owners)))
    )
