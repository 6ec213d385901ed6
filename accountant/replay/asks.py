"""Asks rebuilt from decisions and from rows of `state`."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.asks.answers import Asks, take_answer, take_ask
from accountant.asks.ask_table import AskTable
from accountant.checksum import Checksum, crc_of_row
from accountant.errors import LogDamaged
from accountant.partition import Partition
from accountant.records import Decision
from accountant.records.asks import AskRow, ask_row_key, decode_ask_row, parse_ask_key
from accountant.records.request_names import decode_ask
from accountant.records.requests import DeclineAsk, SetBudget, SetLimit, SetMember
from accountant.times import from_iso

_decode_answer: Final = msgspec.json.Decoder(SetMember | SetLimit | SetBudget | DeclineAsk).decode


class ReplayedAsks:
    """The asks of a partition, whose checksum forgets each that changes."""

    def __init__(self, partition: Partition) -> None:
        self._table: AskTable = partition.asks
        self._checksum: Checksum = partition.checksum
        self.get, self.of = self._table.get, self._table.of

    def put(self, row: AskRow) -> None:
        """Replace an ask."""
        self._checksum.forget(ask_row_key(row.dataset, row.ask).decode())
        self._table.put(row)

    def remove(self, dataset: str, name: str) -> None:
        """Drop an ask."""
        self._checksum.forget(ask_row_key(dataset, int(name)).decode())
        self._table.remove(dataset, name)


def changes_asks(decision: Decision) -> bool:
    """Tell whether a decision takes an ask or answers one."""
    return decision.outcome.asks_owners or decision.answers is not None


def take_asks(asks: Asks, decision: Decision) -> AskRow:
    """Apply a decision that changes asks, and return the ask after it.

    Raises: LogDamaged: it answers an ask that the dataset does not have.
    """
    sequence, at = int(decision.sequence or 0), from_iso(decision.decided_at)
    body = bytes(decision.request)
    if decision.outcome.asks_owners:
        return take_ask(asks, decode_ask(body), sequence, at)
    row = asks.get(str(decision.dataset), str(decision.answers))
    if row is None:
        raise LogDamaged(
            f"decision {decision.partition_sequence} answers ask {decision.answers}, which "
            f"dataset {decision.dataset} does not have"
        )
    return take_answer(asks, row, _decode_answer(body), sequence, at)


def take_ask_row(partition: Partition, key: bytes, value: bytes | None) -> None:
    """Apply an ask's row of `state`, None for a dropped one.

    Raises: ValueError, msgspec.MsgspecError: the row cannot be read or does not match its key.
    """
    partition.checksum.forget(key.decode())
    if value is None:
        dataset, number = parse_ask_key(key)
        partition.asks.remove(dataset, str(number))
        return
    row = decode_ask_row(value)
    if ask_row_key(row.dataset, row.ask) != key:
        raise ValueError(f"it holds ask {row.ask} of dataset {row.dataset}")
    partition.asks.put(row)
    partition.checksum.put(key.decode(), crc_of_row(value))


def wrong_asks(partition: Partition) -> str | None:
    """Return in words which asks belong to no dataset, or None."""
    for name in partition.asks.datasets():
        if name not in partition.ledgers:
            return f"`state` has asks of dataset {name}, which it does not have"
    return None
