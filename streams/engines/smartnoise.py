"""SmartNoise SQL: the claim of a query is what each of its noisy columns spends."""

from __future__ import annotations

from typing import Any, Final

from accountant.claims import AllOf
from accountant.errors import RequestInvalid
from streams.client.requests import ScopedClaim
from streams.engines.rounding import pure_or_approximate, scoped_claim

_HELD: Final = {
    "censor_dims": (True, "or groups of few units are shown"),
    "clamp_columns": (True, "or values go beyond the bounds that the noise is scaled to"),
    "use_dpsu": (False, "SmartNoise spends epsilon 1 on it and does not count it"),
}
"""Options of the metadata that a cost holds under, each with its reason."""


def query_claim(reader: Any, query: str, *, unit: str) -> ScopedClaim:  # the engine has no types
    """Return what a query promises for one unit added or removed, without running it.

    The claim is a batch: the (epsilon, delta) of each column that SmartNoise adds noise to, with
    the count of units that it adds to hide small groups. Noise is scaled to the largest absolute
    value of a column and to `max_ids`, the rows of one unit; that is for units added or removed.

    Args:
        reader: a `PrivateReader`, of `snsql.from_df` or `snsql.from_connection`; once it is
            granted it runs this very query, with the privacy that it has now.
        query: one query, as for `reader.execute`.
        unit: what the metadata's `private_id` tells apart; a row where `row_privacy` is set.

    Raises:
        RequestInvalid: SmartNoise does not take the query, or it shows more than SmartNoise counts.
        TypeError: it is no reader of SmartNoise's.
    """
    from snsql.sql.private_reader import PrivateReader

    if type(reader) is not PrivateReader:
        raise TypeError(f"must be a PrivateReader of SmartNoise, got {type(reader).__name__}")
    columns = _noisy_columns(reader, query)
    parts = tuple(pure_or_approximate(column.epsilon, column.delta) for column in columns)
    claim = parts[0] if len(parts) == 1 else AllOf(parts)
    return scoped_claim(claim, unit=unit, neighbours="add_remove")


def _noisy_columns(reader: Any, query: str) -> list[Any]:
    """Return the mechanism of each column of the query that the database is asked instead."""
    try:
        asked = reader.parse_query_string(query)
        _check_options(asked)
        # As `execute` does it: options come from the tables of this query.
        reader._options.row_privacy = asked.row_privacy
        reader._options.reservoir_sample = asked.sample_max_ids
        reader._options.censor_dims = asked.censor_dims
        reader._options.clamp_columns = asked.clamp_columns
        inner, _ = reader._rewrite_ast(asked)
    except (ValueError, AttributeError, TypeError, ArithmeticError) as error:
        why = " ".join(str(error).split())
        raise RequestInvalid("query", f"must be one that SmartNoise takes: {why}", query) from error
    noisy = []
    for column in inner._select_symbols:
        if column.mechanism is None and not column.is_grouping_column:
            raise RequestInvalid("query", "must have noise on each column", column.name)
        if column.mechanism is not None:
            noisy.append(column.mechanism)
    if not noisy:
        raise RequestInvalid("query", "must have a column with noise", query)
    return noisy


def _check_options(asked: Any) -> None:
    from snsql._ast.ast import Query, Table

    # With a join or a query within the query, one table's options would hide the other's.
    tables, inner = len(asked.find_nodes(Table)), len(asked.find_nodes(Query))
    if tables != 1 or inner:
        rule = "must read one table, without a join and without another query in it"
        raise RequestInvalid("query", rule, f"{tables} tables, {inner} queries in it")
    for option, (held, why) in _HELD.items():
        given = getattr(asked, option)
        if given is not held:
            raise RequestInvalid(f"metadata.{option}", f"must be {held}: {why}", given)
    if not (asked.sample_max_ids or asked.row_privacy):
        rule = "must be True, or nothing holds a unit to its max_ids rows"
        raise RequestInvalid("metadata.sample_max_ids", rule, False)
