"""Reads JSON lines of any length in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def numbered_lines(stream: BinaryIO, limit: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line as `read_lines` does, with its number in the stream, from 1."""
    number = 0
    while line := stream.readline(limit + 2):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(1 << 20)):
            pass
        line = line.rstrip(b"\r\n")[: limit + 1]
        if line.strip():
            yield number, line


def read_lines(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    """Yield each line that is not blank, without its line end, cut after `limit` + 1 bytes.

    A cut line is longer than `limit`, so that the caller notices it.
    """
    return (line for _, line in numbered_lines(stream, limit))
