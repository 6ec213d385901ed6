"""`accountant source schema`: a skeleton that has nothing of the data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accountant.errors import RequestInvalid
from accountant.questions import Schema, check_schema
from accountant.records.schema_file import FILL_IN, read_schema_file, schema_of
from streams.sources.schema_skeleton import skeleton
from streams.sources.source_facts import ColumnFact, SourceFacts
from tests.streams.cli.conftest import Done
from tests.streams.cli.here import run_here

SECRET = "secret"


def run(directory: Path, *arguments: str) -> Done:
    return run_here(directory, "source", "schema", *arguments)


def write(directory: Path, cell: int) -> None:
    """Write a file of each kind whose cells follow from a number."""
    text = f"{SECRET}{cell}"
    table = pa.table({"age": [cell], "name": [text], "flag": [cell % 2 == 0], "at": [float(cell)]})
    pq.write_table(table, directory / "t.parquet")
    (directory / "t.csv").write_text(f"age;name\n{cell};{text}\n")
    (directory / "t.duckdb").unlink(missing_ok=True)
    with duckdb.connect(directory / "t.duckdb") as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT {cell} AS age, '{text}'::ENUM ('{text}', 'b') AS name, "
            f"{cell}.25::DECIMAL(8, 2) AS wage, DATE '2020-01-01' + {cell} AS born, "
            f"'{cell}'::BLOB AS raw"
        )


COMMANDS = (("t.parquet",), ("t.csv",), ("t.duckdb", "--table", "t"))


def test_a_skeleton_has_nothing_of_the_data(tmp_path: Path) -> None:
    write(tmp_path, 7)
    first = [run(tmp_path, *arguments) for arguments in COMMANDS]
    write(tmp_path, 4321)
    second = [run(tmp_path, *arguments) for arguments in COMMANDS]
    assert first == second
    for done in first:
        assert done.code == 0
        assert SECRET not in done.out + done.err
        assert "FILL IN" in done.err


def test_a_skeleton_has_names_and_types(tmp_path: Path) -> None:
    write(tmp_path, 7)
    found = [json.loads(run(tmp_path, *arguments).out) for arguments in COMMANDS]
    assert [each["source"] for each in found] == [
        {"kind": kind, "name": "t"} for kind in ("parquet", "csv", "duckdb")
    ]
    kinds = [[(c["name"], c["type"].split()[0]) for c in each["columns"]] for each in found]
    assert kinds == [
        [("age", "number"), ("name", "category"), ("flag", "boolean"), ("at", "number")],
        [("age", "FILL"), ("name", "FILL")],
        [("age", "number"), ("name", "category"), ("wage", "number"), ("born", "date")],
    ]
    assert found[2]["columns"][2]["places"] == 2
    assert "raw (blob) is left out" in run(tmp_path, *COMMANDS[2]).err


def filled(value: object, field: str = "") -> object:
    """Return what an owner may put in place of what has to be filled in."""
    own: dict[str, object] = {
        "lower": "0",
        "upper": "9",
        "places": 1,
        "step": "1",
        "categories": ["a"],
        "first": "2020-01-01",
        "last": "2020-12-31",
        "zone": "Europe/Berlin",
        "type": "boolean",
    }
    own |= {"neighbours": "replace", "column": "id", "rows": 1}
    if isinstance(value, str) and value.startswith(FILL_IN):
        return own.get(field, "a")
    if isinstance(value, dict):
        return {name: filled(inner, name) for name, inner in value.items()}
    return [filled(each) for each in value] if isinstance(value, list) else value


def to_fill_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each text that has to be filled in."""
    if isinstance(value, str) and value.startswith(FILL_IN):
        yield path
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from to_fill_in(inner, (*path, key))


@pytest.mark.parametrize("arguments", COMMANDS)
def test_each_text_to_be_filled_in_is_refused_by_every_reader(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path, 7)
    text = run(tmp_path, *arguments).out
    assert isinstance(schema_of(filled(json.loads(text))), Schema)
    with pytest.raises(RequestInvalid, match=r"must be filled in.* \(and "):
        read_schema_file(text.encode())
    found = list(to_fill_in(json.loads(text)))
    assert len(found) == text.count(FILL_IN)
    for path in found:
        value: Any = json.loads(text)
        complete: Any = filled(value)
        own, place = value, complete
        for key in path[:-1]:
            own, place = own[key], place[key]
        place[path[-1]] = own[path[-1]]
        with pytest.raises(RequestInvalid, match=r"must be filled in.*, got FILL IN"):
            schema_of(complete)
        # As a server reads it.
        with pytest.raises((msgspec.ValidationError, RequestInvalid)):
            check_schema(msgspec.convert(complete, Schema))


def test_what_a_schema_cannot_have_is_left_out_and_named() -> None:
    columns = [ColumnFact(name=f"c{i}", types=("bigint",)) for i in range(101)]
    columns += [
        ColumnFact(name="twin", types=(), is_repeated=True),
        ColumnFact(name="a\nb", types=("bigint",)),
        ColumnFact(name="mixed", types=("date", "varchar")),
    ]
    found, left_out = skeleton("parquet", "t", SourceFacts(columns=tuple(columns[3:])))
    assert [each["name"] for each in found["columns"]][-1] == "mixed"
    assert len(left_out) == 2
    _, left_out = skeleton("parquet", "t", SourceFacts(columns=tuple(columns)))
    assert left_out[0] == "c100 (bigint) is left out: a schema has at most 100 columns"


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    write(tmp_path, 7)
    assert run(tmp_path, "t.csv", "--out", "schema.json").out == ""
    before = (tmp_path / "schema.json").read_bytes()
    assert json.loads(before)["source"]["name"] == "t"
    done = run(tmp_path, "t.parquet", "--out", "schema.json")
    assert (done.code, (tmp_path / "schema.json").read_bytes()) == (2, before)
    assert "schema.json exists" in done.err
