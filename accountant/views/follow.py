"""Budgets and usage of many datasets, updated with their decisions.

Every decision carries running totals, so of a run of them on one dataset only the last is
decoded whole; the others are counted by the few fields of a `CountedDecision`. What a run
comes down to is what `views.fold_decision` gives for one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Final, TypeVar

import msgspec

from accountant.amounts import parse_units
from accountant.records import (
    Snapshot,
    decode_decision,
)
from accountant.records.encoded_decision import CountedDecision
from accountant.records.header import DecisionHeader
from accountant.records.outcomes import Outcome, Reason, paused_by
from accountant.records.parts import lines_by_dataset
from accountant.times import from_iso, iso
from accountant.views.datasets import (
    DatasetView,
    fold_decision,
    fold_numbered,
    fold_snapshot,
)
from accountant.views.usage import Rows, UsageTable, Vacancies, analyst_in, returned_by

C = TypeVar("C", bound=CountedDecision)

# Each decision is compared with these: the members of an enum take longer.
_GRANTED: Final = Outcome.GRANTED
_REFUSED: Final = Outcome.REFUSED

Run = Sequence[CountedDecision]
"""Decisions on one dataset in the order of the log."""


def counted_decision(line: DecisionHeader, value: bytes, *, usage: bool = True) -> CountedDecision:
    """Return a decision that was read, as far as counting takes it; `usage`: also by analyst."""
    analyst, charged = None, None
    if usage and line.sequence is not None:
        if line.outcome.charges:
            analyst = analyst_in(line.request)
            # The sum that is the budget's first is the first of a cost, too.
            charged = parse_units(next(iter((line.cost or {}).values()), "0"))
        elif line.outcome.is_refusal:
            analyst = analyst_in(line.request)
        elif line.outcome.is_step and line.reservation is not None:
            analyst = line.reservation.analyst
            charged = -returned_by(line.reservation, line.totals)
    return CountedDecision(
        line.partition_sequence,
        line.outcome,
        line.reason,
        line.dataset,
        line.sequence,
        from_iso(line.decided_at),
        value,
        analyst,
        charged,
        # Most decisions have no levels, and are spared the loop.
        bool(
            line.crossed
            or line.reached
            or (line.levels and any(level.crossed for level in line.levels))
        ),
    )


def counted_decisions(
    line: DecisionHeader, value: bytes, *, usage: bool = True
) -> list[CountedDecision]:
    """Return what `counted_decision` does, of a decision over several datasets for each of them."""
    return [counted_decision(*each, usage=usage) for each in lines_by_dataset(line, value)]


def runs(decided: Iterable[C]) -> Mapping[str, Sequence[C]]:
    """Return decisions of one partition by dataset, without those that have none."""
    found: dict[str, list[C]] = {}
    for each in decided:
        if each.dataset is not None:
            found.setdefault(each.dataset, []).append(each)
    return found


class ViewFolder:
    """Views of every dataset of some partitions, each partition's log read in its order.

    Args:
        budgets: by dataset.
        usage: by dataset, then by analyst; of the decisions that were taken in.
        vacancies: for rows of `usage`.
    """

    def __init__(
        self,
        budgets: MutableMapping[str, DatasetView],
        usage: MutableMapping[str, Rows],
        vacancies: Vacancies | None = None,
    ) -> None:
        self.budgets = budgets
        self.usage = usage
        self._usage_table = UsageTable(usage, vacancies)

    def take_row(self, row: Snapshot) -> None:
        """Take in a dataset's row."""
        before = self.budgets.get(row.dataset)
        after = fold_snapshot(before, row)
        if after is not before:
            self.budgets[row.dataset] = after

    def take_run(self, dataset: str, run: Run) -> None:
        """Take in a run."""
        before = self.budgets.get(dataset)
        view = fold_run(before, run)
        if view is None:
            return
        if view is not before:
            self.budgets[dataset] = view
        unit = next(iter(view.budget)), view.generation
        self._usage_table.take(run, lambda _: unit)


def fold_run(view: DatasetView | None, run: Run) -> DatasetView | None:
    """Return the view after a run: of decisions that change sums alone, the last one counts."""
    plain: list[CountedDecision] = []
    for each in run:
        if view is not None and not _is_special(view, each):
            plain.append(each)
            continue
        if plain:
            assert view is not None
            view = _fold_plain(view, plain)
            plain = []
        view = fold_decision(view, decode_decision(each.value))
    if plain:
        assert view is not None
        view = _fold_plain(view, plain)
    return view


def _is_special(view: DatasetView, each: CountedDecision) -> bool:
    if each.crossed:
        return True
    if each.outcome is _REFUSED:
        # The first that do not fit may exhaust the dataset, or halt it. One may show that the
        # view has missed a pause or a resume.
        if each.reason is Reason.EXHAUSTED and not view.exhausted:
            return True
        return paused_by(each.outcome, each.reason) not in {None, view.paused}
    if each.outcome is _GRANTED:
        if view.paused:
            return True
        # The first of a population dates what may still be opened beside it.
        return view.policy.population is not msgspec.UNSET and view.granted_at is None
    return each.sequence is not None


def _fold_plain(view: DatasetView, plain: Run) -> DatasetView:
    outcomes, reasons = dict(view.outcomes), dict(view.reasons)
    last_number, last_sequence = view.partition_sequence, view.sequence
    at, last = 0, None
    for each in plain:
        sequence = each.sequence
        if (
            each.reason is Reason.WRONG_PARTITION
            or each.partition_sequence <= last_number
            or (sequence is not None and sequence <= last_sequence)
        ):
            continue
        last_number, at = each.partition_sequence, each.decided_at
        outcome = each.outcome._value_  # `value` is a function of Python
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if each.reason is not None:
            reason = each.reason._value_
            reasons[reason] = reasons.get(reason, 0) + 1
        if sequence is not None:
            last_sequence, last = sequence, each.value
    if last_number == view.partition_sequence:
        return view
    moved = msgspec.structs.replace(
        view,
        partition_sequence=last_number,
        outcomes=outcomes,
        reasons=reasons,
        last_decided_at=iso(at),
    )
    return moved if last is None else fold_numbered(moved, decode_decision(last))
