"""Who used what: grants and refusals by dataset and analyst, since somebody began to look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import NamedTuple

from accountant.amounts import format_units
from accountant.ledger import Ledger
from accountant.records.decided import Encoded
from accountant.records.outcomes import Outcome
from accountant.views.usage import Rows, Usage, Vacancies, row_of
from streams.metrics.snapshot import AnalystUse


class Pair(NamedTuple):
    """One analyst of one dataset."""

    dataset: str
    analyst: str
    use: Usage


def uses_of(pairs: Iterable[Pair]) -> list[AnalystUse]:
    """Return pairs as a scrape shows them."""
    granted, refused = Outcome.GRANTED.value, Outcome.REFUSED.value
    return [
        AnalystUse(
            dataset=dataset,
            analyst=analyst,
            unit=use.unit,
            spent=format_units(use.spent),
            outcomes={granted: use.granted, refused: use.refused},
        )
        for dataset, analyst, use in pairs
    ]


class UsageTable:
    """Counts by dataset and analyst. Calls are not concurrent; see `LiveLedgers`.

    Args:
        every: keep who used what of every dataset, and not only the pairs that are shown.
        shown: how many pairs of dataset and analyst are shown, the first that come. A place
            that becomes free is the next new pair's.
        vacancies: for rows.

    Attributes:
        last: number of the last partition decision on each dataset.
    """

    def __init__(self, *, every: bool, shown: int, vacancies: Vacancies | None = None) -> None:
        self._vacancies = vacancies or Vacancies()
        self._every = every
        self._most_shown = shown
        self._rows: dict[str, Rows] = {}
        self._shown: list[Pair] = []
        self._taken = 0  # all decisions but those of shown pairs that were forgotten
        self.last: dict[str, int] = {}

    def take(self, decided: Iterable[Encoded], ledgers: Mapping[str, Ledger]) -> None:
        """Count the grants and refusals among some decisions."""
        tables, last, taken = self._rows, self.last, 0
        for encoded in decided:
            sequence, dataset = encoded.sequence, encoded.dataset
            if sequence is None or dataset is None:
                continue
            last[dataset] = encoded.partition_sequence
            analyst = encoded.analyst
            if analyst is None:
                continue
            rows = tables.get(dataset)
            row = None if rows is None else rows.get(analyst)
            if row is None:
                if not self._every and len(self._shown) >= self._most_shown:
                    taken += 1
                    continue
                row = self._row(dataset, analyst, ledgers[dataset])
            taken += row.take(sequence, encoded.decided_at, encoded.charged)
        self._taken += taken

    def _row(self, dataset: str, analyst: str, ledger: Ledger) -> Usage:
        """Return the row of an analyst who has none of their own, which may be a new one."""
        rows = self._rows.setdefault(dataset, {})
        unit = ledger.plan.kind.sums[0]
        row = row_of(rows, analyst, self._vacancies, unit=unit, generation=ledger.generation)
        if analyst in rows and len(self._shown) < self._most_shown:
            self._shown.append(Pair(dataset, analyst, row))
        return row

    def forget(self, datasets: Iterable[str]) -> None:
        """Forget datasets that moved away."""
        gone = set(datasets)
        for name in gone:
            self.last.pop(name, None)
            self._vacancies.left += len(self._rows.pop(name, {}))
        # What was left out stays counted: a counter must not fall.
        self._taken -= _decisions(pair for pair in self._shown if pair.dataset in gone)
        self._shown = [pair for pair in self._shown if pair.dataset not in gone]

    def of(self, dataset: str) -> Rows:
        """Return who used a dataset, as a copy; see `views_of`."""
        return {name: copy(row) for name, row in self._rows.get(dataset, {}).items()}

    def shown(self) -> tuple[list[Pair], int]:
        """Return the pairs that are shown, as a copy, and how many decisions are of others."""
        pairs = [Pair(dataset, analyst, copy(row)) for dataset, analyst, row in self._shown]
        return pairs, self._taken - _decisions(pairs)


def _decisions(pairs: Iterable[Pair]) -> int:
    return sum(pair.use.granted + pair.use.refused for pair in pairs)
