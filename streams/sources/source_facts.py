"""The names and types that a source itself has, and what of a schema does not match them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import UNSET

from accountant.likeness import most_alike
from accountant.questions.schema import (
    BooleanColumn,
    CalendarColumn,
    CategoryColumn,
    Column,
    Schema,
)
from streams.sources.cells import CSV_TEXT, SourceColumn
from streams.sources.database import (
    cause_of,
    connected,
    files_of,
    import_duckdb,
    is_of_the_environment,
)
from streams.sources.file_formats import check_format
from streams.sources.source_settings import SourceSettings
from streams.sources.source_tables import EnvironmentProblem, SourceProblem, SourceTable
from streams.sources.type_readings import Use, reading_of
from streams.sources.zone_files import zone_of, zone_rules_version

FindingKind = Literal["absent", "repeated", "all_missing", "inexact_unit", "some_missing"]
REFUSED: Final[frozenset[FindingKind]] = frozenset(("absent", "repeated", "all_missing"))
"""Findings by which no question on a column, or none at all by the unit, has a useful answer."""
UNCLEAN: Final[frozenset[FindingKind]] = REFUSED | {"inexact_unit"}
"""Findings by which a source does not match a schema; the others only say how cells are read."""

NO_HEADER: Final = (
    "The first line of the CSV file has a number as a name. If that line is a row, write a line of "
    "names before it: names are shown as they are."
)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)?")


class _Struct(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Base of what is written down about a source."""


class ColumnFact(_Struct, frozen=True):
    """A column of a source.

    Attributes:
        name: as the file or table has it.
        types: DuckDB's names in lower case, such as `bigint` or `decimal(18,2)`, `text` in CSV;
            several if files differ, none if the name is repeated everywhere.
        is_repeated: a file has several columns of this name, or names equal but for case.
        is_partial: a file has no such column.
    """

    name: str
    types: tuple[str, ...]
    is_repeated: bool = False
    is_partial: bool = False

    @property
    def type_text(self) -> str:
        """The types in words."""
        return " or ".join(self.types) or "several columns"


class SourceFacts(_Struct, frozen=True):
    """The columns of a source, in their order; each name once.

    Facts are equal if all names and types are; another order is another value with equal `by_name`.
    """

    columns: tuple[ColumnFact, ...]

    @property
    def has_numbers_as_names(self) -> bool:
        """A name in a CSV file is a number: its first line is probably a row."""
        return any(
            CSV_TEXT in column.types and _NUMBER.fullmatch(column.name) for column in self.columns
        )

    def by_name(self) -> dict[str, ColumnFact]:
        """Return the columns by their exact names."""
        return {column.name: column for column in self.columns}


class SchemaFinding(_Struct, frozen=True):
    """What of a schema does not match the facts of its source.

    Attributes:
        column: its name in the schema.
        kind: `REFUSED` and `UNCLEAN` say what follows from it.
        words: what is wrong, for the owner: they have a type of the source.
        hint: a name of the source that may be meant, for the owner; "" if there is none.
        is_unit: the column names the unit.
    """

    column: str
    kind: FindingKind
    words: str
    hint: str = ""
    is_unit: bool = False

    @property
    def spellings(self) -> str:
        """Both names with escapes where a reader sees no difference, "" elsewhere."""
        names = (self.column, self.hint)
        if all(map(str.isascii, names)) or not most_alike(self.column, [self.hint], edits=False):
            return ""
        written, meant = (ascii(name)[1:-1] for name in names)
        return f" The schema has `{written}`, the source `{meant}`."


def read_facts(settings: SourceSettings) -> SourceFacts:
    """Return a source's names and types, from its metadata alone.

    Raises: SourceProblem: it has another format or cannot be read, in words that have no cell.
        EnvironmentProblem: the same may succeed later. NotInstalled.
    """
    import_duckdb()
    files = files_of(settings)
    for path in files:
        try:
            check_format(settings, path)
        except SourceProblem as error:
            which = f"{Path(path).name}: " if len(files) > 1 else ""
            raise type(error)(f"{which}{error}") from error
    try:
        with connected(settings, None) as source:
            return facts_of(source.tables)
    except SourceProblem:
        raise
    except Exception as error:
        problem = problem_of(error, "its names and types")
    # Outside the handler: no traceback leads to the cause, whose words may have cells.
    raise problem


