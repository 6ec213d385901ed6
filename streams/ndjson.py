"""Splits a stream or a file into lines, and holds no more than one line of the longest length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

_NEWLINE: Final = b"\n"
_RETURN: Final = b"\r"


class LineSplitter:
    """Splits NDJSON that arrives in pieces of any size. A line ends with LF or CRLF.

    Args:
        max_bytes: of a line, without its end. A longer line is dropped, not stored.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._part = bytearray()
        self._is_too_long = False

    def feed(self, piece: bytes) -> Iterator[bytes | None]:
        """Yield the lines that a piece completes, None for each line that is too long.

        Run it to its end before the next piece.
        """
        start = 0
        while (end := piece.find(_NEWLINE, start)) >= 0:
            self._append(piece[start:end])
            yield self._take()
            start = end + 1
        self._append(piece[start:])

    def end(self) -> Iterator[bytes | None]:
        """Yield the last line if no newline ended it. Call it only after a complete body."""
        if self._part or self._is_too_long:
            yield self._take()

    def _append(self, part: bytes) -> None:
        # One byte more than the longest line: it may be the CR of a CRLF.
        if self._is_too_long or len(self._part) + len(part) > self._max + 1:
            self._is_too_long = True
            self._part.clear()
        else:
            self._part += part

    def _take(self) -> bytes | None:
        line = bytes(self._part).removesuffix(_RETURN)
        is_too_long = self._is_too_long or len(line) > self._max
        self._part.clear()
        self._is_too_long = False
        return None if is_too_long else line


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
