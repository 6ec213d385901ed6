"""Standard streams that no command fails by: its exit code says what was decided, whatever they do.

A stream may be closed (`>&-`), its reader may go away (`| head -0`), its disk may be full, and its
encoding may lack a letter. What cannot be written is dropped, and told at the end.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

# What is written to a file opened for reading fails, so that it is told that a result got
# nowhere. Nobody misses messages.
_MODES: Final = {
    "stdin": ("r", os.O_RDONLY),
    "stdout": ("w", os.O_RDONLY),
    "stderr": ("w", os.O_WRONLY),
}


class _Lasting(io.RawIOBase):
    """A file descriptor that takes every byte, and forgets them from its first error on.

    Attributes:
        error: the first one.
    """

    def __init__(self, number: int) -> None:
        self.error: OSError | None = None
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Buffer, /) -> int:
        with memoryview(data).cast("B") as left:
            taken = 0
            while self.error is None and taken < len(left):
                try:
                    taken += os.write(self._number, left[taken:])
                except BlockingIOError:  # another process has the other end so
                    select.select([], [self._number], [])
                except OSError as error:
                    self.error = error
            return len(left)


_lasting: Final[dict[str, _Lasting]] = {}


def take_over() -> None:
    """Put a lasting stream in the place of stdout and stderr, and a file in that of closed ones."""
    for name, (mode, flags) in _MODES.items():
        if getattr(sys, name) is None:
            # The lowest free number: no file that is opened later, such as a ledger's, takes it.
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
    for name in ("stdout", "stderr"):
        _replace(name, getattr(sys, name))


def _replace(name: str, stream: TextIO) -> None:
    try:
        raw = _lasting[name] = _Lasting(stream.fileno())
    except (OSError, ValueError):  # a test's, of no file
        return
    stream.flush()
    options: dict[str, Any] = {"encoding": stream.encoding, "line_buffering": raw.isatty()}
    if name == "stderr":
        options |= {"write_through": True, "line_buffering": True}
    setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), errors="replace", **options))


def output_error() -> OSError | None:
    """Return why results were not written, None if all were."""
    if "stdout" not in _lasting:
        return None
    sys.stdout.flush()
    return _lasting["stdout"].error


def nobody_reads() -> bool:
    """Tell whether there is no reader of results any more, who has then seen all that they want."""
    return isinstance(output_error(), BrokenPipeError)
