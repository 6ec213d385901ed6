"""The file that says where the data of each named source are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from accountant.errors import RequestInvalid
from accountant.questions.schema import SourceKind, check_source_name
from accountant.records.names import check_name
from accountant.strict_json import read_json
from streams.errors import Refused
from streams.files.private_files import read_trusted
from streams.sources.quoted import table_names

_MOST_BYTES: Final = 1_000_000
TIMES_OF_A_READING: Final = 4
"""How much longer than a reading in full a question on what was read may take."""


class _SourceFields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """Base of each kind of source.

    Attributes:
        threads: which DuckDB may use.
        memory_mb: which DuckDB may use before it writes to a temporary directory.
        spill_mb: which DuckDB may write there.
        seconds: the longest reading of a version in full; a question then has four times as long.
        datasets: those that may read it, and no other; left out, see
            `streams.sources.source_access`.
    """

    threads: Annotated[int, Meta(ge=1, le=256)] = 2
    memory_mb: Annotated[int, Meta(ge=128, le=1_000_000)] = 1024
    spill_mb: Annotated[int, Meta(ge=1, le=100_000_000)] = 20_000
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 150
    datasets: tuple[str, ...] | UnsetType = UNSET


class ParquetSource(_SourceFields, frozen=True, tag="parquet"):
    """One Parquet file, or all that a pattern such as `visits-*.parquet` matches."""

    path: str


class CsvSource(_SourceFields, frozen=True, tag="csv"):
    """One CSV file in UTF-8 whose first line names the columns, or all that a pattern matches."""

    path: str
    delimiter: Annotated[str, Meta(pattern=r"^[,;|\t]$")] = ","


class DuckdbSource(_SourceFields, frozen=True, tag="duckdb"):
    """A table or view in a DuckDB file, `table` or `schema.table`; a name with a dot is quoted."""

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

    Raises: Refused: it cannot be read, others may change it, or it does not have this form.
    """
    try:
        content = read_trusted(
            path, _MOST_BYTES + 1, what="the file of sources", then="review which datasets it names"
        )
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > _MOST_BYTES:
        raise Refused(f"{path} must have at most {_MOST_BYTES} bytes")
    try:
        sources = read_json(content, dict[str, SourceSettings])
        for name, settings in sources.items():
            _check_names(name, settings)
            if isinstance(settings, DuckdbSource | PostgresqlSource):
                table_names(settings.table)
    except (msgspec.DecodeError, ValueError) as error:
        is_kind = "kind`" in str(error)
        kinds = f". A kind is one of {', '.join(get_args(SourceKind))}" if is_kind else ""
        raise Refused(
            f'{path} must name sources, such as {{"census": {{"kind": "parquet", "path": '
            f'"census.parquet", "datasets": ["census"]}}}}: {error}{kinds}'
        ) from error
    folder = path.absolute().parent
    return {name: _under(folder, settings) for name, settings in sources.items()}


def _check_names(name: str, settings: SourceSettings) -> None:
    """Check the name of a source, and those of the datasets that read it.

    Raises: ValueError.
    """
    datasets = () if settings.datasets is UNSET else settings.datasets
    try:
        check_source_name("a source's name", name)
        for i, dataset in enumerate(datasets):
            check_name(f"{name}.datasets[{i}]", dataset)
    except RequestInvalid as error:
        raise ValueError(str(error)) from error
    if len(set(datasets)) < len(datasets):
        raise ValueError(f"{name}.datasets must name each dataset once")


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
