"""A follower has the state of the ledger, from whichever rows and decisions it read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from accountant.dataset_ledger import DatasetLedger
from accountant.errors import LogDamaged, MadeByNewerVersion
from accountant.partition import Partition
from accountant.records import Decision, decode_partition_row
from accountant.records.header import decode_header
from accountant.replay.follow import FollowedPartition, OtherLog
from accountant.replay.replay import StateMismatch, state_rows
from tests.accountant.judged_life import Life
from tests.accountant.partition import limit_loads
from tests.accountant.partition.division import ask_for_outcome, divide, divided
from tests.accountant.reservations import loads
from tests.accountant.world import World, code
from tests.faults.forged_rows import PARTITION, forged, replaced, with_right_checksum
from tests.nightly import rounds

RECORDS = 500


def read(followed: FollowedPartition, values: Iterable[bytes]) -> list[Decision]:
    """Have a follower take decisions; return those that it applied."""
    found = (followed.take(decode_header(value), value) for value in values)
    return [decision for decision in found if decision is not None]


def opened() -> World:
    """Return a ledger with the dataset census, of epsilon 1 in sum."""
    world = World()
    assert code(world.open("census", filter="basic", epsilon="1")) == "opened"
    return world


def from_rows(rows: Iterable[tuple[bytes, bytes]]) -> FollowedPartition:
    return FollowedPartition.from_rows(0, rows)


def from_log(world: World, values: Iterable[bytes] | None = None) -> FollowedPartition:
    followed = FollowedPartition.from_beginning(world.genesis)
    read(followed, world.log if values is None else values)
    return followed


class PastLife(Life):
    """A life with resets of the clock.

    Attributes:
        past: numbers of decisions, with the rows of `state` as they were after each.
    """

    def __init__(self, seed: int) -> None:
        self.past: list[tuple[int, dict[bytes, bytes]]] = []
        super().__init__(seed)

    def commit(self) -> None:
        super().commit()
        self.past.append((len(self.log), dict(self.rows)))

    def live(self, load: limit_loads.Load | loads.Load) -> None:
        batch = 1
        for _ in range(RECORDS):
            self.decide(load.next())
            batch -= 1
            if batch <= 0:
                self.commit()
                batch = self.chance.choice([1, 1, 2, 5, 20])
            if self.chance.random() < 0.01:
                self.reset_clock(load.set_back())
        self.commit()


@pytest.mark.parametrize("of", ["limits", "reservations"])
@pytest.mark.parametrize("seed", range(rounds(2, 40)))
def test_a_follower_has_the_state_of_the_ledger_from_any_rows_on(of: str, seed: int) -> None:
    life = PastLife(seed + 50)
    if of == "limits":
        life.live(limit_loads.Load(life.chance, life.judge))
    else:
        life.live(loads.Load(life.chance, life.judge, datasets=5))
    chance, expected = random.Random(seed), state_rows(life.state)
    whole = FollowedPartition.from_beginning(life.state.genesis)
    read(whole, life.log)
    assert state_rows(whole.state) == expected
    for end, rows in [life.past[-1], *chance.sample(life.past, 6)]:
        followed = from_rows(chance.sample(list(rows.items()), len(rows)))
        assert followed.state.sequence == end - 1
        # Decisions from before the rows come, too, and a reader that reconnects repeats some.
        first = max(0, end - chance.choice([0, 1, 20, 200]))
        read(followed, life.log[first:])
        again = max(first, len(life.log) - chance.choice([1, 10]))
        assert read(followed, life.log[again:]) == []
        assert followed.is_confirmed == (first < len(life.log))
        assert state_rows(followed.state) == expected


def test_a_repeat_is_dropped_and_a_missing_decision_is_noticed() -> None:
    world = opened()
    for _ in range(4):
        assert code(world.ask("pure:0.1")) == "granted"
    followed = from_rows(world.rows())
    assert not followed.is_confirmed, "nobody has compared the rows with the log"
    assert read(followed, world.log[2:]) == []
    assert followed.is_confirmed
    known = len(world.log)
    for _ in range(3):
        assert code(world.ask("pure:0.01")) == "granted"
    with pytest.raises(OtherLog, match=f"found decision {known + 1} .* expected decision {known}"):
        read(followed, world.log[known + 1 :])
    assert [each.partition_sequence for each in read(followed, world.log[known:])] == [
        *range(known, known + 3)
    ]


def forked(epsilon: str, count: int = 3) -> World:
    """Return a ledger of the same beginning, whose next decisions are its own."""
    world = opened()
    assert code(world.ask("pure:0.1")) == "granted"
    for _ in range(count):
        assert code(world.ask(f"pure:{epsilon}")) == "granted"
    return world


def test_another_decision_in_the_place_of_one_that_was_applied_is_noticed() -> None:
    one, other = forked("0.02"), forked("0.03", count=4)
    same = [a == b for a, b in zip(one.log, other.log, strict=False)]
    assert same == [True] * 3 + [False] * 3
    # The next one, the last one, and one before that.
    for first in (6, 5, 4):
        followed = from_log(one)
        if first == 4:
            assert read(followed, other.log[3:4]) == []  # it may be older than the rows are
        with pytest.raises(OtherLog):
            read(followed, other.log[first : first + 2])
    followed = from_log(one)
    assert read(followed, other.log[2:5]) == []
    assert not followed.is_confirmed, "the log that was read again ends before the last decision"


def test_a_decision_that_cannot_be_applied_voids_the_state() -> None:
    world = opened()
    for claim in ("pure:0.2", "pure:0.1"):
        assert code(world.ask(claim)) == "granted"
    value = world.log.pop()
    for old, new, error in (
        (b'"sequence":3', b'"sequence":4', LogDamaged),
        (b'"mechanisms":2,"epsilon":"0.3"', b'"mechanisms":2,"epsilon":"x"', LogDamaged),
        (b'"mechanisms":2,"epsilon":"0.3"', b'"mechanisms":2,"epsilon":"0.1"', LogDamaged),
        (b'"rules":1', b'"rules":9', MadeByNewerVersion),
    ):
        assert old in value
        with pytest.raises(error):
            read(from_log(world), [value.replace(old, new)])


def test_rows_are_taken_only_if_all_of_one_moment_are_there() -> None:
    world = divided()
    divide(world, "team", "blue", part="0.5")
    before = dict(world.rows())
    assert code(world.ask("pure:0.1", analyst="ana")) == "granted"
    rows = dict(world.rows())
    assert state_rows(from_rows(rows.items()).state) == state_rows(world.state)
    changed = [key for key in rows if rows[key] != before.get(key)]
    assert len(changed) == 3  # the dataset's, the limit's, the partition's
    for key in rows:
        with pytest.raises(StateMismatch):
            from_rows((other, value) for other, value in rows.items() if other != key)
        for damaged in (b"garbage", b"[" * 5_000, b'{"type":"\xff"}'):
            with pytest.raises(StateMismatch):
                from_rows({**rows, key: damaged}.items())
    for key in changed:
        with pytest.raises(StateMismatch):
            from_rows({**rows, key: before[key]}.items())
    with pytest.raises(StateMismatch, match="the partition's row"):
        from_rows([])


def legacy(rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return rows whose partition row has no checksum, as earlier versions wrote it."""
    own = msgspec.structs.replace(decode_partition_row(rows[PARTITION]), checksum=msgspec.UNSET)
    return {**rows, PARTITION: msgspec.json.encode(own)}


