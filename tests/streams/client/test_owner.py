"""Owners and administrators decide about datasets; each call sends one record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from accountant.records import Decision
from accountant.records.kinds import KINDS
from accountant.records.outcomes import Outcome, Reason
from streams.client import (
    Accountant,
    Administrator,
    AsyncAccountant,
    NotPermitted,
    Owner,
    RequestInvalid,
)
from tests.every_case import every_case
from tests.examples_of_records import CALLS, RHO, Example
from tests.streams.auth.roles_server import RolesServer
from tests.streams.clock import NOON, TestClock
from tests.streams.gateway.records import new_id

FOLLOWING: Final = {kind.name for kind in KINDS if "follows" in kind.body.__struct_fields__}
"""The records that say which decision their owner has seen; an answer names a request instead."""
OF_ADMINISTRATORS: Final = {kind.name for kind in KINDS if kind.allows_administrator}


def calls(*, administrators: bool = False) -> list[Example]:
    """Return the examples of the calls that follow an opening; or those of administrators."""
    kinds = OF_ADMINISTRATORS if administrators else {kind.name for kind in KINDS} - {"open"}
    return [example for example in CALLS.values() if example.kind in kinds]


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(f"sqlite:///{file}", clock=clock) as client:
        client.as_owner("olga").open("census", RHO, as_given=True)
        yield client


def sent(decision: Decision) -> str:
    return bytes(decision.request).decode()


def record(kind: str, request_id: str, by: str, fields: dict[str, Any]) -> str:
    head = {"version": 1, "type": kind, "request_id": request_id, "dataset": "census", "by": by}
    return json.dumps({**head, **fields}, separators=(",", ":"))


def test_an_opening_sends_who_and_why(ledger: Accountant, clock: TestClock) -> None:
    mine = new_id(clock)
    example = CALLS["open"]
    again = example.send(ledger.as_owner("olga", reason="why", request_id=mine), "census")
    assert sent(again) == record("open", mine, "olga", example.fields)
    assert again.reason is Reason.ALREADY_OPENED


@every_case("example", calls)
def test_each_call_sends_its_record(example: Example, ledger: Accountant, clock: TestClock) -> None:
    mine = new_id(clock)
    follows = 99 if example.kind in FOLLOWING else None
    owner = ledger.as_owner("olga", reason="why", request_id=mine, follows=follows)
    decision = example.send(owner, "census")
    assert sent(decision) == record(example.kind, mine, "olga", example.fields)
    assert decision.reason is (Reason.OUT_OF_DATE if follows else Reason.NOT_PENDING)


@every_case("example", lambda: calls(administrators=True))
def test_an_administrators_call_says_so(
    example: Example, ledger: Accountant, clock: TestClock
) -> None:
    mine = new_id(clock)
    administrator = ledger.as_administrator("root", reason="why", request_id=mine, follows=99)
    decision = example.send(administrator, "census")
    fields = {**example.fields, "as": "administrator"}
    assert sent(decision) == record(example.kind, mine, "root", fields)


def test_every_call_has_an_example_and_an_administrator_none_of_owners_alone() -> None:
    def public(client: type) -> set[str]:
        return {name for name in vars(client) if not name.startswith("_")}

    of_both = {example.call for example in calls(administrators=True)}
    assert public(Administrator) == of_both
    assert public(Owner) == CALLS.keys() - of_both
    assert not public(Owner) & {*dir(Administrator)}


def test_an_owner_without_an_id_makes_one_for_each_call(ledger: Accountant) -> None:
    owner = ledger.as_owner("olga")
    assert owner.pause("census").outcome is Outcome.PAUSED
    assert owner.resume("census").outcome is Outcome.RESUMED


def test_the_id_of_one_call_is_not_taken_for_another(ledger: Accountant, clock: TestClock) -> None:
    owner = ledger.as_owner("olga", request_id=new_id(clock))
    assert owner.pause("census").outcome is Outcome.PAUSED
    assert owner.pause("census").outcome is Outcome.REPEATED
    assert owner.resume("census").outcome is Outcome.CONFLICT


def test_a_second_call_does_not_follow_the_same_decision(ledger: Accountant) -> None:
    view = ledger.dataset("census")
    assert view is not None
    owner = ledger.as_owner("olga", follows=view.sequence)
    assert owner.pause("census").outcome is Outcome.PAUSED
    assert owner.resume("census").reason is Reason.OUT_OF_DATE


def test_an_owner_resolves_a_reservation(ledger: Accountant) -> None:
    def send(kind: str, **fields: object) -> Decision:
        head = {"version": 1, "type": kind, "request_id": ledger.new_request_id()}
        names = {"analyst": "ana", "dataset": "census"}
        return ledger.submit(json.dumps({**head, **names, **fields}).encode())

    claim = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}
    terms = {"unit": "person", "neighbours": "add_remove", "reserve": {"until": "P1D"}}
    assert send("request", claim=claim, purpose="", **terms).outcome is Outcome.RESERVED
    (grant,) = [each.grant for each in ledger.reservations("census")]
    assert send("begin", grant=grant).outcome is Outcome.BEGUN
    assert send("settle", grant=grant, shown="399").reason is Reason.BEYOND_MAXIMUM
    owner = ledger.as_owner("olga")
    for wrong in ({}, {"claim": "pure:0.1", "mistaken": "a typing error"}):
        with pytest.raises(RequestInvalid):
            owner.resolve("census", grant, **wrong)
    done = owner.resolve("census", grant, mistaken="a typing error")
    assert (done.outcome, done.guarantee) == (Outcome.RESOLVED, "explained")


def test_nothing_is_removed_by_leaving_out_what_to_set(ledger: Accountant) -> None:
    owner = ledger.as_owner("olga")
    with pytest.raises(RequestInvalid, match="To remove the member, call remove_member"):
        owner.set_member("census", "ana", roles=[])
    with pytest.raises(RequestInvalid, match="To remove the limit, call remove_limit"):
        owner.set_limit("census", "team", "blue")


def test_an_opening_follows_no_decision(ledger: Accountant) -> None:
    with pytest.raises(RequestInvalid, match="follows must be left out of `open`"):
        ledger.as_owner("olga", follows=1).open("other", RHO)


@every_case("role", ("as_owner", "as_administrator"))
def test_somebody_must_be_named(role: str, ledger: Accountant) -> None:
    for client in (ledger, AsyncAccountant(ledger.url)):
        with pytest.raises(RequestInvalid, match=r'by must be passed: .* as in as_owner\("olga"\)'):
            getattr(client, role)()


def test_with_a_token_only_its_own_name_and_role_decide(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:
        server.furnish()

        def connect(name: str) -> Accountant:
            return Accountant(server.url, token=server.tokens[name], clock=TestClock(NOON))

        with connect("ana") as ana, connect("olga") as olga, connect("root") as root:
            before = root.heads()
            wrong: dict[str, Callable[[], object]] = {
                "by must be ana, the name of your token": lambda: ana.as_owner("olga").pause(
                    "closed-own"
                ),
                "only owners of dataset closed-own may do this; you are signed in as ana": (
                    lambda: ana.as_owner().pause("closed-own")
                ),
                "you are signed in as olga": lambda: olga.as_administrator().pause("closed-own"),
                "you are signed in as root": lambda: root.as_owner().pause("closed-own"),
            }
            for message, call in wrong.items():
                with pytest.raises(NotPermitted, match=message):
                    call()
            assert root.heads() == before
            assert olga.as_owner().pause("closed-own").outcome is Outcome.PAUSED
            resumed = root.as_administrator().resume("closed-own")
            assert (resumed.outcome, resumed.administrator) == (Outcome.RESUMED, True)
