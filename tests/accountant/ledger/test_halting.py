"""halt_on_refusal: the first request that does not fit is the last word, wherever one looks."""

from __future__ import annotations

import msgspec

from accountant.ledger.snapshots import ledger_of_row
from accountant.partition import hash_of
from accountant.records import Decision, decode_decision, decode_snapshot, encode
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from accountant.replay.sums import check_record
from accountant.views.datasets import view_of_ledger
from tests.accountant.world import World, code, opened

HALTING: dict[str, object] = {
    "filter": "basic",
    "epsilon": "1",
    "delta": "0",
    "halt_on_refusal": True,
}


def halted() -> World:
    world = opened(**HALTING)
    for claim, expected in (
        ("pure:0.5", "granted"),
        ("pure:0.6", "exhausted"),
        ("pure:0.1", "halted"),
    ):
        assert code(world.ask(claim)) == expected
    return world


def test_a_halt_offers_nothing_for_nothing_would_be_granted() -> None:
    world = opened(**HALTING)
    refusal = world.ask("pure:2")
    assert (refusal.outcome, refusal.reason) == (Outcome.REFUSED, Reason.EXHAUSTED)
    assert refusal.fits is None
    assert refusal.asked is not None
    assert refusal.asked["epsilon"] == "2"


def test_a_halt_crosses_every_threshold_and_exhausts_the_budget() -> None:
    world = opened(**HALTING)
    assert world.ask("pure:0.6").crossed == ("0.5",)
    assert not world.ledger().exhausted
    assert world.ask("pure:0.6").crossed == ("0.8", "0.95", "1")
    assert world.ledger().exhausted


def test_a_request_refused_as_halted_is_neither_priced_nor_charged() -> None:
    world = halted()
    last = world.decisions[-1]
    assert (last.asked, last.cost, last.fits) == (None, None, None)
    assert last.totals == world.decisions[-3].totals


def test_an_owner_can_amend_and_close_but_not_restart_a_halted_dataset() -> None:
    world = halted()
    assert code(world.amend(alert_at=["0.4"], horizon="P1D")) == "amended"
    assert code(world.ask("pure:0.1")) == "halted"
    assert code(world.close()) == "closed"
    assert code(world.ask("pure:0.1")) == "closed"


def test_a_row_and_the_log_both_bring_a_halt_back() -> None:
    world = halted()
    rows = world.rows()
    assert state_rows(world.replayed()) == rows
    row = decode_snapshot(rows[0][1])
    assert ledger_of_row(row).halted
    # A row from before halts existed has no such field.
    assert b"halted" not in state_rows(opened().replayed())[0][1]


def test_a_repeat_gets_the_refusal_again() -> None:
    world = opened(**HALTING)
    body = world.request("pure:2")
    assert code(world.send("requests", body)) == "exhausted"
    again = world.send("requests", body)
    assert code(again) == "repeated"
    assert again.first is not None
    assert again.first.reason is Reason.EXHAUSTED


def test_a_view_shows_the_dataset_as_halted() -> None:
    view = view_of_ledger(halted().ledger())
    assert view.halted
    assert not view.closed


def test_an_audit_finds_a_grant_after_a_halt() -> None:
    world = halted()
    assert audit(world.log).ok
    grant = decode_decision(world.log[2])
    last = decode_decision(world.log[-1])
    assert grant.totals is not None
    forged: Decision = msgspec.structs.replace(
        last,
        outcome=Outcome.GRANTED,
        reason=None,
        cost={name: "0.1" if name == "epsilon" else "0" for name in grant.cost or {}},
        totals={**grant.totals, "mechanisms": 2, "epsilon": "0.6"},
        left={"epsilon": "0.4", "delta": "0"},
    )
    assert not audit([*world.log[:-1], encode(forged)]).ok
    # The sums alone must tell, too.
    world.log.pop()
    findings = list(check_record(world.replayed(), forged))
    assert [finding.expected for finding in findings] == ["no grant after a halt"]
    assert forged.previous == hash_of(world.log[-1])
