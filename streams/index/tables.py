"""The tables of an index, and what is written into them within one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

import apsw

from accountant.amounts import format_signed, parse_signed
from accountant.views.tallies import MAX_LARGEST, DecisionTally, Largest, Tallies, Tally
from accountant.views.usage import OTHERS
from streams.index.rows import TABLES, padded

MAX_DAYS: Final = 62
"""The last days with requests on a dataset, of which each analyst's are kept apart: two months, so
that the last thirty days are among them whatever the clock did."""
MOST_A_DAY: Final = 1_000
"""The analysts of a dataset who are kept apart on one day, the first to come; all others are one
row called `OTHERS`."""

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
    unit TEXT NOT NULL, generation INTEGER NOT NULL,
    since INTEGER NOT NULL DEFAULT 0, since_at TEXT NOT NULL DEFAULT ''
);
CREATE TABLE places (
    dataset INTEGER NOT NULL, sequence INTEGER NOT NULL, place INTEGER NOT NULL,
    PRIMARY KEY (dataset, sequence)
) WITHOUT ROWID;
CREATE TABLE analyst_days (
    dataset INTEGER NOT NULL, day TEXT NOT NULL, analyst TEXT NOT NULL, granted INTEGER NOT NULL,
    refused INTEGER NOT NULL, spent TEXT NOT NULL, PRIMARY KEY (dataset, day, analyst)
) WITHOUT ROWID;
CREATE TABLE largest (
    dataset INTEGER NOT NULL, cost TEXT NOT NULL, sequence INTEGER NOT NULL,
    request_id TEXT NOT NULL, analyst TEXT NOT NULL, purpose TEXT NOT NULL,
    decided_at TEXT NOT NULL, PRIMARY KEY (dataset, cost, sequence)
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
_ADD_DAY: Final = """
INSERT INTO analyst_days VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (dataset, day, analyst) DO UPDATE SET
    granted = granted + excluded.granted, refused = refused + excluded.refused,
    spent = added(spent, excluded.spent)
"""
_KNOWN_DAY: Final = """
SELECT (SELECT count(*) FROM analyst_days WHERE dataset = ?1 AND day = ?2),
       (SELECT min(day) FROM analyst_days WHERE dataset = ?1)
"""
_KNOWN_LARGEST: Final = "SELECT count(*), min(cost) FROM largest WHERE dataset = ?"
_FORGET_OLD_DAYS: Final = """
DELETE FROM analyst_days WHERE dataset = ?1 AND day NOT IN (
    SELECT key FROM days WHERE dataset = ?1 ORDER BY sequence DESC LIMIT ?2
)
"""
_LARGEST: Final = "SELECT dataset, cost, sequence FROM largest WHERE dataset = ?"
_FORGET: Final = "DELETE FROM {table} WHERE dataset = ?"
_OF_DATASETS: Final = ("places", "analyst_days", "largest", *TABLES.values())


def write(
    db: apsw.Connection, partition: int, counted: DecisionTally, reached: tuple[int, str, str]
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
        ("reasons", counted.reasons),
    ):
        db.executemany(_ADD.format(table=table), _added_rows(numbers, tallies))
    _write_analyst_days(db, numbers, counted.analyst_days)
    _write_largest(db, numbers, counted.largest)
    db.executemany(
        "UPDATE datasets SET since = ?, since_at = ? WHERE number = ?",
        [(*since, numbers[name]) for name, since in counted.since.items() if name in numbers],
    )
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


def _forget_moved(db: apsw.Connection, partition: int, counted: DecisionTally) -> None:
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
        sums = tally.granted, tally.refused, format_signed(tally.spent)
        yield numbers[dataset], key, *sums, tally.sequence, tally.decided_at


def _write_analyst_days(
    db: apsw.Connection, numbers: Mapping[str, Any], tallies: Mapping[tuple[str, str, str], Tally]
) -> None:
    """Add to the days of analysts, and forget those of longer ago."""
    days: dict[tuple[str, str], dict[str, Tally]] = {}
    for (name, day, analyst), tally in tallies.items():
        days.setdefault((name, day), {})[analyst] = tally
    rows, spans = list[tuple[Any, ...]](), dict[Any, tuple[str, str]]()
    for (name, day), analysts in days.items():
        dataset = numbers[name]
        known, first = db.execute(_KNOWN_DAY, (dataset, day)).get
        if not known:
            begin, end = spans.get(dataset, (first or day, day))
            spans[dataset] = min(begin, day), max(end, day)
        apart = known + len(analysts) <= MOST_A_DAY
        shown = analysts if apart else _apart(db, dataset, day, analysts)
        rows += [
            (dataset, day, analyst, tally.granted, tally.refused, format_signed(tally.spent))
            for analyst, tally in shown.items()
        ]
    db.executemany(_ADD_DAY, rows)
    # Of a dataset that has gone on to another day: fewer days than these lie in a shorter span.
    too_many = [
        (dataset, MAX_DAYS)
        for dataset, (begin, end) in spans.items()
        if (date.fromisoformat(end) - date.fromisoformat(begin)).days >= MAX_DAYS
    ]
    db.executemany(_FORGET_OLD_DAYS, too_many)


def _apart(
    db: apsw.Connection, dataset: Any, day: str, analysts: Mapping[str, Tally]
) -> dict[str, Tally]:
    """Return the tallies of one day; analysts beyond the allowed rows share one tally."""
    query = "SELECT analyst FROM analyst_days WHERE dataset = ? AND day = ?"
    known = {str(analyst) for (analyst,) in db.execute(query, (dataset, day))} - {OTHERS}
    apart, others = dict[str, Tally](), Tally()
    for analyst, tally in analysts.items():
        if analyst in known or len(known) < MOST_A_DAY:
            known.add(analyst)
            apart[analyst] = tally
        else:
            others.merge(tally)
    return {**apart, OTHERS: others} if others.sequence else apart


def _write_largest(
    db: apsw.Connection, numbers: Mapping[str, Any], found: Mapping[str, Largest]
) -> None:
    """Add to the largest grants of datasets, and forget those that are none any more."""
    rows, gone = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for name, largest in found.items():
        dataset = numbers[name]
        new = [(dataset, padded(grant.cost), *grant[1:]) for grant in largest.sorted()]
        count, least = db.execute(_KNOWN_LARGEST, (dataset,)).get
        if count >= MAX_LARGEST:
            new = [row for row in new if row[1] > least]
        surplus = count + len(new) - MAX_LARGEST
        if new and surplus > 0:
            known: list[Any] = db.execute(_LARGEST, (dataset,)).fetchall()
            # Of equal ones the later is the smaller.
            both = sorted([*known, *new], key=lambda row: (row[1], -row[2]))
            small = {row[:3] for row in both[:surplus]}
            gone += [row for row in known if row in small]
            new = [row for row in new if row[:3] not in small]
        rows += new
    db.executemany("INSERT INTO largest VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    db.executemany("DELETE FROM largest WHERE dataset = ? AND cost = ? AND sequence = ?", gone)


def added(*amounts: Any) -> str:
    """Return the exact sum of amounts: SQLite's integers end at 64 bits."""
    return format_signed(sum(map(parse_signed, amounts)))
