"""Budgets and usage of many datasets, kept by following their decisions.

Every decision carries running totals, so of a run of them on one dataset only the last is
decoded whole; the others are counted by the few fields of a `Line`. What a run comes down to
is what `views.fold_decision` gives for one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence

import msgspec

from accountant.amounts import parse_units
from accountant.clock import from_iso
from accountant.outcomes import Outcome, Reason
from accountant.records import NO_REQUEST, Origin, Snapshot, decode_decision
from accountant.usage import Usage, analyst_in
from accountant.views import Alert, DatasetView, alerts, fold_decision, fold_numbered, fold_snapshot

_PLAIN = frozenset({Outcome.GRANTED, Outcome.REFUSED})


class Line(msgspec.Struct, frozen=True, tag_field="type", tag="decision"):
    """The fields of a decision that counting takes; see `records.Decision`."""

    partition_sequence: int
    decided_at: str
    outcome: Outcome
    reason: Reason | None = None
    dataset: str | None = None
    sequence: int | None = None
    cost: dict[str, str] | None = None
    crossed: tuple[str, ...] = ()
    request: msgspec.Raw = NO_REQUEST
    source: Origin | None = None


Run = Sequence[tuple[Line, bytes]]
"""Decisions on one dataset in the order of the log, each with its bytes."""


decode_line = msgspec.json.Decoder(Line).decode


def runs(values: Sequence[bytes]) -> dict[str, Run]:
    """Return decisions of one partition by dataset, without those that have none."""
    return runs_of(map(decode_line, values), values)


def runs_of(lines: Iterable[Line], values: Sequence[bytes]) -> dict[str, Run]:
    """As `runs`, of decisions whose lines are decoded."""
    found: dict[str, list[tuple[Line, bytes]]] = {}
    for line, value in zip(lines, values, strict=True):
        if line.dataset is not None:
            found.setdefault(line.dataset, []).append((line, value))
    return dict(found)


class Following:
    """Views of every dataset of some partitions, each partition's log read in its order.

    Args:
        budgets: by dataset.
        usage: by (dataset, analyst), of the decisions that were taken in.
    """

    def __init__(
        self,
        budgets: MutableMapping[str, DatasetView],
        usage: MutableMapping[tuple[str, str], Usage],
    ) -> None:
        self.budgets = budgets
        self.usage = usage

    def take_row(self, row: Snapshot) -> tuple[Alert, ...]:
        """Take in a dataset's row; return the thresholds newly seen to be crossed."""
        before = self.budgets.get(row.dataset)
        after = fold_snapshot(before, row)
        if after is before:
            return ()
        self.budgets[row.dataset] = after
        return alerts(before, after)

    def take_run(self, dataset: str, run: Run) -> list[Alert]:
        """Take in a run; return the thresholds newly seen to be crossed, in their order."""
        before = self.budgets.get(dataset)
        crossed: list[Alert] = []
        view = before
        for after in fold_run(view, run):
            crossed += alerts(view, after)
            view = after
        if view is None:
            return crossed
        if view is not before:
            self.budgets[dataset] = view
        self._count(dataset, view, run)
        return crossed

    def _count(self, dataset: str, view: DatasetView, run: Run) -> None:
        unit = next(iter(view.budget))
        for line, _ in run:
            sequence = line.sequence
            if sequence is None or line.outcome not in _PLAIN:
                continue
            analyst = analyst_in(line.request)
            if analyst is None:
                continue  # an owner's record that was refused
            use = self.usage.get((dataset, analyst))
            if use is None:
                use = self.usage[dataset, analyst] = Usage(unit, view.generation)
            granted = line.outcome is Outcome.GRANTED
            charged = parse_units((line.cost or {}).get(unit, "0")) if granted else None
            use.take(sequence, from_iso(line.decided_at), charged)


def fold_run(view: DatasetView | None, run: Run) -> Iterator[DatasetView]:
    """Yield the view after each decision that may change more than sums, and after the last."""
    counted: list[tuple[Line, bytes]] = []
    for line, value in run:
        if view is not None and not _is_special(view, line):
            counted.append((line, value))
            continue
        if counted:
            assert view is not None
            view = _fold_counted(view, counted)
            yield view
            counted = []
        after = fold_decision(view, decode_decision(value))
        if after is not None:
            yield after
        view = after
    if counted:
        assert view is not None
        yield _fold_counted(view, counted)


def _is_special(view: DatasetView, line: Line) -> bool:
    if line.crossed:
        return True
    if line.outcome is Outcome.REFUSED:
        # The first that do not fit may exhaust the dataset, or halt it.
        return line.reason is Reason.EXHAUSTED and not view.exhausted
    return line.sequence is not None and line.outcome is not Outcome.GRANTED


def _fold_counted(view: DatasetView, counted: Run) -> DatasetView:
    outcomes, reasons = dict(view.outcomes), dict(view.reasons)
    last_number, last_sequence = view.partition_sequence, view.sequence
    at, last = view.last_decided_at, None
    for line, value in counted:
        sequence = line.sequence
        if (
            line.reason is Reason.WRONG_PARTITION
            or line.partition_sequence <= last_number
            or (sequence is not None and sequence <= last_sequence)
        ):
            continue
        last_number, at = line.partition_sequence, line.decided_at
        outcomes[line.outcome.value] = outcomes.get(line.outcome.value, 0) + 1
        if line.reason is not None:
            reasons[line.reason.value] = reasons.get(line.reason.value, 0) + 1
        if sequence is not None:
            last_sequence, last = sequence, value
    if last_number == view.partition_sequence:
        return view
    moved = msgspec.structs.replace(
        view,
        partition_sequence=last_number,
        outcomes=outcomes,
        reasons=reasons,
        last_decided_at=at,
    )
    return moved if last is None else fold_numbered(moved, decode_decision(last))
