"""Levels that are followed are those of a refold, from wherever and however often they are read."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

import msgspec
import pytest

from accountant.limits.state import row_of
from accountant.limits.store import LimitTable
from accountant.partition import Partition
from accountant.records import decode_partition_row, encode
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.limit_records import ScopeRow
from accountant.records.state_rows import decode_row
from accountant.replay.replay import Replay
from accountant.views.limit_follower import ScopeFollower
from tests.accountant.partition.limit_loads import Load
from tests.accountant.partition.test_limits_model import GENESIS, Life
from tests.nightly import rounds

RECORDS: Final = 500


class Past(Life):
    """A life, and the rows of `state` as each of its transactions has left them.

    Attributes:
        kept: numbers of decisions, with the rows as they are after each.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kept: list[tuple[int, dict[bytes, bytes]]] = []

    def commit(self) -> None:
        super().commit()
        self.kept.append((len(self.log), dict(self.rows)))

    def live(self) -> None:
        load, batch = Load(self.chance, self.model), 1
        for _ in range(RECORDS):
            self.decide(load.next())
            batch -= 1
            if batch <= 0:
                self.commit()
                batch = self.chance.choice([1, 1, 2, 5, 20])
            if self.chance.random() < 0.02:
                self.reset_clock(load.set_back())
        self.commit()


class Reader:
    """Reads rows and decisions into what it follows, as a gateway does.

    Attributes:
        state: by which a dataset's policy is found, as it is at the end.
    """

    def __init__(self, state: Partition) -> None:
        self.state = state
        self.levels = ScopeFollower()

    def read_rows(self, rows: Iterable[bytes]) -> None:
        for value in rows:
            if value.startswith(b'{"type":"partition"'):
                own = decode_partition_row(value)
                resets = own.resets or 0, own.reset_at or 0
                self.levels.take_resets(0, own.partition_sequence, *resets)
            elif isinstance(row := decode_row(value), ScopeRow):
                self.levels.take_row(row)

    def read(self, lines: Iterable[DecisionHeader]) -> None:
        for line in lines:
            ledger = self.state.ledgers.get(line.dataset or "")
            self.levels.take_line(0, line, None if ledger is None else ledger.plan)

    def check(self) -> None:
        """Check that it has come to what a partition has."""
        right = self.state.levels
        assert rows_by_key(self.levels.table, right) == rows_by_key(right, right)
        assert self.levels.resets(0) == self.state.resets
        for dataset in self.state.ledgers:
            table, right = self.levels.table, self.state.levels
            found, kept = table.reserved(dataset), right.reserved(dataset)
            assert found == kept or not (any(found) or any(kept))
            for team in ("", *(f"t{number}" for number in range(10))):
                one, other = table.reserved_in(dataset, team), right.reserved_in(dataset, team)
                assert one == other or not any((*one.unused, *other.unused))
            limits = {level.key for level in right if level.dataset == dataset and level.rule}
            assert {level.key for level in table.limits_of(dataset)} == limits


def rows_by_key(table: LimitTable, right: LimitTable) -> dict[str, object]:
    """Return every level as its row tells it, with what its share withholds.

    A follower does not follow which thresholds were reported, which only decisions depend on.
    """
    found: dict[str, object] = {}
    for level in table:
        state, shown = right.get(level.key), level
        if state is not None and state.reported is not None:
            shown = msgspec.structs.replace(level, reported=None, sequence=0)
        found[str(level.key)] = encode(row_of(shown)), level.unused
    return found


def replayed(life: Past) -> Partition:
    refold = Replay(GENESIS)
    for value in life.log:
        refold.take_decision(value)
    return refold.finish()


@pytest.mark.parametrize("seed", range(rounds(3, 40)))
def test_limits_read_in_any_order_and_repeatedly_equal_those_of_a_replay(seed: int) -> None:
    life = Past(seed + 50)
    life.live()
    assert len(life.state.levels.levels) > 20
    chance, state = random.Random(seed), replayed(life)
    lines = [decode_header(value) for value in life.log]
    whole = Reader(state)
    whole.read(lines)
    whole.check()
    whole.read_rows(life.rows.values())
    whole.read(lines)
    whole.check()
    for _ in range(6):
        end, rows = chance.choice(life.kept)
        reader = Reader(state)
        reader.read_rows(chance.sample(list(rows.values()), len(rows)))
        # As a gateway does: rows as they are now, decisions from some time before on.
        place = max(0, end - chance.choice([0, 1, 20, 200]))
        while place < len(lines):
            many = chance.choice([1, 3, 30])
            reader.read(lines[place : place + many])
            place += many
            if chance.random() < 0.2:  # a reader that was interrupted begins again before its end
                place = max(0, place - chance.choice([1, 10, 100]))
            if chance.random() < 0.05:  # rows that were not all there are read again, old ones too
                reader.read_rows(chance.choice(life.kept)[1].values())
        reader.check()


@pytest.mark.parametrize("seed", range(rounds(3, 40)))
def test_rows_that_arrive_after_the_decisions_are_still_used(seed: int) -> None:
    life = Past(seed + 90)
    life.live()
    chance = random.Random(seed)
    for _ in range(6):
        end, rows = chance.choice(life.kept)
        reader = Reader(life.state)
        reader.read_rows(chance.sample(list(rows.values()), len(rows) // 2))
        reader.read(decode_header(value) for value in life.log[end:])
        reader.read_rows(life.rows.values())
        reader.check()
