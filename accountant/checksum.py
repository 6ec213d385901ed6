"""One checksum of all dataset rows in `state`, updated as single rows change.

It is the sum of the rows' CRCs: the order of the rows does not matter, and a replaced row costs
one CRC and two additions, however many rows there are. The partition's row carries the sum. So
a replay notices a dataset's row that was not written with the partition's row, for example one
from a backup, even where no decision within the window names that dataset. An accidental change
passes with probability 2^-32. The checksum does not protect against a person who changes both
rows on purpose; the hash chain of the log does.
"""

from __future__ import annotations

import zlib
from typing import Final

from accountant.times import NO_RESETS, ClockResets

_MODULUS: Final = 1 << 64

# A cryptographic hash would take three times as long, for every row of every commit.
crc_of_row: Final = zlib.crc32


def text_of(total: int, resets: ClockResets = NO_RESETS) -> str:
    """Return a sum of CRCs in 16 hexadecimal digits, its form in the partition's row.

    Args:
        resets: in the sum once there was one: whether a period limit has room depends on the
            resets, and no other row has them.
    """
    if any(resets):
        total += crc_of_row(b"[%d,%d]" % resets)
    return f"{total % _MODULUS:016x}"


class Checksum:
    """The CRCs of the rows by dataset, and their sum.

    Attributes:
        total: the sum, not reduced.
    """

    __slots__ = ("_crcs", "total")

    def __init__(self) -> None:
        self._crcs: dict[str, int] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._crcs)

    def __contains__(self, name: object) -> bool:
        return name in self._crcs

    def of(self, name: str) -> int:
        """Return the CRC of a dataset's row, 0 if there is none."""
        return self._crcs.get(name, 0)

    def put(self, name: str, crc: int) -> None:
        """Replace the CRC of a dataset's row."""
        self.total += crc - self.of(name)
        self._crcs[name] = crc

    def forget(self, name: str) -> None:
        """Take a dataset's row out, if it is there."""
        self.total -= self._crcs.pop(name, 0)
