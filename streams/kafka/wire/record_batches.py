"""Unpack records from a topic's raw bytes, as the broker itself reads them.

The client's parser checks more than the broker: it raises on a header's name that is not UTF-8
and on two other layouts that the broker accepts. It also trusts the offset in a record. So any
client that may write could stop a partition, or make the parser skip other clients' records.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from aiokafka import ConsumerRecord, TopicPartition, codec
from aiokafka import errors as kafka
from aiokafka.record.util import calc_crc32c

# Offset, length, leader epoch, format, checksum; attributes, last offset delta, first and largest
# timestamp, producer's id, epoch and sequence, count. The checksum covers all bytes after it.
_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">8xi")
_CHECKED_FROM: Final = struct.calcsize(">qiibI")
_FORMAT: Final = 2
_MAX_HEADERS: Final = 100  # of a record that is worth reading
_CODEC, _LOG_APPEND_TIME, _CONTROL = 0x07, 0x08, 0x20

_UNPACK: Final[dict[int, Callable[[bytes], bytes]]] = {
    1: codec.gzip_decode,
    2: codec.snappy_decode,
    3: codec.lz4_decode,
    4: codec.zstd_decode,
}
"""Needed only for inputs older than the topic's setting `compression.type=uncompressed`."""


class BatchContents(NamedTuple):
    """The contents of some batches.

    Attributes:
        records: the records; headers that cannot be read are left out, since no decision needs
            them.
        next: the offset after the last batch, which may hold markers; None without a batch.
    """

    records: list[ConsumerRecord]
    next: int | None


def unpack_batches(
    data: bytes, tp: TopicPartition, start: int, most: int | None = None
) -> BatchContents:
    """Return the records of all complete batches, from an offset on.

    This includes records of open and of aborted transactions.

    Args:
        most: unpack no more batches than this.

    Raises: CorruptRecordException: a checksum is wrong. UnsupportedCodecError.
    """
    records: list[ConsumerRecord] = []
    following = None
    for batch in islice(_batches(data), most):
        head = _HEAD.unpack_from(batch)
        offset, attributes, last = head[0], head[5], head[6]
        if head[3] != _FORMAT:
            raise kafka.CorruptRecordException(f"{tp}: format {head[3]} at offset {offset}")
        if calc_crc32c(batch[_CHECKED_FROM:]) != head[4]:
            raise kafka.CorruptRecordException(f"{tp}: invalid CRC at offset {offset}")
        if not attributes & _CONTROL:
            try:
                records += [r for r in _records(batch, head, tp) if r.offset >= start]
            except IndexError as error:
                raise kafka.CorruptRecordException(f"{tp}: no records at {offset}") from error
        following = offset + last + 1
    return BatchContents(records, following)


def _batches(data: bytes) -> Iterator[bytes]:
    at = 0
    while len(data) - at >= _HEAD.size:
        (length,) = _LENGTH.unpack_from(data, at)
        end = at + _LENGTH.size + length
        if end > len(data):
            return  # the broker cuts its answer at the number of bytes asked for
        yield data[at:end]
        at = end


def _records(batch: bytes, head: tuple[int, ...], tp: TopicPartition) -> Iterator[ConsumerRecord]:
    base, *_, attributes, last, first_time, last_time, _, _, _, count = head
    body, at = _body(batch, attributes), 0
    stamped = bool(attributes & _LOG_APPEND_TIME)
    for place in range(count):
        size, at = _varint(body, at, 32)
        end = at + size
        # Skip the attributes, one byte; the client's parser expects a varint there.
        delta, at = _varint(body, at + 1, 64)
        written, at = _varint(body, at, 32)
        key, at = _field(body, at)
        value, at = _field(body, at)
        if at > end:
            raise IndexError(at)
        headers = _headers(body[at:end])
        at = end
        yield ConsumerRecord(
            tp.topic,
            tp.partition,
            # The broker numbers records by counting and ignores the offset written in each. After
            # compaction only the written one is right, but our inputs are never compacted.
            base + (place if count == last + 1 else written),
            last_time if stamped else first_time + delta,
            int(stamped),
            key,
            value,
            None,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            headers,
        )


def _headers(data: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """Return a record's headers, none if they are damaged or very many."""
    found = []
    try:
        count, at = _varint(data, 0, 32)
        if count > _MAX_HEADERS:
            return ()
        for _ in range(count):
            name, at = _field(data, at)
            value, at = _field(data, at)
            found.append(((name or b"").decode("utf-8", "replace"), value))
    except IndexError:
        return ()
    return tuple(found) if at <= len(data) else ()


def _body(batch: bytes, attributes: int) -> bytes:
    kind = attributes & _CODEC
    body = batch[_HEAD.size :]
    if not kind:
        return body
    try:
        return _UNPACK[kind](body)
    except (KeyError, NotImplementedError) as error:
        raise kafka.UnsupportedCodecError(f"this client cannot read compression {kind}") from error


def _varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return a number, as wide as the broker's, and the position of the next field."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    number &= (1 << bits) - 1
    return (number >> 1) ^ -(number & 1), at


def _field(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at, 32)
    return (None, at) if size < 0 else (data[at : at + size], at + size)
