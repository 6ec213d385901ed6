"""A log that has lost decisions is never refolded, whatever else is wrong with its state."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.records import (
    RULES,
    decode_decision,
    decode_partition_row,
    encode,
    partition_row_key,
)
from accountant.replay.replay import Replay, StateMismatch, state_rows
from accountant.replay.state_witness import StateWitness
from tests.accountant.world import World, opened
from tests.every_case import check_each

Rows = dict[bytes, bytes | None]
ROW = partition_row_key(0)


def spent() -> World:
    """Return a world with two datasets, of which `census` was spent from last."""
    world = opened()
    world.open("idle", epsilon="1", delta="1e-6")
    world.ask(dataset="idle")
    for _ in range(3):
        world.ask()
    return world


def replayed(world: World, rows: Rows) -> Partition:
    """Refold as the processor does: with rows, and where these do not fit without them."""
    refold = Replay(world.genesis)
    for key, value in rows.items():
        refold.take_row(key, value)
    with pytest.raises(StateMismatch):
        folded(world, refold)
    return folded(world, Replay(world.genesis, instead_of=refold))


def folded(world: World, refold: Replay) -> Partition:
    _ = refold.start
    for value in world.log:
        refold.take_decision(value)
    return refold.finish()


def unreadable(rows: Rows) -> Rows:
    return rows | {b"idle": b"{"}


def missing(rows: Rows) -> Rows:
    return {key: value for key, value in rows.items() if key != b"idle"}


def without_partition_row(rows: Rows) -> Rows:
    return {key: value for key, value in rows.items() if key != ROW}


def unreadable_partition_row(rows: Rows) -> Rows:
    return rows | {ROW: None}


DAMAGES = [unreadable, missing, without_partition_row, unreadable_partition_row]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rows_are_rebuilt_from_a_whole_log(damage: Callable[[Rows], Rows]) -> None:
    world = spent()
    assert state_rows(replayed(world, damage(dict(world.rows())))) == world.rows()


def test_damaged_rows_do_not_hide_that_the_log_has_lost_its_end() -> None:
    def check_case(damage: Callable[[Rows], Rows], lost: int) -> None:
        world = spent()
        rows = dict(world.rows())
        world.log = world.log[:-lost]
        with pytest.raises(LogDamaged, match=r"but `state` has .*: restore the log"):
            replayed(world, damage(rows))

    check_each(check_case, DAMAGES, [1, 2, 3])


def test_a_log_that_has_lost_a_whole_dataset_is_damaged() -> None:
    ledgers = spent().replayed().ledgers
    witness = StateWitness(None, {"idle": ledgers["idle"]})
    witness.check(spent().replayed())
    with pytest.raises(LogDamaged, match="has 0 decisions on dataset idle"):
        witness.check(opened().replayed())


def test_a_log_that_contradicts_the_hash_in_state_is_damaged() -> None:
    world, other = spent(), spent()  # as from a backup that was gone on with
    world.ask("pure:0.01")
    other.ask("pure:0.02")
    with pytest.raises(LogDamaged, match="but `state` has"):
        replayed(other, unreadable(dict(world.rows())))


def test_a_state_row_of_another_genesis_is_ignored() -> None:
    world, other = spent(), spent()
    other.ask()
    rows = dict(other.rows())
    stored = decode_partition_row(rows[ROW] or b"")
    another = msgspec.structs.replace(world.genesis, application="other")
    rows[ROW] = msgspec.json.encode(msgspec.structs.replace(stored, genesis=another))
    rows = {ROW: rows[ROW]}
    assert state_rows(replayed(world, rows)) == world.rows()


@pytest.mark.parametrize(
    ("field", "value"), [("decided_at", -1_000_000), ("floor", 1_800_000), ("next", -1)]
)
def test_a_partition_row_that_its_last_decision_does_not_make_is_noticed(
    field: str, value: int
) -> None:
    world = spent()
    rows = dict(world.rows())
    stored = decode_partition_row(rows[ROW])
    if field == "next":
        changed: object = msgspec.structs.replace(
            stored.next, requests=stored.next.requests + value
        )
    else:
        changed = getattr(stored, field) + value
    forged = msgspec.structs.replace(stored, **{field: changed})
    damaged: Rows = {**rows, ROW: msgspec.json.encode(forged)}
    assert state_rows(replayed(world, damaged)) == world.rows()


def test_a_row_with_an_invalid_key_is_ignored_after_its_deletion() -> None:
    world = spent()
    key = b"\xff\xfe"
    damaged: Rows = {**dict(world.rows()), key: b"junk"}
    assert state_rows(replayed(world, damaged)) == world.rows()
    refold = Replay(world.genesis)
    for each, value in [*damaged.items(), (key, None)]:
        refold.take_row(each, value)
    assert state_rows(folded(world, refold)) == world.rows()


def test_a_log_of_newer_rules_is_not_gone_on_with() -> None:
    world = spent()
    last = decode_decision(world.log[-1])
    world.log[-1] = encode(msgspec.structs.replace(last, rules=RULES + 1))
    with pytest.raises(LogDamaged, match="run the newer version"):
        folded(world, Replay(world.genesis))
