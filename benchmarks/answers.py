"""Questions: exact statistics against plain DuckDB, and the time from a question to its answer."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import msgspec

from accountant.questions import Schema, check_schema, parse_question
from accountant.questions.schema import CategoryColumn, DataSource, NumberColumn, UnitColumn
from benchmarks.measure import Row, Scale, best_of
from benchmarks.processes import command, free_port
from streams.client import Accountant
from streams.sources import DataSources
from streams.sources.source_settings import CsvSource, ParquetSource

_ROWS = 10_000_000
_SERVED_ROWS = 1_000_000
_TICK_S = 0.1
_QUESTIONS = 7
_POLICY = {"filter": "zcdp", "rho": "1000", "delta": "1e-6"}
_ROUNDS = 3
_LONG_S = 15.0  # One round of so many seconds is enough.
# Half of the rows are of people with 11 rows, above the bound; each other row is a person.
CROWDED = "CASE WHEN range % 2 = 0 THEN range ELSE range // 22 * 20 + 1 END"
TABLE = """
SELECT {person} AS person, (hash(range) % 120)::INTEGER AS age,
    (hash(range + 1) % 25000000) / 100.0::DOUBLE AS income,
    ['north', 'south', 'east', 'west'][(hash(range + 2) % 4 + 1)::BIGINT] AS region
FROM range({rows})
"""
SCHEMA = check_schema(
    Schema(
        source=DataSource(kind="parquet", name="census"),
        columns=(
            NumberColumn(name="age", lower="0", upper="120"),
            NumberColumn(name="income", lower="0", upper="200000", places=2),
            CategoryColumn(name="region", categories=("north", "south", "east", "west")),
        ),
        unit=UnitColumn(column="person", rows=3),
        neighbours="add_remove",
    )
)
_ASKED = {
    "count where age > 65": "SELECT count(*) FROM {file} WHERE age > 65",
    "mean(income) by region": (
        "SELECT region, count(*), sum(least(200000, greatest(0, income::DOUBLE))) FROM {file} "
        "GROUP BY region"
    ),
    "median(age)": "SELECT quantile_disc(age::BIGINT, 0.5) FROM {file}",
}


def _best(ours: Callable[[], object], plain: Callable[[], object]) -> tuple[float, float]:
    """Return the shortest seconds of each, in turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for work, taken in zip((ours, plain), seconds, strict=True):
            started = time.perf_counter()
            work()
            taken.append(time.perf_counter() - started)
        if seconds[0][-1] > _LONG_S:
            break
    return min(seconds[0]), min(seconds[1])


def rows(scale: Scale) -> Iterator[Row]:
    """Measure with each row a unit, with few rows of a unit, with crowded units, and CSV."""
    count = scale.of(_ROWS)
    each_row_a_unit = msgspec.structs.replace(SCHEMA, unit=msgspec.UNSET)
    csv_schema = msgspec.structs.replace(SCHEMA, source=DataSource(kind="csv", name="census"))
    with tempfile.TemporaryDirectory() as folder:
        for name, person, schema in (
            ("each row a unit", "range", each_row_a_unit),
            ("a row of each unit", "range", SCHEMA),
            ("half of the rows of crowded units", CROWDED, SCHEMA),
            ("CSV", "range", csv_schema),
        ):
            kind = schema.source.kind
            path = str(Path(folder) / f"census.{kind}")
            table = TABLE.format(person=person, rows=count)
            duckdb.connect().execute(f"COPY ({table}) TO '{path}' (FORMAT {kind})").fetchall()
            yield from _measured(name, path, schema, count)
        yield from _answered(Path(folder))


def _answered(folder: Path) -> Iterator[Row]:
    """Yield the time from a question to its answer, of a client of a server with a file."""
    path, port = folder / "people.parquet", free_port()
    table = TABLE.format(person="range", rows=_SERVED_ROWS)
    duckdb.connect().execute(f"COPY ({table}) TO '{path}' (FORMAT parquet)").fetchall()
    sources = folder / "sources.json"
    sources.write_bytes(
        msgspec.json.encode(
            {
                "census": {
                    "kind": "parquet",
                    "path": str(path.absolute()),
                    "datasets": ("rows", "units"),
                }
            }
        )
    )
    settings = {
        "ACCOUNTANT_URL": f"sqlite:///{folder.absolute() / 'ledger.db'}",
        "ACCOUNTANT_PORT": str(port),
        "ACCOUNTANT_DATA_SOURCES": str(sources),
        "ACCOUNTANT_CURATOR_TICK_SECONDS": str(_TICK_S),
    }
    with (
        command("serve", settings, port=port),
        Accountant(f"http://127.0.0.1:{port}", analyst="ana") as ledger,
    ):
        for dataset, schema in (
            ("rows", msgspec.structs.replace(SCHEMA, unit=msgspec.UNSET)),
            ("units", SCHEMA),
        ):
            policy = _POLICY | {"population": "people"}
            ledger.as_owner("owner").open(dataset, policy, schema=schema, as_given=True, new=True)
            unit = "each row a unit" if dataset == "rows" else "a row of each unit"
            note = f"{_SERVED_ROWS:,} rows over HTTP, ticks of {_TICK_S} s, best of {_QUESTIONS}"
            for text in _ASKED:
                took = _seconds_to_answer(ledger, dataset, text, folder)
                name = f"from `{text}` to its answer, {unit}"
                yield Row(name=name, value=took, unit="s", note=note)


def _seconds_to_answer(ledger: Accountant, dataset: str, text: str, folder: Path) -> float:
    def ask() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same question again is charged again
            ledger.answer(dataset, text, epsilon="1", store=folder / "results.db")

    ask()
    return best_of(_QUESTIONS, ask)


def _measured(name: str, path: str, schema: Schema, count: int) -> Iterator[Row]:
    is_csv = schema.source.kind == "csv"
    settings = CsvSource(path=path) if is_csv else ParquetSource(path=path)
    sources = DataSources({"census": settings})
    plain = duckdb.connect(config={"threads": settings.threads})
    file = f"read_{schema.source.kind}('{path}')"
    for text, statement in _ASKED.items():
        checked = parse_question(text, schema)
        ours, theirs = _best(
            lambda checked=checked: sources.statistics(checked, key=b"key"),
            lambda statement=statement: plain.execute(statement.format(file=file)).fetchall(),
        )
        yield Row(
            name=f"{text}, {name}",
            value=count / ours,
            unit="rows/s",
            note=f"{ours:.2f} s for {count:,} rows",
        )
        yield Row(
            name="the same / plain DuckDB without bounds",
            value=ours / theirs,
            unit="times as long",
            note=f"{theirs:.2f} s",
        )
