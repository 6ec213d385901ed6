"""Standard streams that never raise, so that an exit code always reports the decision.

A stream may be closed (`>&-`), its reader may go away (`| head -0`), its disk may be full, and its
encoding may lack a letter. Output that cannot be written is dropped; the end of the command reports
it.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import stat
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

# stdout becomes a file opened for reading: a write to it fails, so the loss of a result is
# reported. Lost messages on stderr are not.
_MODES: Final = {
    "stdin": ("r", os.O_RDONLY),
    "stdout": ("w", os.O_RDONLY),
    "stderr": ("w", os.O_WRONLY),
}


class _SafeStream(io.RawIOBase):
    """Writes to a file descriptor, and drops all output after the first error.

    Attributes:
        error: the first error.
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
                except BlockingIOError:  # another process made the descriptor non-blocking
                    select.select([], [self._number], [])
                except OSError as error:
                    self.error = error
            return len(left)


_safe: Final[dict[str, _SafeStream]] = {}


def replace_streams() -> None:
    """Replace stdout and stderr by streams that never raise; open a file for closed ones."""
    for name, (mode, flags) in _MODES.items():
        if getattr(sys, name) is None:
            # This takes the lowest free descriptor. Otherwise a file that is opened later, such
            # as the ledger's, would get the number of stdout.
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
    for name in ("stdout", "stderr"):
        _replace(name, getattr(sys, name))


def _replace(name: str, stream: TextIO) -> None:
    try:
        raw = _safe[name] = _SafeStream(stream.fileno())
    except (OSError, ValueError):  # a test's stream without a descriptor
        return
    stream.flush()
    options: dict[str, Any] = {"encoding": stream.encoding, "line_buffering": raw.isatty()}
    if name == "stderr":
        options |= {"write_through": True, "line_buffering": True}
    setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), errors="replace", **options))


def output_error() -> OSError | None:
    """Return why results were not written, None if all were."""
    if "stdout" not in _safe:
        return None
    sys.stdout.flush()
    return _safe["stdout"].error


def reader_is_gone() -> bool:
    """Tell whether the reader of stdout has gone away, as in `| head`; that is no failure."""
    return isinstance(output_error(), BrokenPipeError)


def output_is_open_to_others() -> bool:
    """Tell whether stdout is a file that other users may read or change."""
    with contextlib.suppress(OSError, ValueError):  # closed, or a stream without a descriptor
        status = os.fstat(sys.stdout.fileno())
        return stat.S_ISREG(status.st_mode) and bool(stat.S_IMODE(status.st_mode) & 0o077)
    return False
