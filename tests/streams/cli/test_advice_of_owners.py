"""A refusal advises what is still possible: a ceiling, a smaller budget in force, a renewal."""

from __future__ import annotations

import json
import re

import pytest

from tests.streams.cli.conftest import Command

BUDGET = ("--epsilon", "1", "--filter", "basic", "--most-per-request", "1")


def opened(accountant: Command, name: str, *more: str) -> None:
    done = accountant("dataset", "open", name, *BUDGET, *more)
    assert done.code == 0, done.err


def output_of(accountant: Command, *words: str) -> str:
    """Return what a refused command prints, in one line."""
    done = accountant(*words)
    assert done.code == 1, done.out + done.err
    return " ".join(done.out.split())


def test_a_refusal_below_the_ceiling_says_how_the_budget_is_raised(
    accountant: Command,
) -> None:
    opened(accountant, "census", "--ceiling", "3")
    assert accountant("ask", "census", "pure:0.9", "--analyst", "ana").code == 0
    may_raise = (
        "Waiting will not help: an owner (owner) may raise the budget in force, ε 1, to at most 3: "
        "`accountant dataset set-budget census --epsilon 3 --by owner`."
    )
    for more in ((), ("--dry-run",)):
        assert may_raise in output_of(
            accountant, "ask", "census", "pure:0.5", "--analyst", "ana", *more
        )
        fixed = output_of(accountant, "ask", "census", "pure:2.5", "--analyst", "ana", *more)
        assert "a dataset's budget is fixed" in fixed  # the ceiling has no room for it
    assert accountant("dataset", "set-budget", "census", "--epsilon", "3").code == 0
    whole = output_of(accountant, "ask", "census", "pure:2.5", "--analyst", "ana")
    assert "a dataset's budget is fixed" in whole


def test_a_refused_policy_after_a_grant_advises_a_lower_budget_in_force(
    accountant: Command,
) -> None:
    opened(accountant, "census")
    assert accountant("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    policy = accountant.directory / "lower.json"
    policy.write_text(json.dumps({"filter": "basic", "epsilon": "0.5"}))
    words = output_of(accountant, "dataset", "amend", "census", "--lower-to", str(policy))
    assert "`accountant dataset set-budget census --epsilon AMOUNT --by owner`" in words
    assert "The guarantee stays." in words


def test_a_renewed_dataset_names_the_next_generation(accountant: Command) -> None:
    opened(accountant, "health::2026", "--lifetime", "3")
    assert accountant("dataset", "renew", "health::2026", "health::2027", "--yes").code == 0
    asked = output_of(accountant, "ask", "health::2026", "pure:0.1", "--analyst", "ana")
    assert "It was renewed as health::2027: ask there." in asked
    assert "under another name" not in asked
    paused = output_of(accountant, "dataset", "pause", "health::2026")
    assert "It was renewed as health::2027: change that one" in paused
    assert "open a dataset of another name" not in paused


def test_a_budget_above_the_ceiling_may_be_renewed_within_the_lifetime(accountant: Command) -> None:
    opened(accountant, "census", "--ceiling", "2", "--lifetime", "5")
    words = output_of(accountant, "dataset", "set-budget", "census", "--epsilon", "4")
    assert (
        "For more, renew it within its lifetime, of which epsilon 3, delta 0 remain (`accountant "
        "dataset renew census NEW --policy FILE --by owner`), or open a dataset of another name."
    ) in words


def test_a_lead_reads_which_rule_refused_and_about_which_person(accountant: Command) -> None:
    opened(accountant, "census", "--access", "members", "--approve-above", "0.3")
    lead, owner = ("--by", "lea"), ("--by", "owner")
    member, limit = ("member", "set", "census"), ("limit", "set", "census")
    for name, role in (("lea", "lead"), ("ana", "analyst"), ("ben", "analyst")):
        assert accountant(*member, name, "--role", role, "--team", "red", *owner).code == 0
    assert accountant(*member, "omar", "--role", "owner", *owner).code == 0
    assert accountant("ask", "census", "pure:0.4", "--analyst", "ana", "--wait", "0").code == 7
    assert accountant("member", "remove", "census", "ana", *lead).code == 0
    again = output_of(accountant, *member, "ana", "--role", "analyst", "--team", "red", *lead)
    assert "ana has a request that waits for an approval, an open reservation, or" in again
    assert "Ask an owner (omar or owner) to add ana" in again
    pause = ("member", "pause", "census", "--team", "red", "--reason", "audit", *owner)
    assert accountant(*pause).code == 0
    removal = output_of(accountant, "member", "remove", "census", "ben", *lead)
    assert "Team red is paused, and its lead removes nobody meanwhile" in removal
    bens = (*limit, "--analyst", "ben")
    share = output_of(accountant, *bens, "--reserved", "0.1", *lead)
    assert "Team red has no reserved share, so none can be reserved for ben." in share
    assert accountant(*limit, "--team", "red", "--part", "0.2", *owner).code == 0
    more = output_of(accountant, *bens, "--part", "0.3", *lead)
    assert "Team red has 20 % of the budget, and ben would get more. Set less." in more
    assert "accountant more ask census limit --team red" in more
    pace = ("--pace", "0.05", "--period", "P7D")
    assert accountant(*limit, "--each", "red", *pace, *owner).code == 0
    lifted = output_of(accountant, *bens, "--part", "0.1", *lead)
    assert "has a period limit, 5 % of the budget every 7 days." in lifted
    assert "such as 0.05 in P7D" in lifted


def test_a_budget_below_what_is_spent_is_asked_back_beside_a_share_that_is_used_up(
    accountant: Command,
) -> None:
    budget = ("--epsilon", "1", "--filter", "basic", "--most-per-request", "1")
    assert accountant("dataset", "open", "census", *budget).code == 0
    share = ("limit", "set", "census", "--analyst", "ana", "--reserved", "0.1")
    assert accountant(*share).code == 0
    assert accountant("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    setting = ("dataset", "set-budget", "census", "--epsilon", "0.05")
    asked = accountant(*setting)
    assert asked.code == 2
    assert "200 % of ε 0.05 is spent already" in asked.err
    assert accountant(*setting, "--yes").code == 0


@pytest.mark.parametrize(
    ("filter_", "least", "less"),
    [("basic", "0.25", "0.2499"), ("zcdp_tight", "", "")],
)
def test_a_budget_below_what_shares_reserve_is_refused_at_once_with_the_least(
    accountant: Command, filter_: str, least: str, less: str
) -> None:
    budget = ("--epsilon", "1", "--filter", filter_, "--most-per-request", "1", "--ceiling", "3")
    delta = () if filter_ == "basic" else ("--delta", "1e-6", "--beside", "none")
    assert accountant("dataset", "open", "census", *budget, *delta).code == 0
    assert accountant("ask", "census", "pure:0.1", "--analyst", "ana").code == 0
    share = ("limit", "set", "census", "--team", "red", "--reserved", "0.05")
    assert accountant(*share).code == 0
    setting = ("dataset", "set-budget", "census", "--epsilon")
    words = output_of(accountant, *setting, "0.05")
    found = re.search(r"Set at least epsilon ([0-9.]+)\. For less, lower or remove", words)
    assert found is not None, words
    assert found[1] == (least or found[1])
    assert "Nothing was lowered" in output_of(
        accountant, *setting, less or f"{float(found[1]) - 1e-3:.4f}"
    )
    assert accountant(*setting, found[1]).code == 0
