"""The file that says where the data of each named source are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from streams.errors import Refused

_MOST_BYTES: Final = 1_000_000


class _SourceFields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """Base of each kind of source.

    Attributes:
        threads: which DuckDB may use.
        memory_mb: which DuckDB may use before it writes to a temporary directory.
        seconds: the longest time for one question.
    """

    threads: Annotated[int, Meta(ge=1, le=256)] = 2
    memory_mb: Annotated[int, Meta(ge=128, le=1_000_000)] = 1024
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 600


class ParquetSource(_SourceFields, frozen=True, tag="parquet"):
    """One Parquet file, or all that a pattern such as `visits-*.parquet` matches."""

    path: str


class CsvSource(_SourceFields, frozen=True, tag="csv"):
    """One CSV file in UTF-8 whose first line names the columns, or all that a pattern matches."""

    path: str
    delimiter: Annotated[str, Meta(pattern=r"^[,;|\t]$")] = ","


class DuckdbSource(_SourceFields, frozen=True, tag="duckdb"):
    """A table or view in a DuckDB file, `table` or `schema.table`."""

    path: str
    table: str


class PostgresqlSource(_SourceFields, frozen=True, tag="postgresql"):
    """A table or view in PostgreSQL.

    Attributes:
        connection_file: has libpq's connection text; only its user may read it.
        table: `schema.table`.
    """

    connection_file: str
    table: str


SourceSettings = ParquetSource | CsvSource | DuckdbSource | PostgresqlSource


def read_source_settings(path: Path) -> dict[str, SourceSettings]:
    """Return the sources of a JSON file by name.

    Raises: Refused: it cannot be read, or does not have this form.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > _MOST_BYTES:
        raise Refused(f"{path} must have at most {_MOST_BYTES} bytes")
    try:
        sources = msgspec.json.decode(content, type=dict[str, SourceSettings])
    except msgspec.DecodeError as error:
        raise Refused(
            f'{path} must name sources, such as {{"census": {{"kind": "parquet", "path": '
            f'"census.parquet"}}}}: {error}'
        ) from error
    folder = path.absolute().parent
    return {name: _under(folder, settings) for name, settings in sources.items()}


def _under(folder: Path, settings: SourceSettings) -> SourceSettings:
    """Return a source whose relative paths begin at the directory of the settings' file."""
    match settings:
        case PostgresqlSource():
            connection_file = str(folder / settings.connection_file)
            return msgspec.structs.replace(settings, connection_file=connection_file)
        case _:
            return msgspec.structs.replace(settings, path=str(folder / settings.path))


def kind_of(settings: SourceSettings) -> str:
    """Return the kind as a schema calls it."""
    return str(settings.__struct_config__.tag)
