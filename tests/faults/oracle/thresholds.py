"""Which thresholds of limits a decision reports: docs/reference/records/decision.md.

Each limit and each analyst under a default has a set of reported ratios.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Final

from tests.faults.oracle.division import Division
from tests.faults.oracle.expected import Fields, Holds
from tests.faults.oracle.limits import Limit, Use
from tests.faults.oracle.meter import Amounts

_MOST: Final = 100
_MOST_BYTES: Final = 32_768
_ULPS: Final = Fraction(3, 2**53)


def spent_ratio(part: Fraction) -> Holds:
    """Return what a ratio in a record must be: the spent part or the next floats above it."""
    return Holds(
        f"at or just above {float(part)}",
        lambda said: isinstance(said, float) and part <= Fraction(said) <= part + _ULPS,
    )


def report(limit: Limit, use: Use, alerts: list[str], before: Amounts, after: Amounts) -> Fields:
    """Report what a use reaches; return the fields about it, {} for nothing.

    Args:
        before, after: what counts before the decision and after it.
    """
    assert limit.meter is not None
    was, now = (limit.meter.part(limit.capacity, each) for each in (before, after))
    version, known, earlier = use.reported
    if version != limit.version:
        known, earlier = set(), {each for each in known | earlier if Fraction(each) <= was}
    new = [each for each in alerts if each not in known | earlier]
    crossed = [each for each in new if Fraction(each) <= now]
    if not crossed:
        return {}
    use.reported = limit.version, (known | {*crossed}) & {*alerts}, earlier & {*alerts}
    return {"crossed": crossed, "spent_ratio": spent_ratio(min(now, Fraction(1)))}


def reached(
    division: Division,
    limits: Iterable[Limit],
    team: Callable[[str], str | None],
    alerts: list[str],
    sequence: int,
) -> Fields:
    """Report the limits that an owner's record makes reach a threshold.

    Args:
        limits: those that it may be about.
        team: returns an analyst's team.
        sequence: of the decision.
    """
    uses: list[tuple[int, str, str, Limit, Use]] = []
    for limit in limits:
        scope = ["dataset", "team", "analyst", "each"].index(limit.scope)
        if limit.meter is None:
            continue
        if limit.scope != "each":
            uses.append((scope, limit.name, "", limit, limit.use))
        for analyst, use in limit.uses.items():
            own = division.limits.get(("analyst", analyst))
            if team(analyst) == limit.name and (own is None or not own.in_force):
                uses.append((scope, limit.name, analyst, limit, use))
    entries: list[Fields] = []
    size, more = 0, 0
    for _, name, analyst, limit, use in sorted(uses, key=lambda each: each[:3]):
        counted, before = limit.counted(use), (use.reported, use.sequence)
        found = report(limit, use, alerts, counted, counted)
        if not found:
            continue
        use.sequence = sequence
        entry: Fields = {"scope": limit.scope, "name": name, "version": limit.version, **found}
        entry |= {"analyst": analyst} if analyst else {}
        size += _size(limit, entry, counted)
        if more or len(entries) == _MOST or size > _MOST_BYTES:
            more += 1
            use.reported, use.sequence = before
            continue
        entries.append(entry)
    fields: Fields = {"reached": entries} if entries else {}
    return {**fields, "more_reached": more} if more else fields


def _size(limit: Limit, entry: Fields, counted: Amounts) -> int:
    assert limit.meter is not None
    part = min(Fraction(1), limit.meter.part(limit.capacity, counted))
    ratio = min(1.0, math.nextafter(float(part), 1.0))
    return len(json.dumps({**entry, "spent_ratio": ratio}, separators=(",", ":")))


def reported_row(use: Use) -> Fields:
    """Return the field of a row about what was reported, {} for nothing."""
    version, ratios, earlier = use.reported
    if not version:
        return {}
    row = {"version": version, "ratios": sorted(ratios, key=Fraction)}
    return {"reported": {**row, "earlier": sorted(earlier, key=Fraction)} if earlier else row}
