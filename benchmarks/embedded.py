"""The embedded ledger: single requests, each a commit of its own, against bare SQLite."""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from benchmarks import requests
from benchmarks.measure import Row, Scale
from streams.client import Accountant
from streams.embedded import ledger_file

_DATASETS = 100
_ROUNDS = 7

_Row = tuple[Any, ...]


def _ask(client: Accountant, bodies: list[bytes]) -> float:
    """Return requests a second, one after another."""
    started = time.perf_counter()
    for body in bodies:
        client.submit(body)
    return len(bodies) / (time.perf_counter() - started)


class _Bare:
    """A file with a ledger's settings, but without decisions."""

    def __init__(self, path: Path, like: Path) -> None:
        with ledger_file.reader(like) as db:
            schema = [sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema") if sql]
        self._db = apsw.Connection(str(path))
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "full")
        for sql in schema:
            self._db.execute(str(sql))
        self._db.execute("INSERT INTO owner (one, epoch) VALUES (1, 0)")
        self._next = 0

    def commit(self, values: list[bytes], rows: list[_Row], head: _Row) -> float:
        """Return commits a second: a decision, a dataset's row, the partition's row."""
        db = self._db
        columns = ", ".join("?" * len(head))
        insert_row = f"INSERT OR REPLACE INTO state VALUES ({columns})"
        started = time.perf_counter()
        for value in values:
            db.execute("BEGIN IMMEDIATE")
            db.execute(
                "INSERT INTO decisions (sequence, decided_at, value) VALUES (?, ?, ?)",
                (self._next, self._next, value),
            )
            db.executemany(insert_row, (rows[self._next % len(rows)], head))
            db.execute("COMMIT")
            self._next += 1
        return len(values) / (time.perf_counter() - started)

    def close(self) -> None:
        self._db.close()


def _rounds(directory: Path, count: int) -> tuple[list[float], list[float]]:
    path = directory / "ledger.db"
    asked, bare = [], []
    with Accountant(f"sqlite:///{path}") as client:
        datasets = requests.names(_DATASETS)
        for name in datasets:
            client.submit(requests.opening(name, requests.now()))
        like: _Bare | None = None
        for number in range(_ROUNDS):
            drawn = requests.any_of(datasets, number, count)
            bodies = [requests.request(name, requests.now(), i) for i, name in enumerate(drawn)]
            gc.collect()
            asked.append(_ask(client, bodies))
            with ledger_file.reader(path) as db:
                query = "SELECT value FROM decisions ORDER BY sequence DESC LIMIT ?"
                values = [bytes(value) for (value,) in db.execute(query, (count,))]
                # The partition's key sorts after all names.
                *rows, head = db.execute("SELECT * FROM state ORDER BY key").fetchall()
            like = like or _Bare(directory / "bare.db", path)
            bare.append(like.commit(values, rows, head))
        assert like is not None
        like.close()
    return asked, bare


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the rate of a client in process and of bare commits, and their ratio."""
    count = scale.of(5_000)
    # On a real disk, as a ledger: /tmp may be memory.
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", ".")) as directory:
        asked, bare = _rounds(Path(directory), count)
    note = f"median of {_ROUNDS} rounds of {count:,}, taken in turns"
    yield Row(name="embedded, client in process", value=statistics.median(asked), unit="requests/s")
    yield Row(name="bare SQLite commits", value=statistics.median(bare), unit="commits/s")
    ratios = [mine / theirs for mine, theirs in zip(asked, bare, strict=True)]
    yield Row(
        name="embedded / bare SQLite",
        value=statistics.median(ratios),
        unit="",
        note=note,
    )