def problem_of(error: Exception, what: str) -> SourceProblem:
    """Return the problem that an error of the engine is, in words that have no cell."""
    cause = cause_of(error)
    if is_of_the_environment(error):
        then = "Another program may have it open, or a limit was reached"
        return EnvironmentProblem(f"{what} cannot be read now ({cause}). {then}")
    return SourceProblem(f"{what} cannot be read ({cause})")


def facts_of(tables: Sequence[SourceTable]) -> SourceFacts:
    """Return the facts of a source whose files or table are these."""
    found: dict[str, list[SourceColumn]] = {}
    for table in tables:
        for name, column in table.columns.items():
            found.setdefault(name, []).append(column)
        for name in sorted(table.repeated):
            found.setdefault(name, [])
    facts = list[ColumnFact]()
    for name, columns in found.items():
        repeated = sum(name in table.repeated for table in tables)
        facts.append(
            ColumnFact(
                name=name,
                types=tuple(sorted(set(map(_type_name, columns)))),
                is_repeated=repeated > 0,
                is_partial=len(columns) + repeated < len(tables),
            )
        )
    return SourceFacts(columns=tuple(facts))


def check_schema(schema: Schema, facts: SourceFacts) -> list[SchemaFinding]:
    """Return what of a schema does not match a source, the unit last."""
    uses = [(column.name, _use_of(column)) for column in schema.columns]
    if schema.unit is not UNSET:
        uses.append((schema.unit.column, "unit"))
    declared = {name for name, _ in uses}
    others = [column.name for column in facts.columns if column.name not in declared]
    columns = facts.by_name()
    findings = [_finding(name, use, columns.get(name), others) for name, use in uses]
    return [
        *_findings_of_zone(schema),
        *(finding for finding in findings if finding is not None),
    ]


def _findings_of_zone(schema: Schema) -> list[SchemaFinding]:
    """Return that no date is read, if nobody has the rules of the schema's zone."""
    if zone_of(schema) is not None:
        return []
    words = f"{zone_rules_version(schema)} has no zone {schema.zone}: all are missing"
    return [
        SchemaFinding(column=column.name, kind="all_missing", words=words)
        for column in schema.columns
        if isinstance(column, CalendarColumn)
    ]


def is_clean(findings: Iterable[SchemaFinding]) -> bool:
    """Tell whether a source matches a schema."""
    return all(finding.kind not in UNCLEAN for finding in findings)


def _finding(
    name: str, use: Use, fact: ColumnFact | None, others: Sequence[str]
) -> SchemaFinding | None:
    is_unit = use == "unit"

    def finding(kind: FindingKind, words: str, hint: str = "") -> SchemaFinding:
        return SchemaFinding(column=name, kind=kind, words=words, hint=hint, is_unit=is_unit)

    if fact is None:
        meant = most_alike(name, others)
        return finding("absent", "the source has no such column", meant)
    if fact.is_repeated:
        return finding("repeated", "several columns have this name, in whatever case")
    readings = [(type_name, reading_of(type_name, use)) for type_name in fact.types]
    missing = {reading.missing for _, reading in readings}
    partly: FindingKind = "inexact_unit" if is_unit else "some_missing"
    what = "unit" if is_unit else use
    if missing == {"all"}:
        return finding("all_missing", f"no {what} is read from {fact.type_text}: all are missing")
    words = [
        f"{type_name}: {reading.which} are missing"
        if reading.missing == "some"
        else f"{type_name}: all are missing"
        for type_name, reading in readings
        if reading.missing != "none"
    ]
    if fact.is_partial:
        words.append("a file lacks the column: it is missing in each of its rows")
    return finding(partly, "; ".join(words)) if words else None


def _use_of(column: Column) -> Use:
    if isinstance(column, CalendarColumn):
        return "date"
    if isinstance(column, CategoryColumn):
        return "category"
    return "boolean" if isinstance(column, BooleanColumn) else "number"


def _type_name(column: SourceColumn) -> str:
    if column.type_id == "decimal":
        return f"decimal({column.digits},{column.places})"
    return column.type_id
