"""The same inputs give the same bytes: what rules 1 decide is held, decision by decision.

Until the first release freezes rules 1, a change of what is decided or written is made directly,
and shows here: `python -m tests.golden.remake` writes decided.json again, in the same commit.
"""

from __future__ import annotations

import json

import pytest

from accountant.records import RULES, decode_decision
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, state_rows
from accountant.times import from_iso
from tests.accountant.world import World
from tests.golden.replayed_logs import DECIDED, LOGS, hashes, played

OPENS = ("tests/golden/*",)

# What takes a body too long for a file of text, a partition of its own, or thousands of records
# is tested elsewhere.
ELSEWHERE = {
    *(Reason.OVERSIZE, Reason.WRONG_PARTITION, Reason.TOO_MANY_MEMBERS, Reason.TOO_MANY_LIMITS),
    *(
        Reason.TOO_MANY_PAUSED,
        Reason.TOO_MANY_OPEN,
        Reason.NOT_TOGETHER,
        Reason.NOT_RENEWABLE,
        Reason.NOT_IN_GROUP,
    ),
    Reason.OTHER_DATASET,  # no record has it: only what one of its datasets sees
}
LEVELS = {
    ("dataset", "reserved"),
    *((scope, "pace") for scope in ("dataset", "team", "each", "analyst")),
    *((scope, "limit") for scope in ("team", "each", "analyst")),
}


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    return {name: played(name) for name in LOGS}


@pytest.mark.parametrize("name", LOGS)
def test_the_same_inputs_give_the_same_bytes(name: str, worlds: dict[str, World]) -> None:
    kept = json.loads(DECIDED.read_text())[name]
    assert hashes(worlds[name]) == kept, "if this is meant: python -m tests.golden.remake"


def test_every_log_is_among_what_was_decided() -> None:
    assert json.loads(DECIDED.read_text()).keys() == {*LOGS}


@pytest.mark.parametrize("name", LOGS)
def test_the_log_refolds_and_audits(name: str, worlds: dict[str, World]) -> None:
    world = worlds[name]
    assert {decode_decision(value).rules for value in world.log} == {RULES}
    assert state_rows(world.replayed()) == world.rows()
    assert audit(world.log, genesis=world.genesis, most_ids=world.most_ids).ok


@pytest.mark.parametrize("name", LOGS)
def test_state_and_the_end_of_the_log_refold(name: str, worlds: dict[str, World]) -> None:
    world = worlds[name]
    refold = Replay(world.genesis, most_ids=world.most_ids)
    for key, value in world.rows():
        refold.take_row(key, value)
    start = refold.start
    assert start is not None
    first = next(n for n, each in enumerate(world.decisions) if from_iso(each.decided_at) >= start)
    for value in world.log[first:]:
        refold.take_decision(value)
    assert state_rows(refold.finish()) == world.rows()


def test_every_outcome_and_reason_is_among_them(worlds: dict[str, World]) -> None:
    decisions = [each for world in worlds.values() for each in world.decisions]
    assert {decision.outcome for decision in decisions} == {*Outcome}
    assert {*Reason} - {decision.reason for decision in decisions} == ELSEWHERE


def test_each_level_has_refused_for_each_of_its_reasons(worlds: dict[str, World]) -> None:
    decisions = worlds["limits"].decisions
    refused = [each for each in decisions if each.level is not None]
    out_of_room = {
        (each.level.scope, each.level.what)
        for each in refused
        if each.level is not None and each.reason is Reason.EXHAUSTED
    }
    assert out_of_room == LEVELS
    assert any(each.reason is Reason.CLAIM_NOT_ACCEPTED for each in refused)
    moved = [level for each in decisions for level in each.levels]
    assert {level.scope for level in moved} == {"dataset", "team", "each", "analyst"}
    assert any(level.crossed for level in moved)
    for reported in ("rounded_up", "paced_rounded_up", "used_rounded_up", "used"):
        assert any(getattr(level, reported) for level in moved), reported
