"""One checksum of all the dataset rows in `state`, kept while single rows change.

It is the sum of the rows' CRCs, so it does not depend on their order, and a row that is
replaced costs one CRC and two additions, however many there are. The partition's row carries
it: a dataset's row that is older, newer or other than the one it was written with, from a
backup say, is noticed although no decision within the window speaks of that dataset. Accidents
pass with a chance of 2^-32. Against whoever writes both rows on purpose it is no protection;
the log, which is chained, is.
"""

from __future__ import annotations

import zlib
from typing import Final

_MODULUS: Final = 1 << 64

# A cryptographic hash would take three times as long, of every row in every commit.
crc_of_row: Final = zlib.crc32


def text_of(total: int) -> str:
    """Return a sum of CRCs as the partition's row has it, 16 hexadecimal digits."""
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

    def __contains__(self, name: str) -> bool:
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
