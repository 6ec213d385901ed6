"""A program and a command open the same policy, and each leaves what the other has opened."""

from __future__ import annotations

from typing import Final

from accountant.policy import Policy
from streams.client import Accountant
from tests.streams.cli.conftest import Command

TWO: Final = {"epsilon": "1", "delta": "1e-6"}
BASIC: Final = {"filter": "basic", **TWO}


def policy_of(ledger: Accountant, dataset: str) -> Policy:
    view = ledger.dataset(dataset)
    assert view is not None
    return view.policy


def test_a_program_and_a_command_open_the_same_policy(accountant: Command) -> None:
    url = f"sqlite:///{accountant.directory}/ledger.db"
    typed = ("--epsilon", "1", "--delta", "1e-6", "--by", "owner", "--url", url)
    assert accountant("dataset", "open", "typed", *typed).code == 0
    basic = ("dataset", "open", "basic", "--filter", "basic", *typed)
    assert accountant(*basic).code == 0
    with Accountant(url) as ledger:
        assert ledger.as_owner("owner").open("made", TWO).outcome == "opened"
        assert policy_of(ledger, "made") == policy_of(ledger, "typed")
        assert policy_of(ledger, "made").most_per_request == "0.1"
        assert policy_of(ledger, "made").beside == "basic"
        assert ledger.ask("made", "pure:0.9", analyst="ana").reason == "above_cap"
        for name, policy in (("typed", TWO), ("basic", BASIC)):
            assert ledger.as_owner("owner").open(name, policy).reason == "already_opened"
    assert accountant("dataset", "open", "made", *typed).code == 1
    other = accountant("dataset", "open", "made", "--epsilon", "2", *typed[2:])
    assert other.code == 1
    assert " ".join(other.err.split()) == (
        "dataset made was opened under another policy: epsilon: has 1, asked 2. A budget is never "
        "raised; nothing was changed. Use the open dataset with epsilon 1"
    )
    assert "another name" not in other.out
    assert "Nothing was changed. Use the open dataset (" in " ".join(other.out.split())


def test_a_misspelt_name_opens_a_second_budget_only_if_it_is_meant(opened: Command) -> None:
    policy = ("--epsilon", "1", "--delta", "1e-6")
    done = opened("dataset", "open", "Census", *policy)
    assert done.code == 2
    assert "dataset Census was not opened: census is open already" in " ".join(done.err.split())
    assert done.err.endswith("\ntry:   add --new to send the record as it is\n")
    assert "new=True" not in done.err
    assert opened("dataset", "open", "Census", "--new", *policy).code == 0
