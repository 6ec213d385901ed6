"""What is mounted where, as Linux tells a process of its own view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """One mounted file system.

    Attributes:
        point: the path of its directory or file.
        kind: such as ext4.
    """

    point: bytes
    kind: bytes


def mounted(table: Path = HERE) -> Iterator[Mount]:
    """Yield all that is mounted.

    Raises: OSError: there is no such table.
    """
    for line in table.read_bytes().splitlines():
        place, _, system = line.partition(b" - ")
        fields = place.split(b" ")
        if len(fields) > 4:
            yield Mount(_ESCAPED.sub(_unescaped, fields[4]), system.split(b" ")[0])


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])
