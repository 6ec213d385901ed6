"""How commands end that ask for an approval, and that answer a request."""

from __future__ import annotations

import pytest

from tests.streams.cli.conftest import Command

BY = ("--by", "olga")
ANA = ("--analyst", "ana")


@pytest.fixture
def census(accountant: Command) -> Command:
    opened = ("dataset", "open", "census", "--epsilon", "1", "--filter", "basic", *BY)
    wanted = (*opened, "--access", "anyone", "--approve-above", "0.05")
    assert accountant(*wanted).code == 0
    return accountant


def waiting(census: Command) -> list[str]:
    rows = census("approval", "list", "census", "--json").rows
    return [row["pending"].removeprefix("sha256:")[:12] for row in rows]


def test_each_answer_has_an_exit_code_of_its_own(census: Command) -> None:
    ask = ("ask", "census", "pure:0.08", *ANA)
    assert [census(*ask).code for _ in range(2)] == [7, 7]
    request_id = census("approval", "list", "census", "--json").rows[0]["request_id"]
    assert census(*ask, "--id", request_id).code == 7
    first, second = waiting(census)
    approved = census("approval", "approve", "census", first, *BY)
    assert (approved.code, "granted" in approved.out) == (0, True), approved.out
    assert census(*ask, "--id", request_id).code == 5
    again = census("approval", "approve", "census", second, *BY, "--id", "not-an-id")
    assert again.code == 2
    denied = census("approval", "deny", "census", second, *BY, "--reason", "too much")
    assert (denied.code, "denied" in denied.out) == (0, True), denied.out
    assert waiting(census) == []
    assert census("approval", "deny", "census", second, *BY).code == 1


def test_a_repeated_denial_is_done(census: Command) -> None:
    census("ask", "census", "pure:0.08", *ANA)
    deny = ("approval", "deny", "census", *waiting(census), *BY)
    own = census("id").out.strip()
    assert [census(*deny, "--id", own).code for _ in range(2)] == [0, 0]


def test_what_needs_an_approval_is_amended_by_options(census: Command) -> None:
    amend = ("dataset", "amend", "census", *BY)
    assert census(*amend, "--approve-within", "P2D").code != 0
    assert census(*amend, "--approve-above", "0.08", "--approve-within", "P2D").code == 0
    policy = census("dataset", "show", "census", "--json").json["policy"]
    assert (policy["approve_above"], policy["approve_within"]) == ("0.08", "P2D")
    assert census("ask", "census", "pure:0.08", *ANA).code == 0