def test_a_legacy_partition_row_without_a_checksum_counts_its_rows() -> None:
    rows = legacy(dict(opened().rows()))
    assert from_rows(rows.items()).state.ledgers
    with pytest.raises(StateMismatch, match="0 datasets"):
        from_rows((key, value) for key, value in rows.items() if key != b"census")


FORGED: dict[str, tuple[bytes, Callable[[bytes], bytes], type[Exception] | None]] = {
    "an earlier decision of the dataset": (
        b"census",
        replaced(b'"sequence":2', b'"sequence":1'),
        LogDamaged,
    ),
    "more was spent": (
        b"census",
        replaced(
            b'"totals":{"mechanisms":1,"epsilon":"0.1"', b'"totals":{"mechanisms":1,"epsilon":"0.9"'
        ),
        LogDamaged,
    ),
    "another last decision": (
        PARTITION,
        replaced(b'"head":"sha256:', b'"head":"sha256:0'),
        OtherLog,
    ),
    # Only an audit compares a row with the decisions before it.
    "less was spent": (
        b"census",
        replaced(
            b'"totals":{"mechanisms":1,"epsilon":"0.1"',
            b'"totals":{"mechanisms":1,"epsilon":"0.01"',
        ),
        None,
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_rows_with_right_checksums(what: str) -> None:
    key, change, error = FORGED[what]
    world = opened()
    assert code(world.ask("pure:0.1")) == "granted"
    rows = dict(world.rows())
    changed = {**rows, key: change(rows[key])} if key == PARTITION else forged(rows, key, change)
    assert changed != rows
    followed = from_rows(with_right_checksum(changed).items())
    assert code(world.ask("pure:0.1")) == "granted"
    if error is not None:
        with pytest.raises(error):
            read(followed, world.log[3:])
        return
    read(followed, world.log[3:])
    assert state_rows(followed.state) == world.rows(), "the next decision has the right sums"


class WatchedLedgers(dict[str, DatasetLedger]):
    """The ledgers of a state, which note `moves` whenever one is replaced."""

    def __init__(self, state: Partition) -> None:
        super().__init__(state.ledgers)
        self.state = state
        self.moves = list[int]()

    def __setitem__(self, name: str, ledger: DatasetLedger) -> None:
        self.moves.append(self.state.moves)
        super().__setitem__(name, ledger)


def test_moves_is_odd_while_a_decision_is_applied() -> None:
    world = divided()
    divide(world, "analyst", "ben", reserved="0.9")
    known = len(world.log)
    for _ in range(3):
        assert ask_for_outcome(world, "ben", "0.001") == "granted"
    followed = from_log(world, world.log[:known])
    before, state = followed.state.moves, followed.state
    watched = state.ledgers = WatchedLedgers(state)
    read(followed, world.log[known - 2 :])
    assert before % 2 == 0
    assert watched.moves == [before + 1, before + 3, before + 5]
    assert state.moves == before + 6
