"""`accountant source check`: what an owner sees of a schema beside its data."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.streams.cli.conftest import Command, Done
from tests.streams.cli.here import run_here

AGE = {"type": "number", "name": "age", "lower": "0", "upper": "120"}
REGION = {"type": "category", "name": "region", "categories": ["north", "south"]}
ROWS = 5_000
PEOPLE = "Person_id,age,region\n" + "".join(
    f"p{i},{i % 90},{'north' if i % 2 else 'South'}\n" for i in range(ROWS)
)
IDS = [float(10**17 + i) for i in range(20)]


def schema(*columns: dict[str, Any], unit: str = "Person_id", kind: str = "csv") -> dict[str, Any]:
    return {
        "source": {"kind": kind, "name": "people"},
        "columns": list(columns or (AGE,)),
        "neighbours": "add_remove",
        "unit": {"column": unit, "rows": 1},
    }


@dataclass(frozen=True)
class Sources:
    """A directory with a schema, and a source of one file."""

    directory: Path

    def write(self, declared: object, content: bytes | str, **settings: str) -> tuple[str, ...]:
        """Write the files; return the command that checks them."""
        path = self.directory / "people"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        (self.directory / "schema.json").write_text(json.dumps(declared))
        source = {"kind": "csv", "path": "people"} | settings
        (self.directory / "sources.json").write_text(json.dumps({"people": source}))
        return ("source", "check", "schema.json", "--data-sources", "sources.json")

    def check(self, declared: object, content: bytes | str, *options: str, **settings: str) -> Done:
        """Run the command."""
        arguments = self.write(declared, content, **settings)
        return run_here(self.directory, *arguments, *options)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def parquet(tmp_path: Path, **columns: Any) -> bytes:
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    return (tmp_path / "t.parquet").read_bytes()


def test_a_schema_that_matches_is_clean(accountant: Command) -> None:
    done = accountant(*Sources(accountant.directory).write(schema(), PEOPLE))
    assert done.code == 0, done.err
    assert "The source matches the schema." in done.out
    assert "The schema leaves out: region (text)." in done.out
    assert "Rows with a unit: 5,000 of 5,000." in done.out
    assert "for the owner alone: do not publish them" in done.out


def test_a_column_without_quantiles_is_named_with_a_step_that_helps(sources: Sources) -> None:
    wide = AGE | {"upper": "200000", "places": 2}
    done = sources.check(schema(wide), PEOPLE)
    said = 'age: no quantile or median (20,000,001 candidates, at most 10,000): add "step": "50".'
    assert (done.code, said in done.out) == (0, True)
    assert "no quantile" not in sources.check(schema(wide | {"step": "50"}), PEOPLE).out


def test_a_unit_that_the_file_spells_otherwise_is_found(sources: Sources) -> None:
    done = sources.check(schema(AGE, REGION, unit="person_id"), PEOPLE)
    assert done.code == 1
    assert "did you mean Person_id?" in " ".join(done.out.split())
    assert "5,000 of 5,000: no such column" in done.out
    assert "2,500 of 5,000: another category" in done.out
    assert "Rows with a unit: 0 of 5,000." in done.out
    assert "does not match the schema" in done.out


def test_cells_are_counted_by_reason(sources: Sources) -> None:
    flag = {"type": "boolean", "name": "flag"}
    age = AGE | {"missing": "0"}
    content = "Person_id,age,region,flag\n1,,east,yes\n2,x,north,1\n,7,,true\n"
    done = sources.check(schema(age, REGION, flag), content, "--json")
    assert done.code == 0
    found = {each["name"]: (each["empty"], each["unread"]) for each in done.json["columns"]}
    assert found == {"age": (1, 1), "region": (1, 1), "flag": (0, 1), "Person_id": (1, 0)}
    assert (done.json["rows"], done.json["clean"]) == (3, True)
    shown = sources.check(schema(age, REGION, flag), content).out
    assert "2 of 3: 1 empty, 1 no number" in shown
    assert "1 of 3: neither true nor false" in shown
    assert "a missing value is read as 0" in " ".join(shown.split())


def test_dates_that_are_not_read_are_counted(sources: Sources) -> None:
    ends = {"first": "2026-01-01", "last": "2026-12-31"}
    born, at = ({"type": type_, "name": type_, **ends} for type_ in ("date", "time"))
    declared = schema(born, at) | {"zone": "America/New_York"}
    rows = ["2026-03-01,2027-01-01T04:59Z", "01.03.2026,2027-01-01T05:00Z", "2025-12-31,"]
    content = "Person_id,date,time\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows))
    done = sources.check(declared, content, "--json")
    found = {each["name"]: (each["empty"], each["unread"]) for each in done.json["columns"]}
    assert found == {"date": (0, 2), "time": (1, 1), "Person_id": (0, 0)}
    assert done.json["clean"] is True
    assert "2 of 3: no date from first to last" in sources.check(declared, content).out
    unknown = sources.check(declared | {"zone": "America/New_Yorc"}, content)
    assert unknown.code == 1
    assert "has no zone America/New_Yorc" in " ".join(unknown.out.split())


def test_a_column_without_any_value_is_no_match(sources: Sources) -> None:
    done = sources.check(schema(REGION), "Person_id,region\n1,North\n2,South\n", "--json")
    assert (done.code, done.json["clean"]) == (1, False)
    empty = sources.check(schema(REGION), "Person_id,region\n", "--json")
    assert (empty.code, empty.json["rows"]) == (0, 0)


def test_lines_that_end_inside_quotes_are_counted(sources: Sources) -> None:
    content = 'Person_id,age\n1,"4\n5",6\n2,"7"\n3,8"\n'
    done = sources.check(schema(), content)
    assert done.code == 1
    assert "Lines that end inside quotes: 1." in done.out
    assert sources.check(schema(), content, "--json").json["open_quotes"] == 1


TYPES = [
    (REGION, {"region": [b"north"] * 20}, "all_missing", "no category is read from blob"),
    (REGION, {"region": pa.array([1] * 20, pa.date32())}, "all_missing", "from date"),
    (AGE, {"age": pa.nulls(20)}, "all_missing", "no number is read from null"),
    (AGE, {"age": [[1]] * 20}, "all_missing", "no number is read from list"),
    (AGE, {"AGE": [1] * 20}, "absent", "the source has no such column"),
]


@pytest.mark.parametrize(("column", "columns", "kind", "words"), TYPES)
def test_a_type_that_is_not_read_is_found(
    column: dict[str, Any],
    columns: dict[str, Any],
    kind: str,
    words: str,
    sources: Sources,
    tmp_path: Path,
) -> None:
    content = parquet(tmp_path, Person_id=range(20), **columns)
    declared = schema(column, kind="parquet")
    done = sources.check(declared, content, "--json", kind="parquet")
    (found, unit) = done.json["columns"]
    assert done.code == 1
    assert (found["finding"], unit["finding"]) == (kind, None)
    assert words in found["words"]


def test_ids_that_became_floats_are_found(sources: Sources, tmp_path: Path) -> None:
    content = parquet(tmp_path, Person_id=IDS, age=range(20))
    done = sources.check(schema(kind="parquet"), content, kind="parquet")
    assert done.code == 1
    assert "20 of 20: no name" in done.out
    assert "numbers from 2^53 on, are missing" in " ".join(done.out.split())


UNREADABLE: list[tuple[bytes, dict[str, str], str]] = [
    (gzip.compress(PEOPLE.encode()), {}, "it is compressed (gzip). Unpack it"),
    (PEOPLE.encode("utf-16"), {}, "it is in UTF-16. Write it in UTF-8"),
    (PEOPLE.replace(",", ";").encode(), {}, 'did you mean "delimiter": ";"?'),
    (b"", {}, "cannot be read: it is empty"),
    (b"", {"path": "."}, "its path is a directory"),
    (b"", {"path": "x-*.csv"}, "no file matches its pattern"),
    (b"", {"path": "away.csv"}, "there is no such file"),
]


@pytest.mark.parametrize(("content", "settings", "words"), UNREADABLE)
def test_a_source_that_cannot_be_read_is_explained(
    content: bytes, settings: dict[str, str], words: str, sources: Sources
) -> None:
    done = sources.check(schema(), content, **settings)
    assert done.code == 4
    assert "the source people cannot be read: " in done.err
    assert words in done.err
    assert done.out == ""


def test_a_cell_that_cannot_be_read_is_no_verdict_on_names(
    sources: Sources, tmp_path: Path
) -> None:
    texts = pa.array([b"north", b"\xff-secret"], pa.binary()).view(pa.string())
    content = parquet(tmp_path, Person_id=[1, 2], region=texts)
    done = sources.check(schema(REGION, kind="parquet"), content, kind="parquet")
    assert done.code == 4
    assert "cannot be read in full" in done.err
    assert "varchar" in done.out
    assert "secret" not in done.out + done.err


def test_a_source_that_the_settings_lack_is_found(sources: Sources) -> None:
    declared = schema() | {"source": {"kind": "csv", "name": "poeple"}}
    done = sources.check(declared, PEOPLE)
    assert done.code == 1
    assert "did you mean people?" in done.err
    other = sources.check(schema(kind="parquet"), PEOPLE)
    assert other.code == 1
    assert "sources.json says csv, and the schema parquet" in other.err


def test_names_that_several_columns_have_are_found(sources: Sources) -> None:
    done = sources.check(schema(), "Person_id,age,age\n1,2,3\n", "--json")
    (age, unit) = done.json["columns"]
    assert (done.code, age["finding"], unit["finding"]) == (1, "repeated", None)


def test_a_name_with_a_space_is_checked_like_others(sources: Sources) -> None:
    named = AGE | {"name": "year of birth", "upper": "2030"}
    content = "id of person,year of birth\n1,2000\n"
    done = sources.check(schema(named, unit="id of person"), content)
    assert done.code == 0, done.out


def test_a_file_without_a_line_of_names_is_noticed(sources: Sources) -> None:
    words = "The first line of the CSV file has a number as a name."
    done = sources.check(schema(), "ana,34,north\nben,51,south\n")
    assert done.code == 1
    assert words in done.out
    assert words in run_here(sources.directory, "source", "schema", "people").err
    assert words not in sources.check(schema(), PEOPLE).out


def test_a_stated_size_is_compared_with_the_rows_that_enter(sources: Sources) -> None:
    rows = "person,age\n" + "".join(f"{i // 3},{20 + i % 50}\n" for i in range(300))
    declared = schema(AGE, unit="person")
    declared["unit"]["rows"] = 2
    said = " ".join(sources.check(declared | {"size": 300}, rows, kind="csv").out.split())
    assert "the schema states 300, but 200 rows enter a question without a filter" in said
    said = " ".join(sources.check(declared | {"size": 200}, rows, kind="csv").out.split())
    assert "Size: 200 rows enter, as the schema states." in said
    assert "Size:" not in sources.check(declared, rows, kind="csv").out
