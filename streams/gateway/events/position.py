"""A stream's position in every partition, as text that clients send back in Last-Event-ID.

    1-8f3a0c2b9d11-1041.977        after decision 1041 of partition 0 and 977 of partition 1
    1-8f3a0c2b9d11-1041.977-1.2    and after 2 events of the next decision of partition 1

The first field is the version of this format. The second identifies the log: 48 bits of each of
those decisions' hashes, combined by XOR. The next position removes one hash and adds another.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple, Self

_BYTES: Final = 6
_HEX: Final = 2 * _BYTES
_PREFIX: Final = len("sha256:")
_FORM: Final = re.compile(
    rf"1-([0-9a-f]{{{_HEX}}})-([0-9]{{1,15}}(?:\.[0-9]{{1,15}})*)(?:-([0-9]{{1,5}})\.([0-9]{{1,4}}))?"
)
_MOST: Final = 200_000  # characters, checked before parsing; no header is this long


class Position(NamedTuple):
    """How far a client has read each partition.

    Attributes:
        numbers: the last decision that was sent, by partition.
        mark: the XOR of these decisions' hashes.
        begun: a partition whose next decision was sent in part, and how many events of it.
    """

    numbers: tuple[int, ...]
    mark: int
    begun: tuple[int, int] | None = None

    @classmethod
    def of(cls, lasts: list[tuple[int, bytes]]) -> Self:
        """Return the position after one numbered decision of each partition."""
        mark = 0
        for _, value in lasts:
            mark ^= _bits_of(value)
        return cls(tuple([number for number, _ in lasts]), mark)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the position that a text encodes, None if it is not one."""
        found = _FORM.fullmatch(text) if len(text) <= _MOST else None
        if found is None:
            return None
        mark, numbers, partition, events = found.groups()
        begun = None if partition is None else (int(partition), int(events))
        position = cls(tuple(map(int, numbers.split("."))), int(mark, 16), begun)
        is_ours = str(position) == text and (begun is None or begun[0] < len(position.numbers))
        return position if is_ours else None

    def after(self, partition: int, number: int, value: bytes, previous: str) -> Self:
        """Return the position after the next decision of a partition.

        Args:
            previous: the hash of the decision before it.
        """
        numbers = (*self.numbers[:partition], number, *self.numbers[partition + 1 :])
        before = int(previous[_PREFIX : _PREFIX + _HEX], 16)
        return self._replace(numbers=numbers, mark=self.mark ^ before ^ _bits_of(value), begun=None)

    def within(self, partition: int, events: int) -> Self:
        """Return the position after so many events of the next decision of a partition."""
        return self._replace(begun=(partition, events))

    def needed(self) -> tuple[int, ...]:
        """Return the number of the last decision of each partition of which an event was sent."""
        if self.begun is None:
            return self.numbers
        at = self.begun[0]
        return tuple([number + (i == at) for i, number in enumerate(self.numbers)])

    def __str__(self) -> str:
        begun = "" if self.begun is None else f"-{self.begun[0]}.{self.begun[1]}"
        return f"1-{self.mark:0{_HEX}x}-{'.'.join(map(str, self.numbers))}{begun}"


def _bits_of(value: bytes) -> int:
    return int.from_bytes(hashlib.sha256(value).digest()[:_BYTES])
