"""Reads rows of an index at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec

from accountant.amounts import INFINITE, Units, format_units, parse_signed, parse_units
from accountant.views.tallies import LargeGrant
from accountant.views.usage import MAX_ANALYSTS, OTHERS, By, UsageRow
from accountant.views.why import UsageByKey, UsageSums

TABLES: Final[dict[str, str]] = {
    "analyst": "analysts",
    "purpose": "purposes",
    "day": "days",
    "reason": "reasons",
}
_PAD: Final = 60  # digits: more than the largest amount has
_ROWS: Final = """
SELECT name, generation, key, granted, refused, unit, spent, sequence, decided_at
FROM {table} AS used JOIN datasets ON datasets.number = used.dataset
"""
_COUNTS: Final = """
SELECT name, 'granted', '', sum(granted) AS found
FROM analysts AS used JOIN datasets ON datasets.number = used.dataset
WHERE :name IS NULL OR name = :name GROUP BY name HAVING found > 0
UNION ALL SELECT name, 'refused', key, refused
FROM reasons AS used JOIN datasets ON datasets.number = used.dataset
WHERE :name IS NULL OR name = :name
"""
_USED: Final = "SELECT key, granted, refused, spent FROM {table}"


class Rows:
    """Reads the index within one transaction, so that all reads see one moment."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def knows(self, dataset: str, partition: int | None = None) -> bool:
        """Return whether the dataset was ever opened; `partition`: in the log of this one."""
        query = "SELECT partition FROM datasets WHERE name = ?"
        found = self._db.execute(query, (dataset,)).get
        return found is not None and partition in {None, found}

    def datasets(self) -> list[str]:
        """Return the names of all datasets, in alphabetical order."""
        found = self._db.execute("SELECT name FROM datasets ORDER BY name")
        return [str(name) for (name,) in found]

    def usage(
        self, dataset: str, by: By = "analyst", *, limit: int | None = None
    ) -> list[UsageRow]:
        """Return who used a dataset, in the order of the keys.

        Args:
            limit: so many rows apart, the first that came; all others are one row, called
                `OTHERS`, at the end.
        """
        table = TABLES["day" if by == "month" else by]
        query = f"{_ROWS.format(table=table)} WHERE name = ? ORDER BY used.number"
        found = [_row(each) for each in self._db.execute(query, (dataset,))]
        if by == "month":
            return by_month(found)
        apart, rest = found[:limit], found[limit:] if limit is not None else []
        others = combined(rest, OTHERS)
        apart.sort(key=lambda row: row.key)
        return apart if others is None else [*apart, others]

    def first_analysts(self, limit: int) -> tuple[list[UsageRow], int]:
        """Return the first pairs of dataset and analyst, and how many requests all others made."""
        query = f"{_ROWS.format(table='analysts')} ORDER BY used.number LIMIT ?"
        found = [_row(each) for each in self._db.execute(query, (limit,))]
        all_requests = int(self._db.execute("SELECT total(requests) FROM reached").get or 0)
        return found, all_requests - sum(row.granted + row.refused for row in found)

    def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        """Return all that `why` is made of, None of a dataset that was never opened.

        Args:
            since_day: of the days of analysts, those from `2026-11-23` on.
        """
        query = "SELECT number, unit, since, since_at FROM datasets WHERE name = ?"
        found: Any = self._db.execute(query, (dataset,)).fetchone()
        if found is None:
            return None
        number, unit, since, since_at = found
        query = (
            "SELECT cost, sequence, request_id, analyst, purpose, decided_at FROM largest "
            "WHERE dataset = ? ORDER BY cost DESC, sequence"
        )
        largest = [
            LargeGrant(_unpadded(cost), *rest) for cost, *rest in self._db.execute(query, (number,))
        ]
        by_day = dict[str, dict[str, Units]]()
        query = "SELECT day, analyst, spent FROM analyst_days WHERE dataset = ? AND day >= ?"
        for day, analyst, spent in self._db.execute(query, (number, since_day)):
            by_day.setdefault(analyst, {})[day] = _spent(spent)
        return UsageSums(
            unit=unit,
            analysts=self._used("analysts", number),
            purposes=self._used("purposes", number),
            days=self._used("days", number),
            reasons=self._used("reasons", number),
            largest=largest,
            analyst_days=by_day,
            since=since,
            since_at=since_at,
        )

    def _used(self, table: str, dataset: Any) -> list[UsageByKey]:
        query = f"{_USED.format(table=table)} WHERE dataset = ? ORDER BY number"
        return [
            UsageByKey(key, granted, refused, _spent(spent))
            for key, granted, refused, spent in self._db.execute(query, (dataset,))
        ]

    def counts(self, dataset: str | None = None) -> list[tuple[str, str, str, int]]:
        """Return how many requests were granted, and refused for each reason, by dataset.

        Args:
            dataset: this one alone.
        Returns: name, outcome, reason or "", and number.
        """
        found = self._db.execute(_COUNTS, {"name": dataset})
        return [(name, outcome, reason, int(count)) for name, outcome, reason, count in found]

    def places(
        self, dataset: str, *, after: int = 0, limit: int = 100, since: int = 0
    ) -> list[tuple[int, int]]:
        """Return the numbers of a dataset's decisions: in the dataset, and in its partition.

        Args:
            after: a number in the dataset; those after it alone.
            since: a number in the partition; none before it.
        """
        query = (
            "SELECT sequence, place FROM places WHERE sequence > ? AND place >= ? AND dataset = "
            "(SELECT number FROM datasets WHERE name = ?) ORDER BY sequence LIMIT ?"
        )
        found = self._db.execute(query, (after, since, dataset, limit))
        return [(int(sequence), int(place)) for sequence, place in found]


def most_apart(by: By) -> int | None:
    """Return how many rows a server returns separately: names and purposes are free text."""
    return MAX_ANALYSTS if by in {"analyst", "purpose"} else None


def _row(columns: Any) -> UsageRow:
    name, generation, key, granted, refused, unit, spent, sequence, decided_at = columns
    return UsageRow(
        dataset=name,
        generation=generation,
        key=key,
        granted=granted,
        refused=refused,
        unit=unit,
        spent=format_units(_spent(spent)),
        sequence=sequence,
        last_decided_at=decided_at,
    )


def _spent(text: str) -> Units:
    """Return what was spent: below 0 only where the index has not seen what was reserved."""
    return max(0, parse_signed(text))


def padded(units: Units) -> str:
    """Return an amount as text that sorts as the amount does."""
    return str(units).zfill(_PAD) if units != INFINITE else "inf"


def _unpadded(text: str) -> Units:
    return INFINITE if text == "inf" else int(text)


def combined(rows: Iterable[UsageRow], key: str) -> UsageRow | None:
    """Return the sum of rows of one dataset, under another key; None of no rows."""
    found = list(rows)
    if not found:
        return None
    last = max(found, key=lambda row: row.sequence)
    return msgspec.structs.replace(
        last,
        key=key,
        granted=sum(row.granted for row in found),
        refused=sum(row.refused for row in found),
        spent=format_units(sum(parse_units(row.spent) for row in found)),
    )


def by_month(days: Iterable[UsageRow]) -> list[UsageRow]:
    """Return rows of days as rows of months."""
    months: dict[str, list[UsageRow]] = {}
    for row in days:
        months.setdefault(row.key[:7], []).append(row)
    summed = (combined(rows, month) for month, rows in sorted(months.items()))
    return [row for row in summed if row is not None]
