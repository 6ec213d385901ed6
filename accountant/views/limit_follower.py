"""The limits of datasets, by following decisions and rows of `state`.

Rows and decisions may come twice and out of order: what a later decision of the dataset has left
of a level holds. A grant by a limit that is not known yet is left out; the limit's row, which is
read again until all are there, has it. A row has all of a level, where a decision may have been
read by somebody who did not know the level before it: of the same decision, the row holds.
"""

from __future__ import annotations

from accountant.limits.apply import apply_grant, apply_record
from accountant.limits.state import Key, Level, level_of
from accountant.limits.store import LevelTable
from accountant.limits.wire import LevelMoved, LevelRow
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.header import DecisionHeader
from accountant.records.outcomes import Outcome
from accountant.times import from_iso
from accountant.views.usage import analyst_in


class LevelFollower:
    """The levels of some partitions; each call is O(1).

    Attributes:
        table: the levels of all datasets.
    """

    def __init__(self) -> None:
        self.table = LevelTable()
        self._resets: dict[int, tuple[int, int, int]] = {}  # by partition, first the decision

    def resets(self, partition: int) -> tuple[int, int]:
        """Return how often a partition's clock was set back, and to which time at last."""
        _, count, at = self._last_reset(partition)
        return count, at

    def take_row(self, row: LevelRow) -> None:
        """Take in a level's row.

        Raises: ValueError: an amount in it is none.
        """
        level = level_of(row)
        known = self.table.get(level.key)
        if known is None or known.sequence <= level.sequence:
            self.table.put(level)

    def take_resets(self, partition: int, sequence: int, count: int, at: int) -> None:
        """Take the clock resets of a partition's row, as of its decision `sequence`."""
        if sequence >= self._last_reset(partition)[0]:
            self._resets[partition] = sequence, count, at

    def take_line(self, partition: int, line: DecisionHeader, plan: CompiledPolicy | None) -> None:
        """Take in a decision that resets the clock, sets a limit, or is charged to one.

        Args:
            plan: of the decision's dataset; None where that is not known.
        Raises: ValueError: an amount in it is none.
        """
        if line.outcome is Outcome.CLOCK_RESET:
            known, count, _ = self._last_reset(partition)
            if line.partition_sequence > known:
                at = from_iso(line.decided_at)
                self.take_resets(partition, line.partition_sequence, count + 1, at)
        if line.dataset is None or line.sequence is None:
            return
        dataset, record = line.dataset, line.limit
        if record is not None and plan is not None:
            key: Key = dataset, record.scope, "", record.name or ""
            before, at = self.table.get(key), from_iso(line.decided_at)
            self._put(apply_record(before, dataset, record, plan, at, line.sequence))
        for moved in line.levels:
            self._move(partition, line, moved)

    def _move(self, partition: int, line: DecisionHeader, moved: LevelMoved) -> None:
        dataset, name, sequence = str(line.dataset), moved.name or "", line.sequence or 0
        limit = self.table.get((dataset, moved.scope, "", name))
        if limit is None or limit.rule is None or limit.rule.record.version != moved.version:
            return
        level = limit
        if moved.scope == "each":
            key: Key = dataset, "each", name, analyst_in(line.request) or ""
            level = self.table.get(key) or Level(*key)
        count = self.resets(partition)[0]
        self._put(apply_grant(level, limit, moved, sequence, count))

    def _last_reset(self, partition: int) -> tuple[int, int, int]:
        return self._resets.get(partition, (-1, 0, 0))

    def _put(self, level: Level) -> None:
        known = self.table.get(level.key)
        if known is None or known.sequence < level.sequence:
            self.table.put(level)
