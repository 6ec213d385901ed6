"""The rows of `state` that a dataset's levels come to: docs/reference/records/state.md."""

from __future__ import annotations

import json

from tests.faults.oracle.amounts import rounded_up
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Limit, Use
from tests.faults.oracle.meter import Amounts, texts
from tests.faults.oracle.thresholds import reported_row

Limits = dict[tuple[str, str], Limit]


def since_of(row: Fields, limits: Limits) -> dict[str, int]:
    """Return from which versions on the amounts of a row count."""
    limit = limits[row["scope"], row["team"] if "team" in row else row["name"]]
    share = limit.shared_since if limit.share is not None else 0
    return {"counted": limit.counted_since, "used": share}


def level_rows(name: str, limits: Limits) -> dict[bytes, Fields]:
    """Return the rows of a dataset's levels, of what counts still."""
    rows = {}
    for limit in limits.values():
        key = {"dataset": name, "scope": limit.scope, "name": limit.name}
        shown = used_row(limit, limit.use) if limit.scope != "each" else {}
        rows[tight(key)] = {**key, "limit": limit.fields, "sequence": limit.use.sequence, **shown}
        for analyst, use in limit.uses.items():
            key = {"dataset": name, "scope": "each", "team": limit.name, "name": analyst}
            rows[tight(key)] = {**key, "sequence": use.sequence, **used_row(limit, use)}
    return rows


def used_row(limit: Limit, use: Use) -> Fields:
    """Return what a row tells of use that counts: what an earlier version counted does not."""

    def reported(amounts: Amounts) -> Fields:
        over = rounded_up(amounts)
        return {"totals": texts(amounts), **({"rounded_up": over} if over else {})}

    row: Fields = {}
    if use.counted[0] and use.counted[0] == limit.counted_since:
        row["counted"] = {"since": use.counted[0], **reported(use.counted[1])}
    if use.paced is not None:
        row["paced"] = {"begins_at": use.paced[0], **reported(use.paced[1])}
        row["paced"] |= {"resets": use.resets} if use.resets else {}
    if limit.share is not None and use.used[0] and use.used[0] == limit.shared_since:
        row["used"] = {"since": use.used[0], **reported(use.used[1])}
    return row | reported_row(use)


def normal(row: Fields, expected: Fields, since: dict[str, int]) -> Fields:
    """Return a row of the product without what it tells of an earlier version's use."""
    assert row["type"] == "level"
    assert row["version"] == 2
    stale = {
        name
        for name in {"counted", "used"} & row.keys() - expected.keys()
        if row[name]["since"] != since[name]
    }
    return {n: v for n, v in row.items() if n not in {"type", "version", "rule", *stale}}


def tight(row: Fields) -> bytes:
    """Return a row as it is written."""
    return json.dumps(row, separators=(",", ":")).encode()
