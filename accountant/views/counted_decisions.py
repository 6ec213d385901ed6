"""Decisions that were read from a log, with the few fields that counting takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from accountant.amounts import parse_units
from accountant.records import Decision
from accountant.records.encoded_decision import CountedDecision
from accountant.records.header import DecisionHeader
from accountant.records.parts import by_dataset
from accountant.times import from_iso
from accountant.views.usage import analyst_in, returned_by

C = TypeVar("C", bound=CountedDecision)

Run = Sequence[CountedDecision]
"""Decisions on one dataset in the order of the log."""


def counted_decisions(line: Decision | DecisionHeader) -> list[CountedDecision]:
    """Return a decision that was read, for each of its datasets."""
    return [_counted(part) for part in by_dataset(line)]


def _counted(line: Decision | DecisionHeader) -> CountedDecision:
    analyst, charged = None, None
    if line.sequence is not None:
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
        analyst,
        charged,
    )


def runs(decided: Iterable[C]) -> Mapping[str, Sequence[C]]:
    """Return decisions of one partition by dataset, without those that have none."""
    found: dict[str, list[C]] = {}
    for each in decided:
        if each.dataset is not None:
            found.setdefault(each.dataset, []).append(each)
    return found
