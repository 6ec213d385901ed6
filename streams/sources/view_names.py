"""Names of a view's columns that may be another column's: those of the queries within it.

DuckDB makes the names of a query within a query unique, without regard to case: of `age, AGE,
AGE_1` the outer query finds `age, AGE_1, AGE_1_1`, so its `AGE_1` is the inner `AGE`. Each query
within a view is described alone, where DuckDB says the names as they stand.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_NUMBERED: Final = re.compile(rb"(.+?)(_[0-9]+)+", re.DOTALL)

_WITHOUT_NAMES: Final = frozenset({"generate_series", "range", "unnest"})
"""Functions of tables that are no macros: a macro may have queries that nobody looks at."""

Query = dict[str, Any]
Views = Callable[[Mapping[str, Any]], str | None]


def folded(name: str) -> bytes:
    """Return a name as DuckDB compares it: without the case of ASCII letters."""
    return name.encode().lower()


class InnerNames:
    """The names that the queries within a view give to several of their columns.

    Args:
        connection: to DuckDB, which uses the view's schema.
        view_of: returns the query of the view that a table reference names, None if it names none.
    """

    def __init__(self, connection: Any, view_of: Views) -> None:
        self._connection = connection
        self._view_of = view_of
        self._views = set[str]()
        self._repeated = set[bytes]()
        self._is_checked = True

    def add(self, query: str, *, is_view: bool = False) -> None:
        """Look at the queries within a query.

        Args:
            is_view: it is a view's that another one reads, and so is within that one itself.
        """
        if query in self._views:
            return
        self._views.add(query)
        parsed = self._json("SELECT json_serialize_sql(?)", query)
        statements = [] if parsed is None else json.loads(parsed).get("statements", [])
        self._is_checked &= bool(statements)
        for statement in statements:
            if is_view:
                self._describe(query)
            self._look(statement["node"], [])

    def may_be_another(self, name: str) -> bool:
        """Tell whether the engine may have given a column's name to another one."""
        numbered = _NUMBERED.fullmatch(folded(name))
        if folded(name) in self._repeated:
            return True
        return numbered is not None and (numbered[1] in self._repeated or not self._is_checked)

    def _look(self, query: Query, before: list[Any]) -> None:
        """Look at the queries within a query.

        Args:
            before: the entries of WITH that it can read.
        """
        own = query.get("cte_map", {}).get("map", [])
        known = [*before, *own]
        for inner, is_table in _within(query):
            described = _with(inner, known)
            text = self._json("SELECT json_deserialize_sql(?)", _statement(described))
            # A query within an expression names no column of its outer one.
            if (text is None or not self._describe(text)) and is_table:
                self._is_checked = False
            self._look(inner, known)
        for reference in _tables(query):
            if reference["type"] == "TABLE_FUNCTION":
                self._is_checked &= reference["function"]["function_name"] in _WITHOUT_NAMES
            elif view := self._view_of(reference):
                self.add(view, is_view=True)

    def _describe(self, query: str) -> bool:
        """Note which names several columns of a query have; tell whether it can be described."""
        try:
            described = self._connection.execute(f"DESCRIBE {query}").fetchall()
        except self._errors:
            return False
        counts = Counter(folded(name) for name, *_ in described)
        self._repeated |= {name for name, count in counts.items() if count > 1}
        return True

    def _json(self, statement: str, text: str) -> str | None:
        try:
            return str(self._connection.execute(statement, [text]).fetchone()[0])
        except self._errors:
            return None

    @property
    def _errors(self) -> type[Exception]:
        import duckdb

        return duckdb.Error


def _within(part: Any, *, is_table: bool = True) -> Iterator[tuple[Query, bool]]:
    """Yield the outermost queries within a part of one, and whether each is read as a table."""
    if isinstance(part, list):
        for each in part:
            yield from _within(each, is_table=is_table)
    elif isinstance(part, dict):
        is_table = is_table and "class" not in part  # an expression has one
        for key, value in part.items():
            if key in ("node", "query_node"):
                yield value, is_table
            else:
                yield from _within(value, is_table=is_table)


def _tables(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the references to tables in a query, without those of the queries within it."""
    if isinstance(part, list):
        for each in part:
            yield from _tables(each)
    elif isinstance(part, dict):
        if part.get("type") in ("BASE_TABLE", "TABLE_FUNCTION"):
            yield part
        for key, value in part.items():
            if key not in ("node", "query_node"):
                yield from _tables(value)


def _with(query: Query, before: list[Any]) -> Query:
    """Return a query that begins with the entries of WITH before it."""
    own = query.get("cte_map", {}).get("map", [])
    return {**query, "cte_map": {"map": [*before, *own]}}


def _statement(query: Query) -> str:
    return json.dumps({"error": False, "statements": [{"node": query, "named_param_map": []}]})
