"""Records of CSV files, compared with Python's csv module, given one line at a time."""

from __future__ import annotations

import csv
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import duckdb
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.sources.csv_records import CsvRecords
from streams.sources.source_settings import CsvSource
from tests.accountant.questions.schemas import small_schema
from tests.nightly import rounds
from tests.streams.sources.source_files import asked, statistics_of_file

MOST = 2_000_000
Record = tuple[str | None, ...]


def records_of_file(path: Path, delimiter: str, block_bytes: int = 2**20) -> Counter[Record]:
    records = CsvRecords(path, delimiter, block_bytes=block_bytes)
    with duckdb.connect(config={"threads": 2, "python_enable_replacements": "false"}) as connection:
        connection.register("csv_0", records)
        sql = records.sql("csv_0", range(len(records.names)))
        return Counter(row[1:] for row in connection.execute(f"SELECT * FROM {sql}").fetchall())


def found(content: bytes, delimiter: str = ",", block_bytes: int = 2**20) -> Counter[Record]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(content)
        return records_of_file(path, delimiter, block_bytes)


def line_alone(line: bytes, delimiter: str) -> list[str] | None:
    """Return the cells of a line, None if it is dropped."""
    line = line.removesuffix(b"\r")
    if len(line) > MOST:
        return None
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    # The module refuses a lone carriage return; here that is a character like others.
    csv.field_size_limit(MOST)
    cells = next(csv.reader([text.replace("\r", "\ue000")], delimiter=delimiter), [])
    return [cell.replace("\ue000", "\r") for cell in cells]


def expected(content: bytes, delimiter: str = ",") -> Counter[Record]:
    first, *lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    width = len(line_alone(first, delimiter) or [])
    if lines and not lines[-1]:
        del lines[-1]
    records = [line_alone(line, delimiter) for line in lines]
    return Counter(
        tuple(cell or None for cell in [*cells, *[""] * width][:width])
        for cells in records
        if cells is not None
    )


PIECES = (
    *(b'"', b'"', b'""', b",", b",", b",", b";", b"\t", b"|", b"\r", b"\r", b"\x00", b"\x1f"),
    *(b"a", b"b", b" ", b"\\", b"'", b"#", b"1", "é".encode(), "\u0301".encode(), "😀".encode()),
    *("\u2028".encode(), b"\x85", b"\x0b", b"\x0c", b"\xff", b"\xc3", b"\xed\xa0\x80"),
    *(b"\xef\xbb\xbf", b"\xc0\xaf", b"abcdefghijklmnop"),
)
line_contents = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
delimiters = st.sampled_from(",,;|\t")
headers = st.sampled_from(
    [b"a,b,c", b"a;b;c", b"a|b", b"a\tb", b'a,"b', b"", b"\xff", b"\xef\xbb\xbfa,b"]
)


@settings(max_examples=rounds(70, 20_000), deadline=None)
@given(
    header=headers | line_contents,
    lines=st.lists(line_contents | st.just(b""), max_size=8),
    ends=st.sampled_from([b"\n", b"\r\n", b"\r\r\n", b"\n\n"]),
    last=line_contents | st.just(b""),
    delimiter=delimiters,
    block_bytes=st.integers(1, 40) | st.just(2**20),
)
@example(b"a,b", [b'"', b"c,d"], b"\n", b"", ",", 2**20)
@example(b"a,b", [b"c\r", b"\rd"], b"\r\n", b"\r", ",", 2)
def test_records_are_those_of_each_line_alone(
    header: bytes, lines: list[bytes], ends: bytes, last: bytes, delimiter: str, block_bytes: int
) -> None:
    content = b"".join(line + ends for line in [header, *lines]) + last
    assert found(content, delimiter, block_bytes) == expected(content, delimiter)


@settings(max_examples=rounds(20, 5_000), deadline=None)
@given(
    header=headers,
    lines=st.lists(line_contents, min_size=1, max_size=6),
    other=line_contents | st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")),
    data=st.data(),
    delimiter=delimiters,
    block_bytes=st.integers(1, 40) | st.just(2**20),
)
def test_another_line_leaves_all_other_records(
    header: bytes,
    lines: list[bytes],
    other: bytes,
    data: st.DataObject,
    delimiter: str,
    block_bytes: int,
) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))

    def records(lines: Sequence[bytes]) -> Counter[Record]:
        content = b"".join(line + b"\n" for line in [header, *lines])
        return found(content, delimiter, block_bytes)

    others = records([*lines[:at], *lines[at + 1 :]])
    with_other = records([*lines[:at], other, *lines[at + 1 :]])
    assert with_other == others + records([other])
    assert with_other.total() - others.total() in {0, 1}


