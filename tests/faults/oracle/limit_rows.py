"""The rows of a dataset's limits: docs/reference/records/state.md."""

from __future__ import annotations

from typing import Any

from tests.faults.oracle.amounts import rounded_up
from tests.faults.oracle.division import Division
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Limit, Use
from tests.faults.oracle.meter import Amounts, texts
from tests.faults.oracle.thresholds import reported_row


def level_rows(dataset: str, division: Division) -> dict[bytes, Fields]:
    """Return the row of each, by its key; names need no escape."""
    rows: dict[bytes, Fields] = {}
    for limit in division.limits.values():
        key = {"dataset": dataset, "scope": limit.scope, "name": limit.name}
        rule = {"limit": limit.fields, "rule": _rule(limit)}
        use = limit.use
        rows[_key(key)] = _row(key, use.sequence, {**rule, **_used(limit, use)})
        for analyst, use in limit.uses.items():
            key = {"dataset": dataset, "scope": "each", "team": limit.name, "name": analyst}
            rows[_key(key)] = _row(key, use.sequence, _used(limit, use))
    return rows


def _key(key: dict[str, str]) -> bytes:
    inside = ",".join(f'"{field}":"{value}"' for field, value in key.items())
    return f"{{{inside}}}".encode()


def _row(key: dict[str, str], sequence: int, more: Fields) -> Fields:
    return {"type": "level", "version": 2, **key, "sequence": sequence, **more}


def _rule(limit: Limit) -> Fields:
    rule: Fields = {}
    if limit.kind is not None:
        rule |= {"kind": limit.kind, "counted_since": limit.counted_since}
    if limit.periods.are_known:
        rule["periods"] = limit.periods.row
    if limit.share is not None:
        rule["shared_since"] = limit.shared_since
        if limit.sequence != limit.use.sequence:
            rule["set_by"] = limit.sequence
        if limit.cut:
            rule["cut"] = texts(limit.cut)
            rule["cut_by"] = limit.cut_by
    return {**rule, "over": True} if limit.over else rule


def _used(limit: Limit, use: Use) -> Fields:
    """Return the used amounts, each with the version since which it counts."""
    own = limit.scope != "each"
    row: Fields = {}
    if use.counted[0] and (not own or use.counted[0] == limit.counted_since):
        row["counted"] = _amounts(*use.counted)
    if use.paced is not None:
        begins_at, amounts = use.paced
        row["paced"] = {"begins_at": begins_at, **row_amounts(amounts)}
        row["paced"] |= {"resets": use.resets} if use.resets else {}
    if limit.share is not None and use.used[0] == limit.shared_since:
        row["used"] = _amounts(*use.used)
    return row | reported_row(use)


def _amounts(since: int, amounts: Amounts) -> dict[str, Any]:
    return {"since": since, **row_amounts(amounts)}


def row_amounts(amounts: Amounts) -> dict[str, Any]:
    over = rounded_up(amounts)
    return {"totals": texts(amounts), **({"rounded_up": over} if over else {})}
