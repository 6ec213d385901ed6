"""The partition of a dataset, by murmur2 of its key as in Kafka's own clients."""

from __future__ import annotations

from accountant.records.placement import Placement, record_key

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 of a key, unsigned."""
    length = len(data)
    h = _SEED ^ length
    whole = length - length % 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    tail = data[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key among `partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def home_of(dataset: str, placement: Placement, partitions: int) -> int:
    """Return the partition of a dataset among `partitions`: no other one may decide about it."""
    return partition_of(record_key(dataset, placement).encode(), partitions)
