"""Files in which one person's row has a damaged, huge or odd cell."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from accountant.questions.schema import SourceKind
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    SourceSettings,
)

PEOPLE: Final = 12
_NAMES: Final = ("unit", "x", "c", "t")
_PLAIN: Final[dict[str, list[object]]] = {
    "unit": [f"p{i}" for i in range(PEOPLE)],
    "x": [i % 5 - 1 for i in range(PEOPLE)],
    "c": ["ab"[i % 2] for i in range(PEOPLE)],
    "t": [i % 3 == 0 for i in range(PEOPLE)],
}


@dataclass(frozen=True, slots=True)
class OddFile:
    """A file whose row of one person is odd.

    Attributes:
        kind: as a schema calls it.
        what: for the message of a test that fails.
    """

    kind: SourceKind
    settings: SourceSettings
    what: str


def odd_file(draw: random.Random, directory: Path) -> OddFile:
    """Write a file in which a random person's row is odd in a random way."""
    make = draw.choice([_bytes_in_parquet, _bit_in_parquet, _type_in_parquet, _view, _csv])
    return make(draw, directory)


def _place(draw: random.Random) -> tuple[int, str]:
    return draw.randrange(PEOPLE), draw.choice(_NAMES)


def _bytes_in_parquet(draw: random.Random, directory: Path) -> OddFile:
    """Write a text of any bytes, such as one that is not UTF-8."""
    row, name = _place(draw)
    odd = draw.choice(
        [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\x00", b"\xf4\x90\x80\x80", b"x" * 300_000, b"",
         b"\xc0\x80", "\u202e\ufeff".encode(), b"1e999999", b"-" + b"9" * 4000]
    )  # fmt: skip
    columns = dict[str, Any]()
    for each, cells in _PLAIN.items():
        if each == name:
            texts = [str(cell).lower().encode() for cell in cells]
            texts[row] = odd
            columns[each] = texts_of_bytes(texts)
        else:
            columns[each] = pa.array(cells)
    options = {
        "use_dictionary": draw.random() < 0.5,
        "row_group_size": draw.choice([1, 3, PEOPLE]),
        "write_statistics": draw.random() < 0.5,
        "compression": draw.choice(["none", "snappy", "zstd"]),
    }
    path = directory / "odd.parquet"
    pq.write_table(pa.table(columns), path, **options)
    settings = ParquetSource(path=str(path), threads=draw.choice([1, 2]))
    return OddFile("parquet", settings, f"bytes {odd[:9]!r} in {name} of row {row}, {options}")


def texts_of_bytes(texts: list[bytes]) -> Any:
    """Return an Arrow array of texts, whatever their bytes are."""
    binary = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(texts), binary.buffers())


