"""A file that names the versions of sources whose reading, before anybody asked, did not end.

A reading may be what ends the process. Each is tried a few times only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from streams.files.private_files import replace_private
from streams.files.regular_files import open_regular
from streams.sources.database import SourceVersion
from streams.sources.source_tables import EnvironmentProblem

_ATTEMPTS: Final = 3


class _Attempts(msgspec.Struct, frozen=True):
    """How often a version has been tried."""

    version: SourceVersion
    number: int


@contextlib.contextmanager
def unfinished_while(path: Path | None, name: str, version: SourceVersion) -> Iterator[None]:
    """Name a version of a source in the file for the length of the block.

    Args:
        path: None without a file.
    Raises: EnvironmentProblem: it was tried too often. OSError.
    """
    if path is None:
        yield
        return
    found = _read(path).get(name)
    number = found.number if found is not None and found.version == version else 0
    if number >= _ATTEMPTS:
        raise EnvironmentProblem(
            f"{number} readings of it did not end; {path} counts them, remove it to try again"
        )
    _write(path, _read(path) | {name: _Attempts(version, number + 1)})
    try:
        yield
    finally:
        others = _read(path)
        others.pop(name, None)
        _write(path, others)


def _read(path: Path) -> dict[str, _Attempts]:
    try:
        with open_regular(path) as file:
            return msgspec.json.decode(file.read(), type=dict[str, _Attempts])
    except (FileNotFoundError, msgspec.DecodeError):  # a power loss leaves any bytes
        return {}


def _write(path: Path, attempts: dict[str, _Attempts]) -> None:
    if attempts:
        replace_private(path, msgspec.json.encode(attempts))
    else:
        path.unlink(missing_ok=True)
