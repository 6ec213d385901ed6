"""Files of another format than a source's kind, recognized by their first bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streams.error_words import meaning_of
from streams.files.regular_files import open_regular
from streams.sources.csv_records import BOM, CsvRecords
from streams.sources.source_settings import CsvSource, DuckdbSource, ParquetSource, SourceSettings
from streams.sources.source_tables import EnvironmentProblem, SourceProblem

_HEAD_BYTES: Final = 65_536
_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "ZIP, as spreadsheets are",
}
_KINDS: Final = {b"PAR1": "Parquet", b"SQLite format 3\x00": "SQLite"}
_DUCKDB: Final = (8, b"DUCK")
"""Where a DuckDB file has which bytes."""
_UNICODE: Final = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_DELIMITERS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}


def check_format(settings: SourceSettings, path: str) -> None:
    """Check that a file is of its source's kind.

    Raises: SourceProblem: it is not, in words that have nothing of the file. EnvironmentProblem.
    """
    try:
        with open_regular(Path(path)) as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise EnvironmentProblem(f"it cannot be opened: {meaning_of(error)}") from error
    if not head:
        raise SourceProblem("it is empty")
    _check_not_packed(head)
    found = _kind_of(head)
    match settings:
        case ParquetSource() if found != "Parquet":
            raise SourceProblem(f"it is no Parquet file{_but(found)}")
        case DuckdbSource() if found != "DuckDB":
            raise SourceProblem(f"it is no DuckDB file{_but(found)}")
        case CsvSource():
            if found:
                raise SourceProblem(f"it is no CSV file{_but(found)}")
            _check_text(head)
            _check_first_line(CsvRecords(Path(path), settings.delimiter), head, settings)


def settings_of_file(path: Path, *, table: str | None, delimiter: str | None) -> SourceSettings:
    """Return the settings of a file, whose first bytes tell its kind.

    Args:
        table: of a DuckDB file.
        delimiter: of a CSV file; by default the one that its first line has most often.
    Raises: SourceProblem: an option is missing, or is for another kind. OSError.
    """
    with open_regular(path) as file:
        found = _kind_of(file.read(_HEAD_BYTES))
    if found == "DuckDB":
        if table is None:
            raise SourceProblem("it is a DuckDB file: name one of its tables with --table")
        return DuckdbSource(path=str(path), table=table)
    if table is not None:
        raise SourceProblem("it is no DuckDB file, so it has no --table")
    if found == "Parquet":
        return ParquetSource(path=str(path))
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=lambda each: len(CsvRecords(path, each).names))
    if delimiter not in _DELIMITERS:
        raise SourceProblem("--delimiter must be , ; | or a tab")
    return CsvSource(path=str(path), delimiter=delimiter)


def _check_not_packed(head: bytes) -> None:
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            raise SourceProblem(f"it is compressed ({name}). Unpack it")


def _kind_of(head: bytes) -> str:
    at, magic = _DUCKDB
    if head[at : at + len(magic)] == magic:
        return "DuckDB"
    return next((name for magic, name in _KINDS.items() if head.startswith(magic)), "")


def _but(found: str) -> str:
    return f", but a {found} file" if found else ""


def _check_text(head: bytes) -> None:
    encoding = next((name for bom, name in _UNICODE.items() if head.startswith(bom)), "")
    if not encoding and b"\x00" in head.partition(b"\n")[0]:
        encoding = "UTF-16 or UTF-32, or no text"
    if encoding:
        raise SourceProblem(f"it is in {encoding}. Write it in UTF-8")
    if b"\n" not in head and b"\r" in head:
        raise SourceProblem("its lines end with a carriage return alone. End them with a line feed")


def _check_first_line(records: CsvRecords, head: bytes, settings: CsvSource) -> None:
    """Check that the first line of a CSV file has the names of columns."""
    if not records.names:
        raise SourceProblem("its first line names no columns: it is empty, too long or not UTF-8")
    is_quoted = head.removeprefix(BOM).startswith(b'"')
    if len(records.names) > 1 or is_quoted:
        return
    for other, name in _DELIMITERS.items():
        if other != settings.delimiter and other in records.names[0]:
            meant = "\\t" if other == "\t" else other
            raise SourceProblem(
                f"its first line has {name} and no {_DELIMITERS[settings.delimiter][2:]}: "
                f'did you mean "delimiter": "{meant}"?'
            )
