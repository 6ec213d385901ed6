"""The tables of an index, and what is written into them within one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import apsw

from accountant.amounts import format_units, parse_units
from accountant.views.tallies import Counted, Tallies
from streams.index.rows import TABLES

_USAGE: Final = """
CREATE TABLE {table} (
    number INTEGER PRIMARY KEY, dataset INTEGER NOT NULL, key TEXT NOT NULL,
    granted INTEGER NOT NULL, refused INTEGER NOT NULL, spent TEXT NOT NULL,
    sequence INTEGER NOT NULL, decided_at TEXT NOT NULL, UNIQUE (dataset, key)
);
"""
SCHEMA: Final = """
CREATE TABLE reached (
    partition INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, head TEXT NOT NULL,
    log TEXT NOT NULL, requests INTEGER NOT NULL
);
CREATE TABLE datasets (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, partition INTEGER NOT NULL,
    unit TEXT NOT NULL, generation INTEGER NOT NULL
);
CREATE TABLE places (
    dataset INTEGER NOT NULL, sequence INTEGER NOT NULL, place INTEGER NOT NULL,
    PRIMARY KEY (dataset, sequence)
) WITHOUT ROWID;
""" + "".join(_USAGE.format(table=table) for table in TABLES.values())
_ADD: Final = """
INSERT INTO {table} (dataset, key, granted, refused, spent, sequence, decided_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (dataset, key) DO UPDATE SET
    granted = granted + excluded.granted, refused = refused + excluded.refused,
    spent = added(spent, excluded.spent),
    sequence = excluded.sequence, decided_at = excluded.decided_at
"""
_FORGET: Final = "DELETE FROM {table} WHERE dataset = ?"
_OF_DATASETS: Final = ("places", *TABLES.values())


def write(
    db: apsw.Connection, partition: int, counted: Counted, reached: tuple[int, str, str]
) -> None:
    """Add a run of decisions, and note its last one: number, hash, hash of decision 0."""
    _forget_moved(db, partition, counted)
    db.executemany(
        "INSERT INTO datasets (name, partition, unit, generation) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, "
        "unit = CASE excluded.unit WHEN '' THEN unit ELSE excluded.unit END",
        [(name, partition, *known) for name, known in counted.datasets.items()],
    )
    numbers = {
        name: db.execute("SELECT number FROM datasets WHERE name = ?", (name,)).get
        for name in counted.datasets
    }
    db.executemany(
        "INSERT OR REPLACE INTO places VALUES (?, ?, ?)",
        [(numbers[name], sequence, place) for name, sequence, place in counted.places],
    )
    for table, tallies in (
        ("analysts", counted.analysts),
        ("purposes", counted.purposes),
        ("days", counted.days),
    ):
        db.executemany(_ADD.format(table=table), _added_rows(numbers, tallies))
    db.execute(
        "INSERT INTO reached VALUES (?, ?, ?, ?, ?) ON CONFLICT (partition) DO UPDATE SET "
        "sequence = excluded.sequence, head = excluded.head, "
        "requests = requests + excluded.requests",
        (partition, *reached, counted.requests),
    )


def forget(db: apsw.Connection, partition: int) -> None:
    """Remove what was taken in of one partition."""
    query = "SELECT number FROM datasets WHERE partition = ?"
    for (dataset,) in db.execute(query, (partition,)).fetchall():
        _forget_dataset(db, dataset)
    db.execute("DELETE FROM reached WHERE partition = ?", (partition,))


def _forget_moved(db: apsw.Connection, partition: int, counted: Counted) -> None:
    """Remove datasets that another ledger, with more or fewer partitions, had elsewhere."""
    query = "SELECT number FROM datasets WHERE name = ? AND partition <> ?"
    for name in counted.datasets:
        dataset = db.execute(query, (name, partition)).get
        if dataset is not None:
            _forget_dataset(db, dataset)


def _forget_dataset(db: apsw.Connection, dataset: Any) -> None:
    for table in _OF_DATASETS:
        db.execute(_FORGET.format(table=table), (dataset,))
    db.execute("DELETE FROM datasets WHERE number = ?", (dataset,))


def _added_rows(numbers: Mapping[str, Any], tallies: Tallies) -> Iterator[tuple[Any, ...]]:
    for (dataset, key), tally in tallies.items():
        sums = tally.granted, tally.refused, format_units(tally.spent)
        yield numbers[dataset], key, *sums, tally.sequence, tally.decided_at


def added(*amounts: Any) -> str:
    """Return the exact sum of amounts: SQLite's integers end at 64 bits."""
    return format_units(sum(map(parse_units, amounts)))
