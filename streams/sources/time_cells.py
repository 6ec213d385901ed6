"""SQL that reads a cell as a date or a time, as `read_local_second` does.

A cell is either what clocks show or an instant; the first stage of SQL computes both, as seconds
since 1970. The second one joins the rules of the zone, which say what its clocks show at the
instant: the engine has a database of zones of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from accountant.questions.local_times import ISO_PATTERN, day_number
from accountant.questions.schema import CalendarColumn, DateColumn, Schema
from accountant.questions.zone_rules import DAY_S, EPOCH_DAY, UTC, ZoneRules
from streams.sources.quoted import integer_literal, text_literal

DATE_TYPES: Final = frozenset(("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"))
"""DuckDB's types of what clocks show."""
INSTANT_TYPES: Final = frozenset(("timestamp with time zone", "timestamptz_ns"))
_COARSE: Final = frozenset(("timestamp_s", "timestamp_ms"))
_NANOSECONDS: Final = frozenset(("timestamp_ns", "timestamptz_ns"))
_SLACK_DAYS: Final = 3
"""No zone shifts an instant by so much: beyond the dates by more, it is missing."""
_SPAN_S: Final = 365 * DAY_S
_BEFORE_S: Final = 3_000 * _SPAN_S
"""`//` rounds to 0: instants are counted from a time before each date."""


@dataclass(frozen=True, slots=True)
class TimeStage:
    """SQL of the first stage of a cell.

    Attributes:
        shown: seconds that clocks show; NULL of an instant, and of what says nothing.
        instant: seconds in UTC; NULL of what clocks show. None if no cell is an instant.
    """

    shown: str
    instant: str | None = None

    def columns(self, functions: str) -> str:
        """Return the SQL of its columns."""
        instant = self.instant or "NULL::BIGINT"
        return f"{self.shown} AS {functions}_shown, {instant} AS {functions}_instant"


def first_stage(type_id: str, x: str) -> TimeStage | None:
    """Return the SQL of a cell of a type, None if each of them is missing.

    Args:
        x: SQL of the cell; of a text, compared byte by byte.
    """
    if type_id in INSTANT_TYPES:
        return TimeStage("NULL::BIGINT", _seconds(type_id, x))
    if type_id == "date":
        days = f"(CASE WHEN isfinite({x}) THEN ({x} - DATE '1970-01-01')::BIGINT END)"
        return TimeStage(f"({days} * {DAY_S})")
    if type_id in DATE_TYPES:
        return TimeStage(_seconds(type_id, x))
    return None


def first_stage_of_text(x: str) -> TimeStage:
    """Return the SQL of a text in ISO 8601's form."""
    number = "coalesce(TRY_CAST(substr({}, {}, 2) AS BIGINT), 0)".format
    day = f"(TRY_CAST(substr({x}, 1, 10) AS DATE) - DATE '1970-01-01')::BIGINT"
    has_seconds = f"substr({x}, 17, 1) = ':'"
    seconds = f"(CASE WHEN {has_seconds} THEN least({number(x, 18)}, 59) ELSE 0 END)"
    shown = f"{day} * {DAY_S} + {number(x, 12)} * 3600 + {number(x, 15)} * 60 + {seconds}"
    zone = f"regexp_extract({x}, '[T ].*(Z|[+-][0-9:]+)$', 1)"
    digits = f"rpad(replace({zone}, ':', ''), 5, '0')"
    offset = f"({number(digits, 2)} * 3600 + {number(digits, 4)} * 60)"
    signed = f"(CASE {zone}[1] WHEN '+' THEN {offset} WHEN '-' THEN -{offset} ELSE 0 END)"
    is_read = f"regexp_full_match({x}, {text_literal(ISO_PATTERN)})"
    return TimeStage(
        f"(CASE WHEN {is_read} AND {zone} = '' THEN {shown} END)",
        f"(CASE WHEN {is_read} AND {zone} <> '' THEN {shown} - {signed} END)",
    )


