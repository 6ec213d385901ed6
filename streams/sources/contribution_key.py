"""The secret key of the hash that chooses which of a unit's rows enter a statistic."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from streams.errors import Refused
from streams.files.private_files import read_private
from streams.files.whole_files import write_whole

KEY_BYTES: Final = 32


def default_key_path(sources: Path) -> Path:
    """Return the path of the key beside the file of sources."""
    return sources.with_name(f"{sources.name}.key")


def load_contribution_key(path: Path) -> bytes:
    """Return the key of a file; the first call makes the file, with mode 0600.

    Raises: Refused: the file cannot be made or read, has another size, or others can read it.
    """
    try:
        _make(path)
        content = read_private(
            path, KEY_BYTES + 1, what="the file of the contribution key", then="keep it"
        ).content
    except OSError as error:
        raise Refused(f"{path} cannot be made: {error.strerror or error}") from error
    if len(content) != KEY_BYTES:
        raise Refused(
            f"{path} must have {KEY_BYTES} bytes. Restore it from a backup; with another key, "
            "other rows of a unit enter the next answers"
        )
    return content


def _make(path: Path) -> None:
    """Make the file of a new key if there is none; it appears under its name as a whole."""
    if path.exists():
        return
    with contextlib.suppress(FileExistsError), write_whole(path, of_service=True) as file:
        file.write(os.urandom(KEY_BYTES))  # another process may be first: its key is used
