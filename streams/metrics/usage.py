"""Who used what: grants and refusals by dataset and analyst, since somebody began to look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accountant.amounts import format_units
from accountant.encoded import Encoded
from accountant.ledger import Ledger
from accountant.outcomes import Outcome
from accountant.usage import Usage, UsageView
from streams.metrics.source import AnalystUse


class UsageTable:
    """Counts by dataset and analyst. Calls are not concurrent; see `Standing`.

    Args:
        most: how many pairs are kept, the first that come; None for all.

    Attributes:
        last: number of the last partition decision on each dataset.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._rows: dict[tuple[str, str], Usage] = {}
        self._left_out = 0
        self.last: dict[str, int] = {}

    def take(self, decided: Iterable[Encoded], ledgers: Mapping[str, Ledger]) -> None:
        """Count the grants and refusals among some decisions."""
        rows, most = self._rows, self._most
        for encoded in decided:
            if encoded.sequence is None:
                continue
            self.last[str(encoded.dataset)] = encoded.partition_sequence
            if encoded.analyst is None:
                continue
            pair = str(encoded.dataset), encoded.analyst
            row = rows.get(pair)
            if row is None:
                if most is not None and len(rows) >= most:
                    self._left_out += 1
                    continue
                row = rows[pair] = _new(ledgers[pair[0]])
            row.take(encoded.sequence, encoded.decided_at, encoded.charged)

    def forget(self, datasets: Iterable[str]) -> None:
        """Forget datasets that moved away."""
        gone = set(datasets)
        self.last = {name: number for name, number in self.last.items() if name not in gone}
        self._rows = {pair: row for pair, row in self._rows.items() if pair[0] not in gone}

    def of(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset, by analyst."""
        found = [
            row.view(dataset, analyst)
            for (name, analyst), row in self._rows.items()
            if name == dataset
        ]
        return sorted(found, key=lambda view: view.analyst)

    def first(self, most: int) -> tuple[list[AnalystUse], int]:
        """Return the pairs that came first, and how many decisions are those of others."""
        granted, refused = Outcome.GRANTED.value, Outcome.REFUSED.value
        rows = list(self._rows.items())
        others = sum(row.granted + row.refused for _, row in rows[most:])
        shown = [
            AnalystUse(
                dataset=dataset,
                analyst=analyst,
                unit=row.unit,
                spent=format_units(row.spent),
                outcomes={granted: row.granted, refused: row.refused},
            )
            for (dataset, analyst), row in rows[:most]
        ]
        return shown, others + self._left_out


def _new(ledger: Ledger) -> Usage:
    return Usage(ledger.plan.kind.sums[0], ledger.generation)
