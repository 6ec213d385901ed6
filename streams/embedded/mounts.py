"""The mount points that Linux shows to this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


def mounted(table: Path = HERE) -> Iterator[bytes]:
    """Yield the path of each mounted directory or file.

    Raises: OSError: the table cannot be read, such as outside Linux.
    """
    for line in table.read_bytes().split(b"\n"):
        fields = line.split(b" ")
        if len(fields) > 4:
            yield _ESCAPED.sub(_unescaped, fields[4])


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])
