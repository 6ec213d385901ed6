"""Reads archives that `log archive` wrote, together with the log that continues them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from streams.errors import Refused
from streams.ndjson import read_lines

_GZIP: Final = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of JSON lines, compressed or not.

    Raises: OSError; Refused: it is cut or damaged.
    """
    with path.open("rb") as raw:
        is_compressed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        if not is_compressed:
            yield raw
            return
        try:
            with gzip.GzipFile(fileobj=raw) as file:
                yield cast("BinaryIO", file)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise Refused(f"{path} is damaged: {error}") from error


def join_archives(archives: Sequence[Path], rest: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """Yield the decisions of archives, oldest first, then the rest of the log.

    Args:
        limit: length of the longest line.
    Raises: OSError, Refused.
    """
    for path in archives:
        with opened(path) as file:
            yield from read_lines(file, limit)
    yield from rest