def test_lines_across_blocks_are_whole() -> None:
    chosen = random.Random(1)
    lines = [b"a,b,c"]
    for i in range(40_000):
        pieces = chosen.choices(PIECES, k=chosen.randrange(8))
        lines.append(b"%d,%s" % (i, b"".join(pieces)))
    for size in (MOST - 1, MOST, MOST + 1, MOST + 2, MOST + 3, 2 * MOST + 4, 5 * MOST):
        lines.insert(chosen.randrange(1, len(lines)), b"%d," % size + b"x" * (size - 8))
        lines.insert(chosen.randrange(1, len(lines)), b'%d,"' % size + b"\r" * (size - 9))
    content = b"".join(line + chosen.choice([b"\n", b"\r\n"]) for line in lines)
    # Pytest would print the difference of two such tables for minutes.
    same = found(content) == expected(content)
    assert same


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"x" * (2**20 - 2)])
def test_a_line_has_2_000_000_bytes_at_most(start: bytes, end: bytes) -> None:
    assert found(b"a\n" + start + b"x" * (MOST - len(start)) + end).total() == 1
    assert found(b"a\n" + start + b"x" * (MOST + 1 - len(start)) + end).total() == 0
    assert found(b"a\n1\n" + start + b"x" * 3 * MOST + b"\n2\n") == {("1",): 1, ("2",): 1}


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b'"1,2","say ""a"""', ("1,2", 'say "a"')),
        (b'"1,2', ("1,2", None)),
        (b'"1"2"3,4', ('12"3', "4")),
        (b'1"2,3"', ('1"2', '3"')),
        (b' "1,2"', (' "1', '2"')),
        (b"1\r2,3\r\r", ("1\r2", "3\r")),
        (b'"",', (None, None)),
        (b"", (None, None)),
        (b"1", ("1", None)),
        (b"1,2,3", ("1", "2")),
        (b'"1",2,"', ("1", "2")),
    ],
)
def test_a_line_has_these_cells(line: bytes, cells: Record) -> None:
    assert found(b"a,b\n" + line + b"\n7,8") == {cells: 1, ("7", "8"): 1}


def test_a_first_line_that_is_dropped_names_no_column(tmp_path: Path) -> None:
    counted = asked("count", msgspec.structs.replace(small_schema(), unit=msgspec.UNSET), "csv")
    summed = asked("sum(x)", small_schema(), "csv")
    source = CsvSource(path=str(tmp_path / "t.csv"))
    for first in (b"unit,x,\xff", b"unit," + b"x" * MOST, b""):
        (tmp_path / "t.csv").write_bytes(first + b"\nu,1\nv,2\n")
        assert statistics_of_file(source, counted, key=b"") == ((Fraction(2),),)
        assert statistics_of_file(source, summed, key=b"") == ((Fraction(0),),)


@pytest.mark.parametrize("character", [b",", b'"', b'",'])
def test_long_lines_fit_into_memory(character: bytes, tmp_path: Path) -> None:
    long = b"u,1," + character * (1_900_000 // len(character))
    (tmp_path / "t.csv").write_bytes(b"unit,x\n" + (long + b"\n") * 30)
    source = CsvSource(path=str(tmp_path / "t.csv"), memory_mb=128)
    checked = asked("sum(x)", small_schema(rows=40), "csv")
    assert statistics_of_file(source, checked, key=b"") == ((Fraction(30),),)


@settings(max_examples=rounds(70, 5_000), deadline=None)
@given(st.lists(st.text('",a', max_size=8), max_size=6))
@example(['1,"4', '5",6', '2,"7"', '"a""', '"a"",b'])
def test_lines_that_end_inside_quotes_are_those_of_the_csv_module(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes("".join(f"{line}\n" for line in ["x,y", *lines]).encode() + b"\xff,1\n")
        flaws = CsvRecords(path, ",", block_bytes=7).flaws()
    # A line that ends inside quotes takes the next one into its record.
    records = [list(csv.reader([f"{line}\n", "next\n"])) for line in lines]
    assert flaws.open_quotes == sum(len(each) == 1 for each in records)
    assert flaws.not_utf8 == 1
