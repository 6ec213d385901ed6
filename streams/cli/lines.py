"""Read JSON lines that others wrote, of any length, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def read_lines(stream: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield each line that is not blank, without its end, cut after `most` + 1 bytes.

    A line that is cut is longer than `most`, which is how its reader notices.
    """
    while line := stream.readline(most + 2):
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
            pass
        line = line.rstrip(b"\r\n")[: most + 1]
        if line.strip():
            yield line
