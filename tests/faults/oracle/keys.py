"""The partition of a dataset: murmur2 of its name, as in Kafka's clients."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_MIX: Final = 0x5BD1E995


@lru_cache(maxsize=65_536)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key."""
    found = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * _MIX & _MASK
        part = (part ^ part >> 24) * _MIX & _MASK
        found = (found * _MIX & _MASK) ^ part
    if whole < len(key):
        found = (found ^ int.from_bytes(key[whole:], "little")) * _MIX & _MASK
    found = (found ^ found >> 13) * _MIX & _MASK
    return ((found ^ found >> 15) & 0x7FFFFFFF) % partitions