def _bit_in_parquet(draw: random.Random, directory: Path) -> OddFile:
    """Write a file and change one of its bytes before the footer."""
    path = directory / "odd.parquet"
    size = draw.choice([1, 4, PEOPLE])
    pq.write_table(
        pa.table(_PLAIN),
        path,
        row_group_size=size,
        use_dictionary=draw.random() < 0.5,
        compression=draw.choice(["none", "snappy"]),
    )
    content = bytearray(path.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    at = draw.randrange(4, end)
    content[at] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return OddFile("parquet", ParquetSource(path=str(path)), f"byte {at}, groups of {size}")


def _type_in_parquet(draw: random.Random, directory: Path) -> OddFile:
    """Write a cell of an odd type: an invalid JSON, a time outside every calendar, a deep list."""
    row, name = _place(draw)
    type_, plain, odd = draw.choice(
        [
            (pa.json_(), "1", "oops"),
            (pa.json_(), '"a"', '{"a":'),
            (pa.timestamp("us"), 0, 2**63 - 1),
            (pa.timestamp("ns"), 0, -(2**63) + 1),
            (pa.date32(), 0, 2**31 - 1),
            (pa.time64("us"), 0, 86_400_000_000 - 1),
            (pa.float64(), 1.0, float("nan")),
            (pa.float32(), 1.0, float("-inf")),
            (pa.uint64(), 1, 2**64 - 1),
            (pa.decimal128(38, 0), 1, 10**38 - 1),
            (pa.decimal128(38, 38), 0, 0),
            (pa.list_(pa.int64()), [1], list(range(10_000))),
            (pa.binary(), b"a", b"\xff" * 100_000),
            (pa.null(), None, None),
        ]
    )
    cells = [plain] * PEOPLE
    cells[row] = odd
    columns = {each: pa.array(values) for each, values in _PLAIN.items()}
    storage = pa.string() if type_ == pa.json_() else type_
    array = pa.array(cells, storage)
    columns[name] = pa.ExtensionArray.from_storage(type_, array) if storage != type_ else array
    path = directory / "odd.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=draw.choice([1, PEOPLE]))
    return OddFile("parquet", ParquetSource(path=str(path)), f"{type_} in {name} of row {row}")


def _view(draw: random.Random, directory: Path) -> OddFile:
    """Write a view, or a table that computes a column, which may fail for one person."""
    row, name = _place(draw)
    path = directory / "odd.duckdb"
    path.unlink(missing_ok=True)
    zero = draw.choice([0, 0, 1])
    computed = draw.choice(
        [
            "(4 // visits)::VARCHAR",
            "CAST(texts AS INTEGER)::VARCHAR",
            "CASE WHEN visits = 0 THEN error('no visit') ELSE '1' END",
            "(9223372036854775807 + (1 - visits))::VARCHAR",
            "substr(texts, 1, 1)",
            "repeat(texts, 20000)",
        ]
    )
    # DuckDB stores no row whose computed column fails.
    form = draw.choice(["view", "filtered", *(["generated"] if zero else [])])
    with duckdb.connect(path) as connection:
        plain = pa.table(
            {
                **_PLAIN,
                "visits": [zero if i == row else 1 for i in range(PEOPLE)],
                "texts": [
                    ("oops" if zero == 0 else "2") if i == row else "1" for i in range(PEOPLE)
                ],
            }
        )
        connection.register("plain", plain)
        others = ", ".join(each for each in _NAMES if each != name)
        if form == "generated":
            connection.execute("CREATE TABLE kept AS SELECT * FROM plain LIMIT 0")
            connection.execute(f"ALTER TABLE kept DROP COLUMN {name}")
            definition = connection.execute(
                "SELECT sql FROM duckdb_tables() WHERE table_name = 'kept'"
            ).fetchall()[0][0]
            body = definition.removeprefix("CREATE TABLE kept(").removesuffix(");")
            connection.execute(
                f"CREATE TABLE odd ({body}, {name} VARCHAR GENERATED ALWAYS AS ({computed}))"
            )
            connection.execute(
                f"INSERT INTO odd ({others}, visits, texts) "
                f"SELECT {others}, visits, texts FROM plain"
            )
        else:
            connection.execute("CREATE TABLE kept AS SELECT * FROM plain")
            where = " WHERE visits = 0 OR visits = 1" if form == "filtered" else ""
            connection.execute(
                f"CREATE VIEW odd AS SELECT {others}, {computed} AS {name} FROM kept{where}"
            )
    settings = DuckdbSource(path=str(path), table="odd")
    return OddFile("duckdb", settings, f"{form}: {computed} as {name} of row {row}, {zero}")


def _csv(draw: random.Random, directory: Path) -> OddFile:
    """Write a line of any bytes."""
    row, name = _place(draw)
    odd = draw.choice([b"\xff", b'"', b'"a', b"\x00", b"\r", b"x" * 2_100_000, b",,,,", b'a"b""'])
    lines = [",".join(_NAMES).encode()]
    for i in range(PEOPLE):
        cells = [
            odd if i == row and each == name else str(_PLAIN[each][i]).encode() for each in _NAMES
        ]
        lines.append(b",".join(cells))
    path = directory / "odd.csv"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return OddFile("csv", CsvSource(path=str(path)), f"{odd[:9]!r} in {name} of row {row}")
