"""SmartNoise SQL: a query's claim is the sum of what its noisy columns spend."""

from __future__ import annotations

import math
from typing import Any, Final

from accountant.claims import AllOf
from accountant.errors import RequestInvalid
from streams.engines.rounding import pure_or_approximate
from streams.engines.scoped_claim import ScopedClaim, scoped_claim
from streams.engines.wrong_type import wrong_type

_ROUNDING: Final = 1 + 2**-40
_REQUIRED_OPTIONS: Final = {
    "censor_dims": (True, "otherwise groups of few units are shown"),
    "clamp_columns": (True, "otherwise values may exceed the bounds that the noise is scaled to"),
    "use_dpsu": (False, "SmartNoise spends epsilon 1 on it and does not count it"),
}
"""Options of the metadata that a claim requires, each with its reason."""


def query_claim(reader: Any, query: str, *, unit: str) -> ScopedClaim:  # the engine has no types
    """Return the claim of a query for one unit added or removed, without running it.

    The claim is a batch: the (epsilon, delta) of each column that SmartNoise adds noise to,
    including the count of units that it adds to hide small groups. SmartNoise scales noise to a
    column's largest absolute value and to `max_ids`, the rows of one unit.

    Args:
        reader: a `PrivateReader`, of `snsql.from_df` or `snsql.from_connection`, with SmartNoise's
            own mechanisms. After the grant, run the same query with the same reader and privacy.
        query: one query, as for `reader.execute`.
        unit: what the metadata's `private_id` identifies; a row where `row_privacy` is set.

    Raises:
        RequestInvalid: SmartNoise rejects the query, or it shows more than SmartNoise counts.
        TypeError: it is not a reader of SmartNoise.
    """
    from snsql.sql.private_reader import PrivateReader

    if type(reader) is not PrivateReader:
        how = "Pass what `snsql.from_connection(...)` returns"
        raise wrong_type("reader", "a PrivateReader of SmartNoise", reader, how)
    _check_mechanisms(reader)
    columns = _noisy_columns(reader, query)
    parts = tuple(pure_or_approximate(column.epsilon, delta) for column, delta in columns)
    claim = parts[0] if len(parts) == 1 else AllOf(parts)
    return scoped_claim(claim, unit=unit, neighbours="add_remove")


def _noisy_columns(reader: Any, query: str) -> list[tuple[Any, float]]:
    """Return the mechanism and the delta of each noisy column that SmartNoise sends."""
    try:
        asked = reader.parse_query_string(query)
        _check_options(asked)
        # `execute` does the same: options come from the tables of this query.
        reader._options.row_privacy = asked.row_privacy
        reader._options.reservoir_sample = asked.sample_max_ids
        reader._options.censor_dims = asked.censor_dims
        reader._options.clamp_columns = asked.clamp_columns
        inner, _ = reader._rewrite_ast(asked)
    except (ValueError, AttributeError, TypeError, ArithmeticError) as error:
        why = " ".join(str(error).split())
        raise RequestInvalid(
            "query", f"must be a query that SmartNoise accepts ({why})", query
        ) from error
    noisy = []
    for column in inner._select_symbols:
        if column.mechanism is None and not column.is_grouping_column:
            raise RequestInvalid("query", "must have noise on each column", column.name)
        if column.mechanism is not None:
            _check_mechanism(column)
            _check_sums(asked, column)
            noisy.append((column.mechanism, _delta(column)))
    if not noisy:
        raise RequestInvalid("query", "must have a column with noise", query)
    return noisy


def _check_mechanisms(reader: Any) -> None:
    """Check who chooses and makes the mechanisms. Raises: RequestInvalid."""
    from snsql.sql.privacy import Mechanisms, Privacy

    for field, value, kind in (
        ("privacy", reader.privacy, Privacy),
        ("privacy.mechanisms", reader.privacy.mechanisms, Mechanisms),
    ):
        if type(value) is not kind:
            rule = f"must be the {kind.__name__} of SmartNoise: another one may make other noise"
            raise RequestInvalid(field, rule, type(value).__name__)


def _check_mechanism(column: Any) -> None:
    """Check that a column has a mechanism whose loss SmartNoise counts. Raises: RequestInvalid."""
    from snsql.sql._mechanisms import Gaussian, Laplace

    kind = type(column.mechanism)
    if column.is_key_count and kind is not Laplace:
        rule = (
            "must be Laplace for Stat.threshold: of another mechanism SmartNoise counts the delta "
            "of the noise, and not that of the groups that pass the threshold"
        )
        raise RequestInvalid("privacy.mechanisms", rule, kind.__name__)
    if kind is not Laplace and kind is not Gaussian:
        rule = "must be Laplace or Gaussian of SmartNoise, for columns with bounds"
        raise RequestInvalid("privacy.mechanisms", rule, kind.__name__)


def _delta(column: Any) -> float:
    """Return the delta of a column: of a count of units, also of the groups that it shows.

    Raises: RequestInvalid.
    """
    mechanism = column.mechanism
    delta = float(mechanism.delta)
    if not column.is_key_count:
        return delta
    if not delta:
        rule = "must be greater than 0: with it SmartNoise hides groups of few units"
        raise RequestInvalid("privacy.delta", rule, delta)
    # SmartNoise computes the threshold for the scale max_contrib / epsilon, and searches for the
    # scale, which is a little larger. Each of a unit's groups may be shown.
    above = (mechanism.threshold - 1) / mechanism.scale
    shown = float(mechanism.max_contrib * math.exp(-above) / 2)
    return max(delta, shown * _ROUNDING)


def _check_sums(asked: Any, column: Any) -> None:
    """Check that what a column sums lies within the bounds that its noise is scaled to.

    Raises: RequestInvalid.
    """
    from snsql._ast.ast import AggFunction, TableColumn

    grouped = {
        read.colname
        for symbol in asked._grouping_symbols
        for read in _nodes(symbol.expression, TableColumn)
    }
    for function in _nodes(column.expression, AggFunction):
        for read in _nodes(function.expression, TableColumn) if function.name == "SUM" else ():
            if read._sensitivity is not None:
                field = f"metadata.{read.colname}.sensitivity"
                rule = (
                    "must be left out: SmartNoise scales noise to it, whatever the bounds allow. "
                    "Set lower and upper"
                )
                raise RequestInvalid(field, rule, read._sensitivity)
            if read.is_key or read.colname in grouped:
                rule = (
                    "must not sum the unit, or a column that it groups by: SmartNoise does not "
                    "clamp their values"
                )
                raise RequestInvalid("query", rule, read.colname)


def _nodes(expression: Any, kind: type) -> list[Any]:
    """Return the nodes of a kind in an expression, itself included."""
    return [*([expression] if isinstance(expression, kind) else ()), *expression.find_nodes(kind)]


def _check_options(asked: Any) -> None:
    from snsql._ast.ast import Query, Table

    # In a join or a subquery, the options of one table would hide those of the other.
    tables, inner = len(asked.find_nodes(Table)), len(asked.find_nodes(Query))
    if tables != 1 or inner:
        rule = "must read one table, without a join or a subquery"
        raise RequestInvalid("query", rule, f"{tables} tables, {inner} subqueries")
    for option, (required, why) in _REQUIRED_OPTIONS.items():
        value = getattr(asked, option)
        if value is not required:
            raise RequestInvalid(f"metadata.{option}", f"must be {required}: {why}", value)
    if not (asked.sample_max_ids or asked.row_privacy):
        rule = "must be True: otherwise a unit may have more than max_ids rows"
        raise RequestInvalid("metadata.sample_max_ids", rule, False)
