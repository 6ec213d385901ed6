"""The limits of datasets, by following decisions and rows of `state`.

Rows and decisions may come twice and out of order: the later decision of the dataset wins. The
follower skips a grant under a limit that it does not know yet: the limit's row includes that grant,
and is read until all rows are there. At the same decision the row wins: it is complete, while the
decision may have been applied without the state before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from accountant.limits.applicable_limits import limit_at
from accountant.limits.apply import apply_grant, apply_record
from accountant.limits.charge import LimitCharge, charge_of, growth
from accountant.limits.state import Key, LimitState, limit_state_of
from accountant.limits.store import LimitTable
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.records.header import DecisionHeader
from accountant.records.limit_records import LimitUpdate, ScopeRow
from accountant.times import ClockResets, from_iso
from accountant.views.usage import analyst_in


class ScopeFollower:
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

    def take_row(self, row: ScopeRow) -> None:
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
        if line.outcome.resets_clock:
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
        found = self._states(line, update)
        if found is not None:
            state, limit = found
            resets = self.resets(partition).number
            self._put(apply_grant(state, limit, update, line.sequence or 0, resets, None))

    def charges(
        self, partition: int, line: DecisionHeader, plan: CompiledPolicy | None
    ) -> tuple[LimitCharge, ...]:
        """Return what a reservation is charged at each limit, or what a step of it gives back.

        Call it before `take_line`. Limits that are not known yet are left out.

        Args:
            plan: of the decision's dataset; None where that is not known.
        Raises: ValueError: an amount in it is none.
        """
        if line.reservation is None or plan is None:
            return ()
        return tuple(self._charges(partition, line, plan))

    def _charges(
        self, partition: int, line: DecisionHeader, plan: CompiledPolicy
    ) -> Iterator[LimitCharge]:
        resets, at = self.resets(partition), from_iso(line.decided_at)
        for update in line.levels:
            found = self._states(line, update)
            if found is None:
                continue
            before, limit = found
            after = apply_grant(before, limit, update, line.sequence or 0, resets.number, None)
            rule = limit.rule
            assert rule is not None
            if line.outcome.charges:
                applied = limit_at(before, rule, plan, at, resets)
                yield charge_of(before, after, rule, update, applied)
            elif before.counted is not None and after.counted is not None:
                back = growth(after.counted.amounts, before.counted.amounts)
                yield LimitCharge(after.key, counted=back)

    def _states(
        self, line: DecisionHeader, update: LimitUpdate
    ) -> tuple[LimitState, LimitState] | None:
        """Return the state that a decision moves, and the limit whose rule applies to it."""
        dataset, name = str(line.dataset), update.name or ""
        limit = self.table.get((dataset, update.scope, "", name))
        if limit is None or limit.rule is None or limit.rule.record.version != update.version:
            return None
        if update.scope != "each":
            return limit, limit
        # An owner may void: a step moves the count of the analyst who reserved.
        held = line.reservation
        analyst = analyst_in(line.request) if held is None else held.analyst
        key: Key = dataset, "each", name, analyst or ""
        return self.table.get(key) or LimitState(*key), limit

    def _last_reset(self, partition: int) -> tuple[int, int, int]:
        return self._resets.get(partition, (-1, 0, 0))

    def _put(self, state: LimitState) -> None:
        known = self.table.get(state.key)
        if known is None or known.sequence < state.sequence:
            self.table.put(state)
