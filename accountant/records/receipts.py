"""The receipt of a decision, to show later that the log had it."""

from __future__ import annotations

from typing import cast

import msgspec

from accountant.strict_json import read_json


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one decision in a ledger's log, and its hash."""

    partition: int
    partition_sequence: int
    hash: str


class _Origin(msgspec.Struct):
    partition: int = 0


class _ServedDecision(msgspec.Struct):
    """The fields of a served decision that make a receipt."""

    partition_sequence: int
    hash: str
    source: _Origin | None = None


def read_receipt(value: bytes) -> Receipt:
    """Return a receipt from its JSON, or from a decision as `ask --json` and HTTP servers show it.

    Raises: DECODE_ERRORS: it is neither.
    """
    try:
        return cast(Receipt, read_json(value, Receipt))
    except msgspec.ValidationError:
        shown: _ServedDecision = read_json(value, _ServedDecision)
        partition = 0 if shown.source is None else shown.source.partition
        number = shown.partition_sequence
        return Receipt(partition=partition, partition_sequence=number, hash=shown.hash)
