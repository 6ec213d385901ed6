"""A skeleton of a schema: names and types of a source, and what its owner has to fill in.

It has nothing that comes from a cell. Bounds, categories and the unit are for the owner to declare:
chosen by looking at the data, they would tell what no answer is charged for.
"""

from __future__ import annotations

import json
from typing import Any, Final

from accountant.questions.decimals import MAX_PLACES
from accountant.questions.schema import MAX_CANDIDATES, MAX_COLUMNS, is_column_name
from accountant.records.schema_file import FILL_IN
from streams.sources.cells import _FLOATS, CSV_TEXT
from streams.sources.source_facts import NO_HEADER, ColumnFact, SourceFacts
from streams.sources.type_readings import Use, reading_of

_TEXTS: Final = frozenset(("varchar", "enum", "uuid"))
_STEP: Final = {
    "step": f"{FILL_IN}the distance of the {MAX_CANDIDATES:,} values at most that a quantile "
    "chooses among, such as 100 in quotes; delete it if each value is one of them"
}
_BOUNDS: Final = {
    "lower": f"{FILL_IN}the least value that is possible, whatever the data hold",
    "upper": f"{FILL_IN}the largest value that is possible",
}
_DATES: Final = {
    "first": f"{FILL_IN}the first date that may be asked about, such as 2020-01-01",
    "last": f"{FILL_IN}the last one",
}
# A text in place of the list: no reader of a schema takes it for a category.
_CATEGORIES: Final = {"categories": f"{FILL_IN}a list of the texts that may be asked about"}


FILL_IT_IN: Final = (
    "Fill in what begins with FILL IN, from what you know of the people and not from the data."
)


def skeleton_text(kind: str, name: str, facts: SourceFacts) -> tuple[str, list[str]]:
    """Return `skeleton` as the text that its owner fills in, and its notes."""
    found, notes = skeleton(kind, name, facts)
    return json.dumps(found, indent=2, ensure_ascii=False), notes


def skeleton(kind: str, name: str, facts: SourceFacts) -> tuple[dict[str, Any], list[str]]:
    """Return a schema to be filled in, as JSON has it, and notes: columns that it lacks, and why.

    Args:
        kind, name: of the source, as the schema calls them.
    """
    columns = list[dict[str, Any]]()
    notes = [NO_HEADER] if facts.has_numbers_as_names else []
    for fact in facts.columns:
        problem = _problem(fact)
        if not problem and len(columns) == MAX_COLUMNS:
            problem = f"a schema has at most {MAX_COLUMNS} columns"
        if problem:
            notes.append(f"{fact.name} ({fact.type_text}) is left out: {problem}")
        else:
            columns.append(_column(fact))
    schema = {
        "source": {"kind": kind, "name": name},
        "columns": columns,
        "neighbours": f"{FILL_IN}add_remove or replace, as the dataset's policy",
        "unit": {
            "column": f"{FILL_IN}the column that names whose row it is; delete it from columns",
            "rows": f"{FILL_IN}the most rows of one unit that enter, a number without quotes",
        },
    }
    if any(column.get("type") in {"date", "time"} for column in columns):
        schema["zone"] = (
            f"{FILL_IN}whose clocks dates are read on, as Europe/Berlin; delete it: UTC"
        )
    return schema, notes


def _problem(fact: ColumnFact) -> str:
    """Return why a schema cannot have a column, "" if it can."""
    if fact.is_repeated:
        return "several columns have this name, in whatever case"
    if not is_column_name(fact.name):
        return "its name is empty, too long, or has a control character"
    return "" if _uses(fact) else "no kind of column is read from this type"


def _uses(fact: ColumnFact) -> list[Use]:
    """Return what a column can be declared as."""
    uses: tuple[Use, ...] = ("number", "category", "boolean", "date")
    return [
        use
        for use in uses
        if any(reading_of(type_name, use).missing != "all" for type_name in fact.types)
    ]


def _column(fact: ColumnFact) -> dict[str, Any]:
    types = set(fact.types)
    if types == {CSV_TEXT}:
        # A CSV file has no types, and cells are not looked at.
        return {
            "type": f"{FILL_IN}number, category, boolean, date or time, with the fields it needs",
            "name": fact.name,
        }
    uses = _uses(fact)
    if uses == ["boolean"]:
        return {"type": "boolean", "name": fact.name}
    if uses == ["date"]:
        return {"type": "date" if types == {"date"} else "time", "name": fact.name, **_DATES}
    if "number" not in uses or types & _TEXTS:
        return {"type": "category", "name": fact.name, **_CATEGORIES}
    return {"type": "number", "name": fact.name, **_BOUNDS, **_places(types), **_STEP}


def _places(types: set[str]) -> dict[str, Any]:
    if types & set(_FLOATS):
        return {"places": f"{FILL_IN}digits after the point, a number without quotes"}
    decimals = [each.rpartition(",")[2].rstrip(")") for each in types if each[:7] == "decimal"]
    places = min(MAX_PLACES, max(map(int, decimals), default=0))
    return {"places": places} if places else {}
