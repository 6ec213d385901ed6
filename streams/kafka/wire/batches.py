"""Builds the record batches of a transactional producer, numbered for the broker's deduplication.

The broker appends a batch only if it continues the producer's sequence numbers. So a batch that is
sent twice is appended once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

# Below the smallest topic limit, 1 MiB, by more than a batch's header.
BATCH_BYTES: Final = 900_000
_FORMAT: Final = 2
_UNCOMPRESSED: Final = 0
_TRANSACTIONAL: Final = 1
_SEQUENCES: Final = 1 << 31
_NO_HEADERS: Final[list[tuple[str, bytes]]] = []  # never changed

Fields = tuple[bytes | None, bytes | None, int | None, Sequence[tuple[str, bytes]]]
"""One record to write: key, value, timestamp in milliseconds since 1970 or None, headers."""


class Record(NamedTuple):
    """One record to write, with named fields. A plain `Fields` tuple works too, and is faster.

    Attributes:
        timestamp: milliseconds since 1970, None for now.
    """

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes]] = ()


class ProducerId(NamedTuple):
    """A producer's id and epoch; the broker accepts only a transactional id's last epoch."""

    number: int
    epoch: int


class Batch(NamedTuple):
    """Records of one partition, ready to send.

    Attributes:
        data: the encoded batch.
        next_sequence: sequence number of the producer's next record in the partition.
    """

    data: bytearray
    next_sequence: int


def batches(records: Iterable[Fields], producer: ProducerId, sequence: int) -> list[Batch]:
    """Return records in batches of at most `BATCH_BYTES`; a longer record gets its own batch.

    Args:
        sequence: sequence number of the first record: the producer's earlier records in the
            partition, modulo 2^31.
    """
    finished: list[Batch] = []
    builder: Any = None
    count = 0
    for key, value, timestamp, headers in records:
        named = [*headers] if headers else _NO_HEADERS
        if builder is None or builder.append(count, timestamp, key, value, named) is None:
            if builder is not None:
                sequence = _sequence_after(sequence, count)
                finished.append(Batch(builder.build(), sequence))
            builder = DefaultRecordBatchBuilder(
                _FORMAT, _UNCOMPRESSED, _TRANSACTIONAL, *producer, sequence, BATCH_BYTES
            )
            # The builder accepts the first record of a batch, whatever its length.
            builder.append(0, timestamp, key, value, named)
            count = 0
        count += 1
    if builder is not None:
        sequence = _sequence_after(sequence, count)
        finished.append(Batch(builder.build(), sequence))
    return finished


def _sequence_after(sequence: int, count: int) -> int:
    """Return the sequence number after `count` records; 0 follows the largest of 31 bits."""
    return (sequence + count) % _SEQUENCES
