"""What `accountant source check` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from accountant.display.quantile_steps import (
    columns_without_quantiles,
    least_step,
    no_quantile_words,
)
from accountant.questions.schema import Column, Schema
from streams.sources.missing_cells import MissingCells, SourceCounts
from streams.sources.source_facts import (
    NO_HEADER,
    ColumnFact,
    SchemaFinding,
    SourceFacts,
    is_clean,
)

_FOR_OWNERS: Final = (
    "These numbers are exact numbers of the data. They are for the owner alone: do not publish "
    "them."
)
_OPEN_QUOTES: Final = (
    "Lines that end inside quotes: {count:,}. Here a cell has no line break: what follows one is a "
    "row of its own, perhaps of another person. Replace line breaks within cells before you write "
    "the file."
)
_NOT_UTF8: Final = "Lines that are not UTF-8, and are dropped: {count:,}."
_UNREAD: Final = {
    "number": "no number",
    "category": "another category",
    "boolean": "neither true nor false",
    "date": "no date from first to last",
    "time": "no time from first to last",
    "unit": "no name",
}
"""Why a cell that is not empty has no value."""


class _Declared(NamedTuple):
    """A column of a schema, or its unit.

    Attributes:
        replacement: what a missing value is read as, "" if it stays missing.
    """

    name: str
    use: str
    replacement: str


@dataclass(frozen=True, slots=True)
class CheckedSource:
    """A schema beside its source.

    Attributes:
        counts: None where the source could not be read in full.
    """

    schema: Schema
    facts: SourceFacts
    findings: tuple[SchemaFinding, ...]
    counts: SourceCounts | None

    @property
    def declared(self) -> list[_Declared]:
        """The columns, then the unit."""
        found = [_declared(column) for column in self.schema.columns]
        unit = self.schema.unit
        return found if unit is UNSET else [*found, _Declared(unit.column, "unit", "")]

    @property
    def left_out(self) -> list[ColumnFact]:
        """The columns of the source that the schema does not name."""
        names = {each.name for each in self.declared}
        return [fact for fact in self.facts.columns if fact.name not in names]

    @property
    def is_clean(self) -> bool:
        """The source matches, each column has some value, and no line is cut in two."""
        counts = self.counts
        if counts is None or not is_clean(self.findings):
            return False
        each = [*counts.columns.values(), *([] if counts.unit is None else [counts.unit])]
        is_empty = counts.rows > 0 and any(cells.count == counts.rows for cells in each)
        return not is_empty and (counts.lines is None or not counts.lines.open_quotes)

    def finding(self, name: str) -> SchemaFinding | None:
        """Return what was found of a column."""
        return next((each for each in self.findings if each.column == name), None)

    def missing(self, column: _Declared) -> MissingCells | None:
        """Return the missing cells of a column."""
        if self.counts is None:
            return None
        return self.counts.unit if column.use == "unit" else self.counts.columns[column.name]


def _declared(column: Column) -> _Declared:
    missing = "" if column.missing is UNSET else str(column.missing)
    return _Declared(column.name, str(column.__struct_config__.tag), missing)


def check_json(checked: CheckedSource) -> dict[str, Any]:
    """Return the result as JSON."""
    columns = [_column_json(checked, each) for each in checked.declared]
    counts = checked.counts
    found: dict[str, Any] = {
        "source": checked.schema.source.name,
        "kind": checked.schema.source.kind,
        "clean": checked.is_clean,
        "columns": columns,
        "left_out": [{"name": each.name, "types": each.types} for each in checked.left_out],
        "no_quantiles": [
            {"name": each.name, "candidates": each.candidates, "step": least_step(each)}
            for each in columns_without_quantiles(checked.schema)
        ],
        "numbers_as_names": checked.facts.has_numbers_as_names,
        "rows": None if counts is None else counts.rows,
        "entering": None if counts is None else counts.entering,
    }
    if counts is not None and counts.lines is not None:
        found |= {"open_quotes": counts.lines.open_quotes, "not_utf8": counts.lines.not_utf8}
    return found | {"note": _FOR_OWNERS}


def _column_json(checked: CheckedSource, column: _Declared) -> dict[str, Any]:
    fact = checked.facts.by_name().get(column.name)
    finding, missing = checked.finding(column.name), checked.missing(column)
    return {
        "name": column.name,
        "declared": column.use,
        "types": () if fact is None else fact.types,
        "finding": None if finding is None else finding.kind,
        "words": "" if finding is None else finding.words,
        "did_you_mean": "" if finding is None else finding.hint,
        "empty": None if missing is None else missing.empty,
        "unread": None if missing is None else missing.unread,
    }


def check_lines(checked: CheckedSource) -> Iterator[Table | str]:
    """Yield the result for people: a table, then sentences."""
    yield _table(checked)
    counts = checked.counts
    left_out = [f"{each.name} ({each.type_text})" for each in checked.left_out]
    if left_out:
        yield f"The schema leaves out: {', '.join(left_out)}."
    if checked.facts.has_numbers_as_names:
        yield NO_HEADER
    yield from map(no_quantile_words, columns_without_quantiles(checked.schema))
    if counts is not None:
        if counts.lines is not None and counts.lines.open_quotes:
            yield _OPEN_QUOTES.format(count=counts.lines.open_quotes)
        if counts.lines is not None and counts.lines.not_utf8:
            yield _NOT_UTF8.format(count=counts.lines.not_utf8)
        yield _rows(counts)
        if counts.entering is not None:
            yield _size(checked.schema, counts.entering)
        yield _FOR_OWNERS
    if checked.is_clean:
        yield "The source matches the schema."
    elif counts is not None:
        yield "The source does not match the schema. A schema is fixed for ever at the opening."


def _rows(counts: SourceCounts) -> str:
    if counts.unit is None:
        return f"Rows: {counts.rows:,}. Each is a unit of its own."
    entering = counts.rows - counts.unit.count
    return f"Rows with a unit: {entering:,} of {counts.rows:,}. The others are dropped."


def _size(schema: Schema, entering: int) -> str:
    stated, bound = schema.size, schema.rows_per_unit
    if stated == entering:
        return f"Size: {entering:,} rows enter, as the schema states."
    rows = f"{entering:,} rows enter a question without a filter, at most {bound} of a unit"
    return (
        f"Size: the schema states {stated:,}, but {rows}. Means are moved by as large a part of "
        "their distance from the middle of the bounds."
    )


def _table(checked: CheckedSource) -> Table:
    source = checked.schema.source
    title = f"source {source.name} ({source.kind})"
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column("schema", overflow="fold")
    table.add_column("source", overflow="fold")
    table.add_column("cells without a value", overflow="fold")
    table.add_column("why", overflow="fold")
    facts = checked.facts.by_name()
    for column in checked.declared:
        fact, finding = facts.get(column.name), checked.finding(column.name)
        table.add_row(
            Text(f"{column.name}: {column.use}"),
            Text("–" if fact is None else fact.type_text),
            Text(_cells(checked, column)),
            Text(_why(finding, column)),
        )
    return table


def _cells(checked: CheckedSource, column: _Declared) -> str:
    missing, counts = checked.missing(column), checked.counts
    if missing is None or counts is None:
        return "not read"
    reasons = {
        "no such column" if column.name not in checked.facts.by_name() else "empty": missing.empty,
        _UNREAD[column.use]: missing.unread,
    }
    found = {reason: count for reason, count in reasons.items() if count}
    if not found:
        return "none"
    # A single reason needs no number of its own.
    each = [f"{count:,} {reason}" for reason, count in found.items()]
    words = ", ".join(each) if len(found) > 1 else next(iter(found))
    return f"{missing.count:,} of {counts.rows:,}: {words}"


def _why(finding: SchemaFinding | None, column: _Declared) -> str:
    words = [] if finding is None else [finding.words]
    if finding is not None and finding.hint:
        words[0] += f": did you mean {finding.hint}?{finding.spellings}"
    if column.replacement:
        words.append(f"a missing value is read as {column.replacement}")
    return "; ".join(words)
