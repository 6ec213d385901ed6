"""The limits of datasets, by following decisions and rows of `state`.

Rows and decisions may come twice and out of order: the later decision of the dataset wins. The
follower skips a grant under a limit that it does not know yet: the limit's row includes that grant,
and is read until all rows are there. At the same decision the row wins: it is complete, while the
decision may have been applied without the state before it.
"""

from __future__ import annotations

from accountant.limits.apply import apply_grant, apply_record
from accountant.limits.state import Key, LimitState, limit_state_of
from accountant.limits.store import LimitTable
from accountant.limits.wire import LevelRow, LimitUpdate
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.header import DecisionHeader
from accountant.records.outcomes import Outcome
from accountant.times import ClockResets, from_iso
from accountant.views.usage import analyst_in


class LevelFollower:
    """Follows the limits of some partitions; each call is O(1).

    Attributes:
        table: the limits of all datasets.
    """

    def __init__(self) -> None:
        self.table = LimitTable()
        self._resets: dict[int, tuple[int, int, int]] = {}  # by partition, first the decision

    def resets(self, partition: int) -> ClockResets:
        """Return the resets of a partition's clock."""
        _, number, last_to = self._last_reset(partition)
        return ClockResets(number, last_to)

    def take_row(self, row: LevelRow) -> None:
        """Take in a limit's row.

        Raises: ValueError: a text is not an amount.
        """
        state = limit_state_of(row)
        known = self.table.get(state.key)
        if known is None or known.sequence <= state.sequence:
            self.table.put(state)

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
        for update in line.levels:
            self._take_update(partition, line, update)

    def _take_update(self, partition: int, line: DecisionHeader, update: LimitUpdate) -> None:
        dataset, name, sequence = str(line.dataset), update.name or "", line.sequence or 0
        limit = self.table.get((dataset, update.scope, "", name))
        if limit is None or limit.rule is None or limit.rule.record.version != update.version:
            return
        state = limit
        if update.scope == "each":
            key: Key = dataset, "each", name, analyst_in(line.request) or ""
            state = self.table.get(key) or LimitState(*key)
        resets = self.resets(partition).number
        self._put(apply_grant(state, limit, update, sequence, resets))

    def _last_reset(self, partition: int) -> tuple[int, int, int]:
        return self._resets.get(partition, (-1, 0, 0))

    def _put(self, state: LimitState) -> None:
        known = self.table.get(state.key)
        if known is None or known.sequence < state.sequence:
            self.table.put(state)
