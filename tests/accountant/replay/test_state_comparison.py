"""Rows of `state` compared with the log: every kind of row, every field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accountant.records import decode_decision
from accountant.replay.audit import AuditReport, audit
from accountant.replay.check_rows import RowContradictsLog
from accountant.replay.replay import Replay
from accountant.replay.state_comparison import rows_at_one_moment
from accountant.times import from_iso
from tests.accountant.partition.circle import BASIC, enrol
from tests.accountant.partition.division import ask_for_record, divide, divided
from tests.accountant.world import WINDOW, World
from tests.faults.forged_rows import PARTITION, Rows, forged, replaced, with_right_checksum

DATASET = b"census"
MEMBER = b'{"dataset":"census","member":"ana"}'
LIMIT = b'{"dataset":"census","scope":"team","name":"blue"}'
USE = b'{"dataset":"census","scope":"each","team":"blue","name":"ana"}'
KINDS = {"dataset": DATASET, "member": MEMBER, "limit": LIMIT, "use": USE, "partition": PARTITION}


@pytest.fixture
def world() -> World:
    world = divided(BASIC)
    enrol(world, "ana", "analyst", team="blue")
    divide(world, "team", "blue", part="0.5")
    divide(world, "each", "blue", part="0.2")
    ask_for_record(world, "ana", "0.1")
    return world


def audited(world: World, rows: Rows) -> AuditReport:
    state = rows_at_one_moment(rows, 0)
    assert state is not None
    # Whoever reads rows and log also checks that the log reaches as far as the rows.
    past = state.end is not None and state.end[0] >= len(world.log)
    return audit(world.log, state=state, expected_head=state.end if past else None)


def replayed(world: World, rows: Rows, *, idle: bool = False) -> None:
    """Refold as a start does that knows every decision."""
    refold = Replay(world.genesis)
    for key, value in rows.items():
        refold.take_row(key, value)
    assert refold.start is not None
    for value in world.log:
        if from_iso(decode_decision(value).decided_at) >= refold.start:
            refold.take_decision(value)
    refold.finish()
    assert bool(refold.idle) == idle
    refold.check_idle(world.log, ())


def other(value: Any) -> Any:
    """Return a value of the same type and form that differs."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        digit = "2" if value.endswith("1") else "1"
        return value[:-1] + digit if value else digit
    if isinstance(value, list):
        return value[:-1]
    return value


def forgeries(value: bytes) -> list[tuple[str, bytes]]:
    """Return a row with one of its fields changed, at any depth, once for each field."""
    found = []

    def walk(node: Any, path: str) -> None:
        for name, child in list(node.items()):
            if isinstance(child, dict):
                walk(child, f"{path}{name}.")
            elif name not in ("checksum", "type"):
                node[name] = other(child)
                if node[name] != child:
                    changed = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
                    found.append((f"{path}{name}", changed.encode()))
                node[name] = child

    row = json.loads(value)
    walk(row, "")
    return found


def test_rows_that_follow_from_the_log_pass(world: World) -> None:
    report = audited(world, dict(world.rows()))
    assert report.ok, report.first_disagreement
    assert report.rows == len(world.rows())
    assert audit(world.log).rows is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_audit_names_each_field_of_a_row_that_was_forged(world: World, kind: str) -> None:
    key, rows = KINDS[kind], dict(world.rows())
    tried = 0
    for field, value in forgeries(rows[key]):
        if field.startswith("odometers."):
            continue  # they are computed at each start, and never read from a row
        if field == "version" or (kind == "partition" and field == "rules"):
            continue  # another maker's, which is refused before
        report = audited(world, with_right_checksum({**rows, key: value}))
        assert not report.ok, field
        assert report.first_disagreement is not None
        tried += 1
    assert tried >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_an_audit_names_a_row_that_is_missing_or_too_many(world: World, kind: str) -> None:
    key, rows = KINDS[kind], dict(world.rows())
    without = {k: v for k, v in rows.items() if k != key}
    if key != PARTITION:
        without = with_right_checksum(without)
        more = rows | {key.replace(b"census", b"ghost"): rows[key].replace(b"census", b"ghost")}
        assert not audited(world, with_right_checksum(more)).ok
    report = audited(world, without)
    assert not report.ok
    assert report.first_disagreement is not None
    assert report.first_disagreement.found == "no such row"


def test_the_difference_has_the_row_the_field_and_both_values(world: World) -> None:
    rows = dict(world.rows())
    report = audited(world, forged(rows, DATASET, replaced(b'"epsilon":"0.1"', b'"epsilon":"0"')))
    wrong = report.first_disagreement
    assert wrong is not None
    assert (wrong.row, wrong.what) == ("dataset census", "totals.epsilon")
    assert (wrong.expected, wrong.found) == ("0.1", "0")
    assert report.records == len(world.log)  # which are all right


def test_a_checksum_that_does_not_fit_the_rows_is_named(world: World) -> None:
    row = json.loads(dict(world.rows())[PARTITION]) | {"checksum": "0" * 16}
    wrong = audited(world, dict(world.rows()) | {PARTITION: json.dumps(row).encode()})
    assert wrong.first_disagreement is not None
    assert wrong.first_disagreement.what == "checksum"


def test_rows_are_compared_at_their_end_in_a_longer_log(world: World) -> None:
    rows = dict(world.rows())
    ask_for_record(world, "ana", "0.01")
    assert audited(world, rows).ok
    assert not audited(world, forged(rows, MEMBER, replaced(b"analyst", b"auditor"))).ok


def test_rows_that_end_beyond_the_log_are_a_disagreement(world: World) -> None:
    rows, last = dict(world.rows()), len(world.log) - 1
    end = (last, json.loads(rows[PARTITION])["head"])
    world.log.pop()
    report = audit(world.log, expected_head=end, state=rows_at_one_moment(rows, 0))
    assert not report.ok


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b'"totals":{"mechanisms":1,"epsilon":"0.1"', b'"totals":{"mechanisms":1,"epsilon":"0"',
         "totals.epsilon 0"),
        (b'"mechanisms":1', b'"mechanisms":0', "totals.mechanisms 0"),
        (b'"budget":{"epsilon":"1"', b'"budget":{"epsilon":"9"', "left.epsilon"),
        (b'"generation":1', b'"generation":2', "generation 2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("idle", [False, True])
def test_a_start_refuses_a_forged_row_and_names_dataset_field_and_both_values(
    world: World, old: bytes, new: bytes, field: str, idle: bool
) -> None:
    if idle:
        world.open("other", filter="basic", epsilon="1")
        world.now += 2 * WINDOW
        world.ask("pure:0.01", dataset="other")
    rows = dict(world.rows())
    replayed(world, rows, idle=idle)
    with pytest.raises(RowContradictsLog) as raised:
        replayed(world, forged(rows, DATASET, replaced(old, new)), idle=idle)
    said = str(raised.value)
    assert f"dataset census in `state` has {field}" in said
    assert "of the log has" in said


def test_a_start_refuses_backup_rows_with_recomputed_checksums(world: World) -> None:
    early = dict(world.rows())
    world.open("other", filter="basic", epsilon="1")
    ask_for_record(world, "ana", "0.05")
    world.now += 2 * WINDOW
    world.ask("pure:0.01", dataset="other")
    rows = dict(world.rows())
    changed = {key: early[key] for key in (DATASET, LIMIT, USE)}
    with pytest.raises(RowContradictsLog, match="has sequence 9; decision"):
        replayed(world, with_right_checksum({**rows, **changed}), idle=True)
