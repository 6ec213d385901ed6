"""From the log, and from state and the end of the log, to the state that was live."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import (
    NO_REQUEST,
    Origin,
    decode_decision,
    decode_partition_row,
    partition_row_key,
)
from accountant.records.inputs import Input
from accountant.records.placement import Placement
from accountant.replay.check_rows import RowContradictsLog
from accountant.replay.replay import GenesisDiffers, Replay, StateMismatch, state_rows
from accountant.times import from_iso
from tests.accountant.histories import worlds
from tests.accountant.world import WINDOW, World, opened
from tests.nightly import examples


def from_rows(world: World, *, rows: list[tuple[bytes, bytes]] | None = None) -> Partition:
    """Return the state refolded from the rows and the needed end of the log."""
    refold = Replay(world.genesis, most_ids=world.most_ids)
    for key, value in world.rows() if rows is None else rows:
        refold.take_row(key, value)
    start = refold.start
    for value in world.log:
        if start is None or from_iso(decode_decision(value).decided_at) >= start:
            refold.take_decision(value)
    return refold.finish()


def answers(world: World, state: Partition, bodies: list[bytes]) -> list[bytes]:
    """Return how a state would decide bodies, without changing it."""
    draft = Draft(state)
    offset = state.next["requests"]
    return [
        decide(draft, Input("requests", offset + i, b"key", body, world.now), world.now).value
        for i, body in enumerate(bodies)
    ]


@settings(max_examples=examples(150), deadline=None)
@given(worlds())
def test_refolding_twice_gives_the_bytes_and_the_ids_of_the_live_state(
    history: tuple[World, list[bytes]],
) -> None:
    world, sent = history
    live = world.rows()
    once, twice, short = world.replayed(), world.replayed(), from_rows(world)
    assert state_rows(once) == state_rows(twice) == state_rows(short) == live
    # Ids have no row: ask everything again, and something new.
    bodies = [*sent, *[body[:-1] + b', "purpose": "y"}' for body in sent], world.request()]
    expected = answers(world, world.state, bodies)
    assert answers(world, once, bodies) == expected
    assert answers(world, short, bodies) == expected


def damaged(world: World, at: int, **changes: object) -> list[bytes]:
    log = list(world.log)
    log[at] = msgspec.json.encode(msgspec.structs.replace(decode_decision(log[at]), **changes))
    return log


def test_an_empty_log_is_never_a_new_ledger() -> None:
    world = World()
    world.log = []
    with pytest.raises(LogDamaged, match="empty"):
        world.replayed()


def test_a_log_without_its_beginning_is_refused() -> None:
    world = opened()
    world.log = world.log[1:]
    with pytest.raises(LogDamaged, match="decision 1"):
        world.replayed()


def test_a_gap_a_swap_and_an_edit_break_the_chain() -> None:
    world = opened()
    for _ in range(4):
        world.ask()
    log = world.log
    for broken in (
        log[:3] + log[4:],
        [*log[:3], log[4], log[3], *log[5:]],
        damaged(world, 3, floor="2026-11-21T10:00:00.001Z"),
        [*log[:3], b"{", *log[4:]],
        # Nothing behind it names it: left out, what it charged would be free again.
        [*log[:-1], b"{"],
        [*log[:-1], log[-1][:-1]],
    ):
        world.log = broken
        with pytest.raises(LogDamaged):
            world.replayed()


def test_a_log_of_another_genesis_is_refused() -> None:
    world = opened()
    world.genesis = msgspec.structs.replace(world.genesis, application="other")
    with pytest.raises(LogDamaged, match="began as"):
        world.replayed()


def test_rows_that_do_not_fit_the_log_are_noticed() -> None:
    world = opened()
    world.ask()
    before = world.rows()
    world.ask()
    now = world.rows()
    row_key = partition_row_key(0)
    others = [
        before,  # behind the log
        [row for row in now if row[0] == row_key],  # a dataset is missing
        [row for row in now if row[0] != row_key],  # the partition's row is missing
        [*now, (b"other", now[0][1])],
        [(now[0][0], b'{"version":2}'), now[1]],
        [now[0], (row_key, now[1][1].replace(b'"head":"sha256:', b'"head":"sha256:0'))],
    ]
    for rows in others:
        with pytest.raises(StateMismatch):
            from_rows(world, rows=rows)


def test_a_log_that_has_lost_its_end_is_damaged_not_refolded() -> None:
    world = opened()
    world.ask()
    rows = world.rows()
    world.log.pop()
    with pytest.raises(LogDamaged, match="ends at decision"):
        from_rows(world, rows=rows)


def test_a_row_with_other_totals_than_the_log_is_noticed() -> None:
    world = opened()
    world.ask()
    (key, value), owner, partition_row = world.rows()
    forged = value.replace(b'"mechanisms":1', b'"mechanisms":0')
    assert forged != value
    with pytest.raises(StateMismatch, match="checksum"):
        from_rows(world, rows=[(key, forged), owner, partition_row])
    with pytest.raises(RowContradictsLog, match="totals"):  # written before there was a checksum
        from_rows(world, rows=[(key, forged), owner, without_checksum(partition_row)])


def without_checksum(row: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    value = decode_partition_row(row[1])
    assert value.checksum is not msgspec.UNSET
    return row[0], msgspec.json.encode(msgspec.structs.replace(value, checksum=msgspec.UNSET))


def busy_while_one_is_idle() -> tuple[World, dict[bytes, bytes], dict[bytes, bytes]]:
    """Return a world, its rows, and those before the last spending of `idle`.

    No decision that a refold with rows needs speaks of `idle`.
    """
    world = opened()
    world.open("idle", epsilon="1", delta="1e-6")
    world.ask(dataset="idle")
    early = dict(world.rows())
    world.ask(dataset="idle")
    for _ in range(3):
        world.now += WINDOW
        world.ask()
    return world, dict(world.rows()), early


def test_an_old_row_of_an_idle_dataset_is_noticed() -> None:
    world, rows, early = busy_while_one_is_idle()
    assert state_rows(from_rows(world)) == world.rows()
    stale = list((rows | {b"idle": early[b"idle"]}).items())
    with pytest.raises(StateMismatch, match="checksum"):
        from_rows(world, rows=stale)
    # Without a checksum it would be believed, and give back what was spent.
    believed = from_rows(world, rows=[*stale[:-1], without_checksum(stale[-1])])
    assert believed.ledgers["idle"].mechanisms == 1


@pytest.mark.parametrize(
    ("found", "put"),
    [
        (b'"rho":"', b'"rho":"1'),
        (b'"epsilon":"1"', b'"epsilon":"2"'),
        (b'"closed":false', b'"closed":true'),
        (b'"mechanisms":2', b'"mechanisms":1'),
    ],
)
def test_a_changed_row_of_an_idle_dataset_is_noticed(found: bytes, put: bytes) -> None:
    world, rows, _ = busy_while_one_is_idle()
    forged = rows[b"idle"].replace(found, put, 1)
    assert forged != rows[b"idle"]
    with pytest.raises(StateMismatch, match="checksum"):
        from_rows(world, rows=list((rows | {b"idle": forged}).items()))


def test_rows_that_were_swapped_by_their_contents_are_noticed() -> None:
    world, rows, _ = busy_while_one_is_idle()
    swapped = {
        b"idle": rows[b"census"].replace(b'"dataset":"census"', b'"dataset":"idle"'),
        b"census": rows[b"idle"].replace(b'"dataset":"idle"', b'"dataset":"census"'),
    }
    with pytest.raises(StateMismatch, match="checksum"):
        from_rows(world, rows=list((rows | swapped).items()))


def test_rows_without_checksum_are_read_and_get_one() -> None:
    world, rows, _ = busy_while_one_is_idle()
    *datasets, last = rows.items()
    state = from_rows(world, rows=[*datasets, without_checksum(last)])
    assert state_rows(state) == world.rows()


def test_rows_without_checksum_that_do_not_fit_are_noticed() -> None:
    world = opened()
    world.ask("pure:0.1")
    (key, old), owner, _ = world.rows()
    world.ask("pure:5")  # refused: totals stay as they are
    (_, value), _, last = world.rows()
    last = without_checksum(last)
    ghost = key[:-1] + b"x", value.replace(key, key[:-1] + b"x")
    ghosts = owner[0].replace(key, ghost[0]), owner[1].replace(key, ghost[0])
    row = decode_partition_row(last[1])
    foreign = msgspec.structs.replace(row.genesis, application="another")
    theirs = msgspec.json.encode(msgspec.structs.replace(row, genesis=foreign))
    for rows, what in (
        ([last], "has 0 datasets, but the partition's row says 1"),
        ([(key, old), last], "has 0 members, but the partition's row says 1"),
        ([(key, old), ghosts, last], "has 0 owners and 0 members of dataset census"),
        ([(key, value), owner, ghosts, last], "has 2 members, but the partition's row says 1"),
        ([(key, old), owner, last], "has sequence 2; decision"),
        ([ghost, ghosts, last], "has sequence 0; decision"),
        ([(key, value), owner, (last[0], theirs)], "belongs to"),
    ):
        with pytest.raises((StateMismatch, RowContradictsLog), match=what):
            from_rows(world, rows=rows)


CONTRADICTIONS: list[tuple[int, dict[str, object], str]] = [
    (2, {"sequence": 5}, "number 2 comes next"),
    (2, {"dataset": "ghost", "sequence": 1}, "never opened"),
    (2, {"totals": {"rho": "0"}}, "do not fit"),
    (2, {"request": NO_REQUEST}, "no request"),
    (1, {"policy": None}, "no policy"),
    (2, {"source": Origin("elsewhere", 0, 1)}, "unknown source"),
]


@pytest.mark.parametrize(("at", "changes", "message"), CONTRADICTIONS)
def test_a_log_that_contradicts_itself_is_damaged(
    at: int, changes: dict[str, object], message: str
) -> None:
    world = opened()
    world.ask()
    world.log = damaged(world, at, **changes)
    with pytest.raises(LogDamaged, match=message):
        world.replayed()


def test_settings_that_differ_from_the_genesis_are_named_with_their_fix() -> None:
    world = opened()
    began = world.genesis
    world.genesis = msgspec.structs.replace(began, application="other", window_ms=1)
    with pytest.raises(GenesisDiffers) as raised:
        world.replayed()
    assert str(raised.value) == (
        "the log began as one with application test, but the setting is other: "
        "set ACCOUNTANT_APPLICATION=test, "
        f"and with window_ms {began.window_ms}, but the setting is 1: "
        f"set ACCOUNTANT_WINDOW_MS={began.window_ms}"
    )


@pytest.mark.parametrize(("was", "now"), [("name", "group"), ("group", "name")])
def test_a_placement_is_never_switched(was: Placement, now: Placement) -> None:
    world = World(placement=was)
    world.open()
    for rows in [], world.rows():
        world.genesis = msgspec.structs.replace(world.genesis, placement=now)
        replay = Replay(world.genesis)
        if rows:
            for key, value in rows:
                replay.take_row(key, value)
            with pytest.raises(StateMismatch, match="state belongs to"):
                _ = replay.start
        with pytest.raises(GenesisDiffers) as raised:
            world.replayed()
        assert str(raised.value) == (
            f"the log began as one with placement {was}, but the setting is {now}: "
            f"set ACCOUNTANT_PLACEMENT={was}"
        )


def test_the_log_of_another_partition_is_no_matter_of_settings() -> None:
    world = opened()
    world.genesis = msgspec.structs.replace(world.genesis, partition=1, window_ms=1)
    with pytest.raises(LogDamaged, match="the log began as") as raised:
        world.replayed()
    assert not isinstance(raised.value, GenesisDiffers)


@pytest.mark.parametrize("lowered", [{"rho": "0"}, {"mechanisms": 0}])
def test_a_log_that_gives_spending_back_is_damaged(lowered: dict[str, object]) -> None:
    world = opened()
    world.ask()
    world.ask()
    totals = decode_decision(world.log[3]).totals
    assert totals is not None
    world.log = damaged(world, 3, totals={**totals, **lowered})
    with pytest.raises(LogDamaged, match="lowers what was spent of dataset census"):
        world.replayed()


def test_later_rows_replace_earlier_ones_and_none_removes() -> None:
    world = opened()
    early = world.rows()
    world.ask()
    rows = [*early, *world.rows()]
    assert state_rows(from_rows(world, rows=rows)) == world.rows()
    ghost = (b"ghost", early[0][1].replace(b'"census"', b'"ghost"'))
    assert state_rows(from_rows(world, rows=[ghost, *rows, (b"ghost", None)])) == world.rows()
