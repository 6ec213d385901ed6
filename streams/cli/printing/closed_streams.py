"""Standard streams that the caller has closed, as in `accountant ask ... >&-`."""

from __future__ import annotations

import os
import sys
from typing import Final

# What is written to a file opened for reading fails, as it must where a result gets nowhere:
# the command then says on standard error what was decided. Nobody misses messages.
_MODES: Final = {
    "stdin": ("r", os.O_RDONLY),
    "stdout": ("w", os.O_RDONLY),
    "stderr": ("w", os.O_WRONLY),
}


def replace_closed() -> None:
    """Put a file in the place of each standard stream that Python left out as closed."""
    for name, (mode, flags) in _MODES.items():
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
