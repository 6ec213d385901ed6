"""Files that should stay where they are while their owner answers for what is in them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from streams.journal.file_identity import FileIdentity, WatchedPath
from streams.journal.file_moves import FileMoves

_LOOK_S: Final = 1.0


class WatchedFiles:
    """Tells whether paths go on leading to the same files; asked by one thread at a time.

    To look takes 19 us behind a commit, whose wait leaves the processor's caches cold; to ask
    whether Linux has noted a move takes 3. So this looks once a second, and at each question
    where something was noted or nothing can be.

    Args:
        files: what each path should lead to, None: to nothing.
    """

    def __init__(
        self,
        files: Mapping[Path, FileIdentity | None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._paths = [WatchedPath(path, file) for path, file in files.items()]
        self._moves: FileMoves | None = None
        with contextlib.suppress(OSError):  # then it is looked each time
            self._moves = FileMoves(list(files))
        self._look_again = 0.0  # before that, what Linux notes is enough

    def in_place(self) -> bool:
        """Tell whether all paths lead to the files that they should."""
        now = self._monotonic()
        # No longer than a second ahead, whatever the clock has done.
        recent = 0 < self._look_again - now <= _LOOK_S
        if recent and self._moves is not None and self._moves.none():
            return True
        found = self.look()
        # Counted from before the look: what is moved after it is noted.
        self._look_again = now + _LOOK_S if found else 0.0
        return found

    def look(self) -> bool:
        """Do as `in_place` does, and take nobody's word for it."""
        return all(path.is_same() for path in self._paths)

    def close(self) -> None:
        """Have nothing noted any more; what is asked from here on is looked at."""
        if self._moves is not None:
            self._moves.close()
