"""Levels back from the log, from rows and from a seal; an audit decides them again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from accountant.errors import LogDamaged
from accountant.partition import hash_of
from accountant.partition.draft import Draft
from accountant.partition.operate import seal_log
from accountant.records import decode_decision, encode
from accountant.replay.audit import Auditor, audit
from accountant.replay.check_rows import RowContradictsLog
from accountant.replay.replay import Replay, StateMismatch, state_rows
from accountant.replay.sealed_log import (
    SealedReplay,
    SealSnapshot,
    next_seal,
    sealed_state,
    sealed_usage,
)
from accountant.views.tallies import DecisionTally, add
from tests.accountant.partition.circle import BASIC, enrol
from tests.accountant.partition.division import (
    ask_for_outcome,
    ask_for_record,
    days,
    divide,
    divided,
    limit,
)
from tests.accountant.partition.test_period_limits import set_back
from tests.accountant.world import World
from tests.every_case import check_each, check_rows
from tests.faults.forged_rows import forged, replaced

POLICIES: tuple[dict[str, Any], ...] = (
    BASIC,
    {"filter": "zcdp_tight", "epsilon": "2", "delta": "1e-6"},
    {"filter": "zcdp_tight", "epsilon": "2", "delta": "1e-6", "beside": "basic"},
    {"filter": "gdp_residue", "epsilon": "2", "delta": "1e-6"},
    {"filter": "renyi_mixture", "epsilon": "2", "delta": "1e-6", "orders": ["12", "40"]},
    {**BASIC, "halt_on_refusal": True, "most_per_request": "0.4"},
)
OWN: tuple[dict[str, Any], ...] = (
    {"filter": "basic", "epsilon": "0.4"},
    {"filter": "gdp_residue", "epsilon": "0.7", "delta": "1e-7"},
    {"filter": "fully_adaptive", "epsilon": "0.5", "delta": "1e-7"},
    {"filter": "zcdp", "rho": "0.05"},
)
PEOPLE = ("ana", "ben", "cy", "dan", "eve")
CLAIMS = (
    *("pure:0.01", "pure:0.1", "pure:0.3", "laplace:scale=9,sensitivity=1", "zcdp:0.001"),
    *("3*pure:0.05", "gaussian:sigma=20,sensitivity=1", "approximate:0.05,1e-8"),
)


def a_limit(chance: random.Random) -> dict[str, Any]:
    scope = chance.choice(["dataset", "team", "analyst", "each"])
    fields: dict[str, Any] = {"scope": scope}
    if scope != "dataset":
        fields["name"] = chance.choice(PEOPLE if scope == "analyst" else ["blue", "red"])
        draw = chance.random()
        if draw < 0.4:
            fields["part"] = chance.choice(["0.05", "0.2", "0.5", "1"])
        elif draw < 0.6:
            fields["policy"] = chance.choice(OWN)
    if chance.random() < 0.35:
        period = chance.choice(["P1D", "P2D"])
        fields["pace"] = {"part": chance.choice(["0.02", "0.2"]), "period": period}
    if scope in ("team", "analyst") and chance.random() < 0.4:
        fields["reserved"] = chance.choice(["0.05", "0.1", "0.3"])
    return fields


def step(world: World, chance: random.Random) -> None:
    draw = chance.random()
    if draw < 0.06:
        world.now += days(chance.choice([0.5, 1, 2]))
    if draw < 0.01:
        set_back(world, world.state.decided_at - days(chance.choice([0.2, 1, 3])))
    elif draw < 0.2:
        world.send("admin", world.admin("limit", **a_limit(chance)))
    elif draw < 0.25:
        team = chance.choice(["blue", "red"])
        enrol(world, chance.choice(PEOPLE), "analyst", team=team)
    else:
        world.ask(chance.choice(CLAIMS), analyst=chance.choice(PEOPLE))


def lived(seed: int, steps: int = 60) -> World:
    chance = random.Random(seed)
    world = divided(POLICIES[seed % len(POLICIES)], batch=chance.choice([1, 4]))
    for _ in range(steps):
        step(world, chance)
    world.commit()
    return world


def replayed(world: World, rows: list[tuple[bytes, bytes]], log: list[bytes]) -> Replay:
    refold = Replay(world.genesis)
    for key, value in rows:
        refold.take_row(key, value)
    assert refold.start is not None
    for value in log:
        refold.take_decision(value)
    return refold


def test_the_log_and_the_rows_give_the_same_state_and_audit_agrees() -> None:
    def check_case(seed: int) -> None:
        world = lived(seed)
        due = world.rows()
        assert state_rows(world.replayed()) == due
        assert state_rows(replayed(world, due[::-1], world.log).finish()) == due
        report = audit(world.log, genesis=world.genesis)
        assert report.ok, report.first_disagreement
        for value in world.log:
            assert encode(decode_decision(value)) == value

    check_each(check_case, range(24))


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_from_any_point_equals_the_live_state(seed: int) -> None:
    chance = random.Random(seed)
    world = divided(POLICIES[seed])
    for _ in range(50):
        step(world, chance)
        world.commit()
        known = world.state
        rows = state_rows(known)
        assert dict(rows)[b"census"] == encode(json.loads(dict(rows)[b"census"]))
        if chance.random() < 0.3:  # a worker that dies here and one that takes over
            state = replayed(world, rows, world.log).finish()
            assert state_rows(state) == state_rows(world.replayed()) == rows
            world.state, world.draft = state, Draft(state)
    assert audit(world.log, genesis=world.genesis).ok


def test_no_level_ever_exceeds_its_budget() -> None:
    def check_case(seed: int) -> None:
        world = lived(seed, steps=120)
        budgets: dict[tuple[str, str | None, int], Any] = {}
        for decision in world.decisions:
            if decision.limit is not None:
                reported = decision.limit
                budgets[reported.scope, reported.name, reported.version] = reported
            for moved in decision.levels:
                reported = budgets[moved.scope, moved.name, moved.version]
                bound = reported.pace.budget if reported.pace else {}
                over = [
                    n for n, b in bound.items() if float((moved.paced or {})[n]) > float(b) * 1.0001
                ]
                beside = "filter_ended" in (moved.paced or moved.totals or {})
                several = any(
                    name.startswith("renyi_") for name in (*bound, *(reported.budget or {}))
                )
                assert beside or several or not over
                for name, budget in (reported.budget or {}).items():
                    within = float((moved.totals or {})[name]) <= float(budget) * 1.0001
                    assert beside or several or within
            for each in decision.left_at:
                assert all(float(left) >= 0 for left in (each.left or {}).values())

    check_each(check_case, range(12))


def changed(world: World, number: int, change: Callable[[dict[str, Any]], None]) -> list[bytes]:
    """Return a log whose record `number` is another, and those after it hashed again."""
    log = world.log[:number]
    for value in world.log[number:]:
        record = json.loads(value)
        if len(log) == number:
            change(record)
        record["previous"] = hash_of(log[-1])
        log.append(encode(decode_decision(encode(record))))
    return log


@pytest.fixture
def divided_ledger() -> World:
    world = divided()
    divide(world, "dataset", pace={"part": "0.5", "period": "P1D"})
    divide(world, "team", "blue", part="0.3", reserved="0.2")
    divide(world, "each", "blue", part="0.2")
    ask_for_record(world, "ana", "0.2")
    ask_for_record(world, "ana", "0.05")
    ask_for_record(world, "ben", "0.05")
    return world


def of(world: World, outcome: str) -> int:
    return max(n for n, each in enumerate(world.decisions) if each.outcome == outcome)


def test_an_audit_names_the_changed_field_of_a_limit(divided_ledger: World) -> None:
    def check_case(outcome: str, what: str, change: Callable[[dict[str, Any]], None]) -> None:
        number = of(divided_ledger, outcome)
        report = audit(changed(divided_ledger, number, change), genesis=divided_ledger.genesis)
        wrong = report.first_disagreement
        assert wrong is not None
        assert (wrong.partition_sequence, wrong.what) == (number, what)

    check_rows(
        check_case,
        [
            ("granted", "levels", lambda r: r["levels"][1]["totals"].update(epsilon="0.1")),
            ("granted", "levels", lambda r: r["levels"][1]["used"].update(epsilon="0.1")),
            ("granted", "levels", lambda r: r["levels"][0]["paced"].update(epsilon="0.1")),
            ("granted", "levels", lambda r: r["levels"][0].update(window=1)),
            ("granted", "levels", lambda r: r["levels"][1].update(version=2)),
            ("granted", "levels", lambda r: r["levels"][1].update(crossed=["0.95"])),
            ("granted", "levels", lambda r: r["levels"].pop()),
            ("granted", "levels", lambda r: r.pop("levels")),
            ("refused", "level", lambda r: r.pop("level")),
            ("refused", "level", lambda r: r["level"].update(what="pace")),
            ("refused", "left_at", lambda r: r.pop("left_at")),
            ("refused", "left_at", lambda r: r["left_at"][1]["left"].update(epsilon="0.2")),
            ("refused", "fits", lambda r: r.update(fits="pure:0.06")),
            ("limit_set", "limit", lambda r: r["limit"]["budget"].update(epsilon="0.3")),
            ("limit_set", "limit", lambda r: r.pop("limit")),
        ],
    )


@pytest.mark.parametrize("outcome", ["opened", "member_set", "limit_set"])
def test_only_a_grant_moves_levels(divided_ledger: World, outcome: str) -> None:
    moved = {"scope": "team", "name": "blue", "version": 1}
    log = changed(
        divided_ledger, of(divided_ledger, outcome), lambda record: record.update(levels=[moved])
    )
    wrong = audit(log, genesis=divided_ledger.genesis).first_disagreement
    assert wrong is not None
    assert wrong.what == "levels"


def test_a_grant_of_a_version_that_is_not_there_cannot_be_refolded(divided_ledger: World) -> None:
    log = changed(
        divided_ledger, of(divided_ledger, "granted"), lambda r: r["levels"][1].update(version=7)
    )
    refold = Replay(divided_ledger.genesis)
    for value in log[:-1]:
        refold.take_decision(value)
    with pytest.raises(LogDamaged, match="version 7 of a limit of team blue"):
        refold.take_decision(log[-1])


def test_a_row_that_is_older_or_missing_or_changed_is_noticed(divided_ledger: World) -> None:
    key = b'{"dataset":"census","scope":"team","name":"blue"}'
    before = dict(divided_ledger.rows())
    ask_for_record(divided_ledger, "ben", "0.05")
    rows = dict(divided_ledger.rows())
    assert before[key] != rows[key]
    with pytest.raises(StateMismatch, match="checksum"):
        replayed(divided_ledger, [*{**rows, key: before[key]}.items()], divided_ledger.log)
    with pytest.raises(
        StateMismatch, match=r"`state` has \d levels, but the partition's row says \d"
    ):
        replayed(divided_ledger, [(k, v) for k, v in rows.items() if k != key], divided_ledger.log)
    with pytest.raises(StateMismatch, match="holds the level"):
        replayed(
            divided_ledger,
            [*{**rows, key: rows[key].replace(b"blue", b"red")}.items()],
            divided_ledger.log,
        )
    with pytest.raises(StateMismatch, match="cannot be read"):
        replayed(divided_ledger, [*{**rows, key: b'{"version":2}'}.items()], divided_ledger.log)


def test_a_row_that_disagrees_with_the_last_decision_is_noticed(divided_ledger: World) -> None:
    ask_for_record(divided_ledger, "ben", "0.05")
    moved = divided_ledger.decisions[-1].levels
    assert [each.scope for each in moved] == ["dataset", "team", "each"]
    rows = dict(divided_ledger.rows())
    key = b'{"dataset":"census","scope":"each","team":"blue","name":"ben"}'
    altered = forged(rows, key, replaced(b'"0.1"', b'"0.2"'))
    with pytest.raises(RowContradictsLog, match="has level each blue: counted"):
        replayed(divided_ledger, [*altered.items()], divided_ledger.log)


def test_a_sealed_log_still_enforces_its_limits(divided_ledger: World) -> None:
    counted = DecisionTally()
    for value in divided_ledger.log:
        add(counted, value)
    divided_ledger.commit()
    snapshot = SealSnapshot(sealed_state(divided_ledger.state), sealed_usage(counted))
    archived = len(divided_ledger.log) - 3
    first = hash_of(divided_ledger.log[0])
    seal = next_seal(
        divided_ledger.state, counted, first, (archived, hash_of(divided_ledger.log[archived]))
    )
    divided_ledger.took(seal_log(divided_ledger.draft, divided_ledger.now, "old enough", seal))
    divided_ledger.commit()
    assert ask_for_outcome(divided_ledger, "ben", "0.1") == "team/blue limit"
    assert ask_for_outcome(divided_ledger, "ben", "0.05") == "granted"
    limit(divided_ledger, "team", "blue")
    kept = [divided_ledger.log[0], *divided_ledger.log[archived + 1 :]]
    refold = SealedReplay(divided_ledger.genesis, snapshot)
    auditor = Auditor(genesis=divided_ledger.genesis, sealed=snapshot)
    for value in kept:
        refold.take_decision(value)
        assert auditor.take(value), auditor.disagreement
    assert state_rows(refold.finish()) == divided_ledger.rows()
    assert auditor.report().right
    assert any(b'"type":"level"' in line for line in snapshot.state)
