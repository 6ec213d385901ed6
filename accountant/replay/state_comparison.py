"""The rows of `state` compared with what an audited log comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from accountant.checksum import crc_of_row, text_of
from accountant.partition import Partition
from accountant.records import (
    DECODE_ERRORS,
    PartitionRow,
    decode_partition_row,
    encode,
    partition_row_key,
)
from accountant.records.asks import AskRow
from accountant.records.limit_records import ScopeRow
from accountant.records.members import MemberRow
from accountant.records.state_rows import Row, decode_row
from accountant.replay.plain_text import plain
from accountant.replay.replay import state_rows

Rows = Mapping[bytes, bytes | None]
"""Rows of `state` by their keys; None for one whose own checksum is wrong."""

_NONE: Final = "no such row"
_UNREADABLE: Final = (*DECODE_ERRORS, ValueError)


class StateRows(NamedTuple):
    """All rows of one partition's `state`, as they were at one moment.

    Attributes:
        end: number and hash of the last decision that the partition's row names; None where that
            row is missing or cannot be read.
        resets: how often the partition's clock was reset, None as for `end`.
    """

    rows: Rows
    end: tuple[int, str] | None
    resets: int | None = None


class Difference(NamedTuple):
    """One field of a row that is not what the log comes to.

    Attributes:
        row: which one, in words.
        field: `row` where the whole row is meant.
    """

    row: str
    field: str
    expected: str
    found: str


def rows_at_one_moment(rows: Rows, partition: int) -> StateRows | None:
    """Return the rows of a partition with the decision that they end at, None where are none."""
    if not rows:
        return None
    value = rows.get(partition_row_key(partition))
    try:
        row = decode_partition_row(value or b"")
    except _UNREADABLE:
        return StateRows(rows, None)
    return StateRows(rows, (row.partition_sequence, row.head), row.clock_resets.number)


def first_difference(folded: Partition, rows: Rows) -> Difference | None:
    """Return the first row of `state` that is not what a log comes to, None if all are.

    The readings of odometers are left out: they are floats, and another machine may have another
    last digit. So the checksum in the partition's row is compared with the rows that were found.

    Args:
        folded: the state after the decision that the rows end at, from the log alone.
    """
    return next(_differences(folded, rows), None)


def _differences(folded: Partition, rows: Rows) -> Iterator[Difference]:
    own = partition_row_key(folded.genesis.partition)
    due = dict(state_rows(folded))
    for key in sorted({*due, *rows} - {own}):
        yield from _compare(_decode(due.get(key)), rows.get(key), key, key in rows)
    wanted = msgspec.structs.replace(folded.row(), checksum=_checksum(folded, rows, own))
    yield from _compare(wanted, rows.get(own), own, own in rows)


def _checksum(folded: Partition, rows: Rows, own: bytes) -> str:
    crcs = (crc_of_row(value or b"") for key, value in rows.items() if key != own)
    return text_of(sum(crcs), folded.resets)


def _decode(value: bytes | None) -> Row | None:
    return None if value is None else decode_row(value)


def _compare(
    due: Row | PartitionRow | None, value: bytes | None, key: bytes, is_there: bool
) -> Iterator[Difference]:
    if not is_there:
        assert due is not None
        yield Difference(_name(due, key), "row", encode(due).decode(), _NONE)
        return
    try:
        if value is None:
            raise ValueError("its own checksum is wrong")
        found = (decode_partition_row if isinstance(due, PartitionRow) else decode_row)(value)
    except _UNREADABLE as error:
        expected = _NONE if due is None else encode(due).decode()
        yield Difference(_name(due, key), "row", expected, f"it cannot be read: {error}")
        return
    if due is None or type(found) is not type(due):
        expected = _NONE if due is None else encode(due).decode()
        yield Difference(_name(found, key), "row", expected, value.decode())
        return
    row = _name(due, key)
    for field in due.__struct_fields__:
        if field != "odometers":
            yield from _fields(row, field, getattr(due, field), getattr(found, field))
    if encode(found) != value:
        yield Difference(row, "row", encode(found).decode(), value.decode())


def _fields(row: str, field: str, due: Any, found: Any) -> Iterator[Difference]:
    if due == found:
        return
    if isinstance(due, dict) and isinstance(found, dict) and due.keys() == found.keys():
        for name, amount in due.items():
            yield from _fields(row, f"{field}.{name}", amount, found[name])
        return
    yield Difference(row, field, plain(due), plain(found))


def _name(row: Row | PartitionRow | None, key: bytes) -> str:
    if row is None:
        return f"row {key.decode(errors='backslashreplace')}"
    if isinstance(row, PartitionRow):
        return f"partition {row.genesis.partition}"
    if isinstance(row, MemberRow):
        return f"member {row.member} of dataset {row.dataset}"
    if isinstance(row, ScopeRow):
        of_team = f" in team {row.team}" if row.team else ""
        whose = f"{row.scope} {row.name}" if row.name else row.scope
        return f"level of {whose}{of_team} of dataset {row.dataset}"
    if isinstance(row, AskRow):
        return f"ask {row.ask} of dataset {row.dataset}"
    return f"dataset {row.dataset}"
