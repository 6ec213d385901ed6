"""The use of datasets: grants and refusals by dataset and analyst, since this process started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import NamedTuple

from accountant.amounts import format_units
from accountant.dataset_ledger import DatasetLedger
from accountant.records.encoded_decision import EncodedDecision
from accountant.views.usage import Rows, Unit, Usage, UsageRow, UsageTable, Vacancies
from streams.metrics.snapshot import AnalystUse


class AnalystPair(NamedTuple):
    """One analyst of one dataset."""

    dataset: str
    analyst: str
    use: Usage


def uses_of(pairs: Iterable[AnalystPair]) -> list[AnalystUse]:
    """Return pairs in the form of a scrape."""
    return [
        AnalystUse(
            dataset=dataset,
            analyst=analyst,
            unit=use.unit,
            spent=format_units(use.spent),
            outcomes={"granted": use.granted, "refused": use.refused},
        )
        for dataset, analyst, use in pairs
    ]


def uses_of_rows(rows: Iterable[UsageRow]) -> list[AnalystUse]:
    """Return an index's rows by analyst in the form of a scrape."""
    return [
        AnalystUse(
            dataset=row.dataset,
            analyst=row.key,
            unit=row.unit,
            spent=row.spent,
            outcomes={"granted": row.granted, "refused": row.refused},
        )
        for row in rows
    ]


class LiveUsage(UsageTable):
    """Usage of the datasets held, and the pairs that the metrics show.

    Args:
        every: count the use of every dataset, and not only the pairs that are shown.
        shown: how many pairs of dataset and analyst to show, the first to occur. A new pair takes
            a slot that becomes free.
        vacancies: for rows.

    Attributes:
        last: number of the last partition decision on each dataset.
    """

    def __init__(self, *, every: bool, shown: int, vacancies: Vacancies | None = None) -> None:
        super().__init__(None, vacancies)
        self._every = every
        self._max_shown = shown
        self._shown: list[AnalystPair] = []
        self._taken = 0  # all decisions, except those of forgotten pairs that were shown
        self.last: dict[str | None, int] = {}

    def count(
        self, decided: Iterable[EncodedDecision], ledgers: Mapping[str, DatasetLedger]
    ) -> None:
        """Count the grants and refusals among some decisions."""
        numbered = [each for each in decided if each.sequence is not None]
        self.last.update({each.dataset: each.partition_sequence for each in numbered})

        def unit_of(dataset: str) -> Unit:
            ledger = ledgers[dataset]
            return ledger.plan.kind.sums[0], ledger.generation

        self._taken += self.take(numbered, unit_of)

    def _row(self, dataset: str, analyst: str, unit_of: Callable[[str], Unit]) -> Usage | None:
        has_room = len(self._shown) < self._max_shown
        if not self._every and not has_room:
            return None
        row = super()._row(dataset, analyst, unit_of)
        if has_room and row is not None and analyst in self.rows[dataset]:
            self._shown.append(AnalystPair(dataset, analyst, row))
        return row

    def forget(self, datasets: Iterable[str]) -> None:
        """Forget datasets that moved away."""
        gone = set(datasets)
        for name in gone:
            self.last.pop(name, None)
            self._vacancies.left += len(self.rows.pop(name, {}))
        # Keep counting hidden pairs: a counter must not fall.
        self._taken -= _decisions(pair for pair in self._shown if pair.dataset in gone)
        self._shown = [pair for pair in self._shown if pair.dataset not in gone]

    def of(self, dataset: str) -> Rows:
        """Return a copy of the use of a dataset; see `views_of`."""
        return {name: copy(row) for name, row in self.rows.get(dataset, {}).items()}

    def shown(self) -> tuple[list[AnalystPair], int]:
        """Return a copy of the pairs that are shown, and the number of others' decisions."""
        pairs = [AnalystPair(dataset, analyst, copy(row)) for dataset, analyst, row in self._shown]
        return pairs, self._taken - _decisions(pairs)


def _decisions(pairs: Iterable[AnalystPair]) -> int:
    return sum(pair.use.granted + pair.use.refused for pair in pairs)