def _seconds(type_id: str, x: str) -> str:
    """Return the SQL of the seconds of a timestamp, rounded down."""
    unit = 10**9 if type_id in _NANOSECONDS else 10**6
    # A coarser type has times that microseconds have not, and no year below 10,000 is among them.
    x = f"TRY_CAST({x} AS TIMESTAMP)" if type_id in _COARSE else x
    read = f"epoch_{'ns' if type_id in _NANOSECONDS else 'us'}({x})"
    # `//` and `%` round to 0.
    return f"({read} // {unit} - ({read} % {unit} < 0)::BIGINT)"


def zone_join(functions: str) -> str:
    """Return the SQL that joins the rules of the zone at the instant of a column."""
    span = f"(({functions}_instant + {integer_literal(_BEFORE_S)}) // {_SPAN_S})"
    return f"LEFT JOIN zone AS {functions}_zone ON {functions}_zone.span = {span}"


def define_zone(connection: Any, schema: Schema, zone: ZoneRules) -> None:
    """Create the table of a zone's rules that `zone_join` joins, for the schema's dates."""
    import pyarrow as pa

    ends = [day for each in _calendar_columns(schema) for day in each.dates]
    low, high = (
        (day_number(end) + slack) * DAY_S + _BEFORE_S
        for end, slack in ((min(ends), -_SLACK_DAYS), (max(ends), _SLACK_DAYS))
    )
    most = _most_changes(zone)
    rows = list[list[int | None]]()
    for span in range(low // _SPAN_S, high // _SPAN_S + 1):
        begin = span * _SPAN_S - _BEFORE_S
        first, last = (bisect_left(zone.changes, at) for at in (begin, begin + _SPAN_S))
        row: list[int | None] = [span, zone.offsets[first]]
        for i in range(first, last):
            row += [zone.changes[i], zone.offsets[i + 1] - zone.offsets[i]]
        rows.append(row + [None] * (2 * (most - (last - first))))
    names = ["span", "shift", *(f"{name}{i}" for i in range(most) for name in ("at", "moved"))]
    columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
    connection.register("zone_rules", pa.Table.from_arrays(columns, names=names))
    connection.execute("CREATE TEMP TABLE zone AS FROM zone_rules")
    connection.unregister("zone_rules")


def needs_zone(schema: Schema, zone: ZoneRules | None) -> bool:
    """Tell whether a schema reads dates by rules that change what clocks show."""
    return zone is not None and zone.name != UTC.name and any(_calendar_columns(schema))


def _calendar_columns(schema: Schema) -> Iterator[CalendarColumn]:
    return (each for each in schema.columns if isinstance(each, CalendarColumn))


def _most_changes(zone: ZoneRules) -> int:
    """Return the most changes within a span."""
    spans = Counter((at + _BEFORE_S) // _SPAN_S for at in zone.changes)
    return max(spans.values(), default=0)


def second_stage(column: CalendarColumn, zone: ZoneRules, stage: TimeStage, functions: str) -> str:
    """Return the SQL of the schema's integer: days of a date, seconds of a time.

    Args:
        stage: the first one, whose columns begin with `functions`; `zone_join` has joined the zone.
    """
    shown, instant = f"{functions}_shown", f"{functions}_instant"
    local = shown
    if stage.instant is not None:
        moved = "" if zone.name == UTC.name else _offset(zone, functions)
        local = f"coalesce({shown}, {instant}{moved})"
    first, last = map(day_number, column.dates)
    # Both functions ignore NULL, which becomes the upper bound, and so missing.
    before, after = first * DAY_S - 1, (last + 1) * DAY_S
    within = f"greatest({integer_literal(before)}, least({integer_literal(after)}, {local}))"
    if isinstance(column, DateColumn):
        shifted = f"({within} + {integer_literal(EPOCH_DAY * DAY_S)})"
        within = f"({shifted} // {DAY_S} - {EPOCH_DAY})"
        before, after = first - 1, last + 1
    return f"nullif(nullif({within}, {integer_literal(before)}), {integer_literal(after)})"


def _offset(zone: ZoneRules, functions: str) -> str:
    """Return the SQL of what is added to an instant: nothing is known of one far off."""
    rules = f"{functions}_zone"
    changes = [
        f" + (CASE WHEN {functions}_instant >= {rules}.at{n} THEN {rules}.moved{n} ELSE 0 END)"
        for n in range(_most_changes(zone))
    ]
    return f" + {rules}.shift{''.join(changes)}"
