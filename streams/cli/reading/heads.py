"""The last decision of each partition of a log, and the ledger's id."""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streams.cli.reading.log_reader import LogSource


class Head(NamedTuple):
    """The end of one partition's log.

    Attributes:
        ledger: the ledger's id; of one without, the hash of partition 0's decision 0.
        sequence, head: number and hash of the last decision.
    """

    ledger: str
    partition: int
    sequence: int
    head: str


def heads_of(source: LogSource) -> list[Head]:
    """Return the head of each partition.

    Raises: Unavailable, Refused; LogDamaged: a log is empty, or its ends cannot be read.
    """
    import msgspec

    from accountant.errors import LogDamaged
    from accountant.partition import hash_of
    from accountant.records import decode_decision
    from streams.cli.reading.decoding import decoded

    found, ledger = list[Head](), ""
    for part in source.parts():
        first = next(part.values, None)
        if first is None:
            raise LogDamaged(f"partition {part.number} has no decision 0")
        genesis = decoded(0, first, decode_decision).genesis
        if not ledger and genesis is not None:
            ledger = hash_of(first) if genesis.ledger is msgspec.UNSET else genesis.ledger
        (last,) = deque(chain([first], part.values), maxlen=1)
        number = decoded(-1, last, decode_decision).partition_sequence
        found.append(Head(ledger, part.number, number, hash_of(last)))
    return found
