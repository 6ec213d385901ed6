"""An accepted rollback: live state, refold and audit know of it, and it does nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.errors import RequestInvalid
from accountant.partition.operate import accept_rollback
from accountant.records import Decision, decode_decision, encode
from accountant.records.operator_records import Rollback
from accountant.records.outcomes import Outcome
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant.world import World, opened

ONE = {"filter": "basic", "epsilon": "1"}
HEAD = "sha256:" + "a" * 64


def lost(**fields: Any) -> Rollback:
    given = {"branch": 1, "first": 3, "last": 9, "head": HEAD, "key": "k+1+A", "signature": "A"}
    return Rollback(**(given | fields))


@pytest.fixture
def world() -> World:
    """A ledger of decisions 0 to 2."""
    world = opened(**ONE)
    world.ask("pure:0.1")
    return world


def roll_back(world: World, rollback: Rollback, note: str = "a backup was put back") -> Decision:
    world.commit()
    decided = world.took(accept_rollback(world.draft, world.now, note, rollback))
    world.commit()
    return decided


def test_a_rolled_back_log_continues_in_a_new_branch(world: World) -> None:
    before = world.ledger().totals
    decision = roll_back(world, lost())
    assert decision.outcome is Outcome.ROLLED_BACK
    assert (decision.dataset, decision.source, decision.sequence) == (None, None, None)
    assert world.ledger().totals == before
    assert world.ask("pure:0.1").granted
    roll_back(world, lost(branch=4, first=2, last=100))
    assert world.state.branch == 4
    assert state_rows(world.replayed()) == world.rows()
    assert b'"branch":4' in world.rows()[-1][1]
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement
    assert report.branch == 4
    found = [(each.partition_sequence, each.rollback.first) for each in report.rollbacks]
    assert found == [(3, 3), (5, 2)]
    assert report.rollbacks[0].note == "a backup was put back"


def test_a_log_without_a_rollback_has_no_branch(world: World) -> None:
    world.commit()
    assert all(b"branch" not in value for _, value in world.rows())
    assert all(b"rollback" not in value for value in world.log)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rollback": lost(branch=0)}, "rollback.branch"),
        ({"rollback": lost(first=0)}, "rollback.first"),
        ({"rollback": lost(first=4)}, "rollback.first"),
        ({"rollback": lost(last=2)}, "rollback.last"),
        ({"rollback": None}, "rollback"),
        ({"note": None}, "note"),
        ({"outcome": Outcome.CLOCK_RESET}, "decided_at"),
        ({"outcome": Outcome.SEALED}, "rollback"),
    ],
)
def test_an_audit_names_each_forged_field_of_a_rollback(
    world: World, change: dict[str, Any], field: str
) -> None:
    forged = msgspec.structs.replace(roll_back(world, lost()), **change)
    report = audit([*world.log[:-1], encode(forged)], genesis=world.genesis)
    assert report.first_disagreement is not None
    assert report.first_disagreement.what == field
    assert report.rollbacks == ()


def test_no_other_decision_has_a_rollback(world: World) -> None:
    world.commit()
    granted = decode_decision(world.log[2])
    forged = msgspec.structs.replace(granted, rollback=lost())
    report = audit([*world.log[:2], encode(forged)], genesis=world.genesis)
    assert report.first_disagreement is not None
    assert report.first_disagreement.what == "rollback"


def test_a_rollback_says_why(world: World) -> None:
    for note in ("", "x" * 201):
        with pytest.raises(RequestInvalid, match="reason"):
            accept_rollback(world.draft, world.now, note, lost())
