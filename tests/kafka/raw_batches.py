"""Build batches of records byte by byte: batches that another producer may write."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c, encode_varint

GZIP: Final = 1


class Raw(NamedTuple):
    """A record in its binary layout.

    Attributes:
        headers: names and values; no name is checked for being UTF-8.
        offset: within its batch, by default its place there.
        attributes: a byte that nobody uses.
        key_size: as it is laid out, where not as short as it can be.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes | None, bytes | None]] = ()
    offset: int | None = None
    timestamp: int = 0
    attributes: int = 0
    key_size: bytes | None = None


def batch(records: Sequence[Raw], *, codec: int = 0, attributes: int = 0, first: int = 0) -> bytes:
    """Return a batch of format 2.

    Args:
        codec: 0 or `GZIP`.
        attributes: of the batch, but for the codec.
        first: its first timestamp.
    """
    body = b"".join(_laid_out(i, record) for i, record in enumerate(records))
    if codec:
        body = gzip.compress(body)
    count = len(records)
    # attributes, last offset, timestamps, producer's id, epoch and sequence, count
    head = struct.pack(">hiqqqhii", codec | attributes, count - 1, first, first, -1, -1, -1, count)
    checked = head + body
    crc = calc_crc32c(checked)
    # offset, length, leader epoch, format, checksum
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc) + checked


def _laid_out(place: int, record: Raw) -> bytes:
    offset = place if record.offset is None else record.offset
    fields = [
        bytes([record.attributes]),
        _varint(record.timestamp),
        _varint(offset),
        _sized(record.key) if record.key_size is None else record.key_size + (record.key or b""),
        _sized(record.value),
        _varint(len(record.headers)),
        *(_sized(field) for header in record.headers for field in header),
    ]
    body = b"".join(fields)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    written = bytearray()
    encode_varint(value, written.append)
    return bytes(written)


def _sized(field: bytes | None) -> bytes:
    return _varint(-1) if field is None else _varint(len(field)) + field


async def append(bootstrap: str, topic: str, partition: int, records: bytes) -> int:
    """Append a batch unchanged; return the offset of its first record.

    Raises: KafkaError: the broker does not take it.
    """
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        await client.set_topics([topic])
        (node,) = [broker.nodeId for broker in client.cluster.brokers()]
        request = ProduceRequest(None, -1, 30_000, [(topic, [(partition, records)])])
        response = await client.send(node, request)
        ((_, ((_, code, offset, *_),)),) = response.topics
        if code:
            raise for_code(code)
        return int(offset)
    finally:
        await client.close()
