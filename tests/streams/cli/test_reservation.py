"""`accountant reservation`, and what other commands say of what reservations hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from streams import Accountant
from tests.streams.cli.conftest import Command

BY = ("--by", "olga")
ANA = ("--analyst", "ana")
SESSION = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}


@pytest.fixture
def census(accountant: Command) -> Command:
    opened = ("dataset", "open", "census", "--filter", "zcdp", "--rho", "0.01", *BY)
    assert accountant(*opened, "--access", "anyone", "--most-per-request", "1").code == 0
    return accountant


Reserve = Callable[..., dict[str, Any]]


@pytest.fixture
def reserve(census: Command) -> Reserve:
    """Return a function that reserves 0.00125 of 0.01, and returns the reservation as listed."""

    def reserved(analyst: str = "ana") -> dict[str, Any]:
        with Accountant(f"sqlite:///{census.directory}/accountant.db") as ledger:
            body = {"version": 1, "type": "request", "request_id": ledger.new_request_id()}
            body |= {"analyst": analyst, "dataset": "census", "claim": SESSION}
            body |= {"unit": "person", "neighbours": "add_remove", "reserve": {"until": "PT1H"}}
            assert ledger.submit(json.dumps(body).encode()).outcome == "reserved"
        found: dict[str, Any] = census("reservation", "list", "census", "--json").rows[-1]
        return found

    return reserved


def digits(reservation: dict[str, Any]) -> str:
    return str(reservation["grant"]).removeprefix("sha256:")[:12]


def test_a_session_begins_and_settles_at_the_level_that_it_showed(
    census: Command, reserve: Reserve
) -> None:
    name = digits(reserve())
    assert name in census("reservation", "list", "census").out
    early = census("reservation", "settle", "census", name, *ANA)
    assert (early.code, "not_begun" in early.out) == (1, True)
    begun = census("reservation", "begin", "census", name, *ANA)
    assert begun.code == 0, begun.err
    assert "begun: the mechanism may run now; settle before" in begun.out
    settled = census("reservation", "settle", "census", name, "--shown", "2500", *ANA)
    assert settled.code == 0, settled.err
    assert "settled: the reservation of ana is settled: ρ 0.00105 is left again" in settled.out
    assert "census has no open reservations" in census("reservation", "list", "census").out


def test_a_begin_that_is_sent_again_does_not_run_the_mechanism_again(
    census: Command, reserve: Reserve
) -> None:
    begin = ("reservation", "begin", "census", str(reserve()["grant"]), *ANA)
    again = ("--id", str(census(*begin, "--json").json["request"]["request_id"]))
    assert census(*begin, *again).code == 5


def test_an_owner_voids_what_has_not_begun(census: Command, reserve: Reserve) -> None:
    grant = str(reserve()["grant"])
    refused = census("reservation", "void", "census", grant, "--analyst", "zoe")
    assert (refused.code, "not_permitted" in refused.out) == (1, True)
    voided = census("reservation", "void", "census", grant, "--analyst", "olga")
    assert voided.code == 0, voided.err
    assert "voided: the reservation of ana is voided: ρ 0.00125 is left again" in voided.out
    gone = census("reservation", "void", "census", digits({"grant": grant}), *ANA)
    assert (gone.code, gone.out) == (1, "")
    assert "`accountant reservation list census` lists the open reservations" in gone.err


def test_an_owner_voids_all_that_a_holder_has_not_begun(census: Command, reserve: Reserve) -> None:
    begun, *_, other = [reserve(name) for name in ("ana", "ana", "ana", "ben")]
    assert census("reservation", "begin", "census", begun["grant"], *ANA).code == 0
    void = ("reservation", "void", "census", "--holder", "ana")
    nobody = census(*void)
    assert (nobody.code, "add --analyst NAME" in nobody.err) == (2, True)
    refused = census(*void, "--analyst", "zoe")
    assert (refused.code, refused.out.count("not_permitted")) == (1, 2)
    done = census(*void, "--analyst", "olga")
    assert done.code == 0, done.err
    assert "2 reservations of ana are voided; 1 have begun, and can only be settled" in done.out
    left = {row["grant"] for row in census("reservation", "list", "census", "--json").rows}
    assert left == {begun["grant"], other["grant"]}
    assert "0 reservations of ana are voided" in census(*void, "--analyst", "olga").out
    assert census("reservation", "void", "census", "--holder", "ben", "--analyst", "ben").code == 0
    for wrong in ((), ("--holder", "ana", begun["grant"]), ("--holder", "ana", "--via", "eng")):
        assert census("reservation", "void", "census", *wrong, "--analyst", "olga").code == 2


def test_a_holder_may_have_so_many_as_the_owner_says(
    accountant: Command, census: Command, reserve: Reserve
) -> None:
    def policy() -> dict[str, Any]:
        found: dict[str, Any] = census("dataset", "show", "census", "--json").json["policy"]
        return found

    assert policy()["open_per_holder"] == 1_000
    amend = ("dataset", "amend", "census", *BY, "--open-per-holder")
    assert census(*amend, "1").code == 0
    grant = str(reserve()["grant"])
    assert "may have 1 open reservation" in census("dataset", "show", "census").out
    with pytest.raises(AssertionError):
        reserve()
    reserve("ben")
    assert census("reservation", "void", "census", grant, *ANA).code == 0
    reserve()
    assert census(*amend, "none").code == 0
    assert "open_per_holder" not in policy()
    reserve()
    for wrong in ("0", "10001", "1.5", "many", "-1"):
        done = census(*amend, wrong)
        assert (done.code, "--open-per-holder must be a number from 1" in done.err) == (2, True)
    opened = ("dataset", "open", "other-one", "--filter", "zcdp", "--rho", "1", *BY)
    assert accountant(*opened, "--open-per-holder", "none").code == 0
    assert "open_per_holder" not in census("dataset", "show", "other-one", "--json").json["policy"]


def test_an_owner_resolves_what_was_released_beyond_the_maximum(
    census: Command, reserve: Reserve
) -> None:
    grant = str(reserve()["grant"])
    assert census("reservation", "begin", "census", grant, *ANA).code == 0
    beyond = census("reservation", "settle", "census", grant, "--shown", "399", *ANA)
    assert (beyond.code, "beyond_maximum" in beyond.out) == (1, True)
    listing = census("reservation", "list", "census").out
    assert "it showed 399" in " ".join(listing.split())
    shown = census("dataset", "show", "census", "--like", "zcdp:0.001").out
    assert "no zcdp:0.001 while the dataset is suspended" in shown
    nothing = census("dataset", "resolve", "census", grant, *BY)
    assert (nothing.code, "add --claim CLAIM" in nothing.err) == (2, True)
    resolve = ("dataset", "resolve", "census", digits({"grant": grant}))
    done = census(*resolve, "--mistaken", "a typing error", *BY)
    assert (done.code, "resolved: the reservation of ana is resolved" in done.out) == (0, True)
    assert "about" in census("dataset", "show", "census", "--like", "zcdp:0.001").out


@pytest.mark.parametrize(
    ("grant", "code", "said"),
    [
        ("zz", 2, "or its first digits, at least six, got zz"),
        ("sha256:c99cf", 2, "or its first digits, at least six, got sha256:c99cf"),
        ("000000", 1, "0 open reservations of census that you may see begin with sha256:000000"),
    ],
)
def test_a_grant_that_names_nothing_says_where_to_look(
    census: Command, grant: str, code: int, said: str
) -> None:
    done = census("reservation", "void", "census", grant, *ANA)
    assert (done.code, said in done.err) == (code, True)
    assert "`accountant reservation list census`" in done.err


def test_a_step_needs_a_name(census: Command) -> None:
    done = census("reservation", "void", "census", "sha256:" + "0" * 64)
    assert (done.code, "add --analyst NAME" in done.err) == (2, True)


def test_spent_and_reserved_are_apart_everywhere(census: Command, reserve: Reserve) -> None:
    assert census("limit", "set", "census", "--analyst", "ana", "--part", "0.5", *BY).code == 0
    assert census("ask", "census", "zcdp:0.001", *ANA).code == 0
    reserve()
    reserve("ben")
    for command in (("dataset", "list"), ("dataset", "show", "census"), ("why", "census")):
        assert "10 %, 25 % reserved" in census(*command).out, command
    shown = census("dataset", "show", "census").out
    assert "25 % by 2 open reservations" in shown
    assert "0.001 of 0.01 spent, 0.0025 reserved, 0.0065 left" in shown
    assert "65 % of the budget" in shown
    assert "(ρ 0.001 and 0.0025 of 0.01)" in census("why", "census").out
    own = census("mine", *ANA).out
    assert "10 % spent, 25 % reserved" in own  # of the dataset
    assert "20 % used, 25 % reserved" in own  # of the limit, which is half of it
    assert "left: ρ 0.00275" in own
    assert "20 %, 25 % reserved" in census("limit", "list", "census").out


def test_thresholds_that_a_reservation_has_reached_stay_reached(
    census: Command, reserve: Reserve
) -> None:
    assert census("ask", "census", "zcdp:0.004", *ANA).code == 0
    grant = str(reserve()["grant"])
    assert "alerts reached     50 %" in census("dataset", "show", "census").out
    assert census("reservation", "void", "census", grant, *ANA).code == 0
    after = census("dataset", "show", "census").out
    assert ("  40 %\n" in after or " 40 %" in after, "alerts reached     50 %" in after) == (
        True,
        True,
    )


def test_fits_counts_reservations(census: Command, reserve: Reserve) -> None:
    claim = ("--claim", "brownian:variance=400,sensitivity=1,first=10000", "--dataset", "census")
    assert "8" in census("fits", *claim, "--reserve", "PT1H").out
    wrong = census("fits", *claim, "--reserve", "P31D")
    assert (wrong.code, "--reserve must be" in wrong.err) == (2, True)
    assert "--reserve needs --dataset" in census("fits", *claim[:2], "--reserve", "PT1H").err
