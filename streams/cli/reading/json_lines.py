"""Read JSON lines that others wrote, of any length, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def numbered_lines(stream: BinaryIO, most: int) -> Iterator[tuple[int, bytes]]:
    """As `read_lines`, each line with its number among all of the stream, from 1."""
    number = 0
    while line := stream.readline(most + 2):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
            pass
        line = line.rstrip(b"\r\n")[: most + 1]
        if line.strip():
            yield number, line


def read_lines(stream: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield each line that is not blank, without its end, cut after `most` + 1 bytes.

    A line that is cut is longer than `most`, which is how its reader notices.
    """
    return (line for _, line in numbered_lines(stream, most))
