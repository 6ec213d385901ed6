"""Decides between the draw of an answer and the end of its curator: one of the two comes first."""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol


class NotDrawn(Exception):
    """A question was cut before its answer was drawn, and no answer of this run is ever drawn."""


class Interruptible(Protocol):
    """A connection whose statement another thread can end."""

    def interrupt(self) -> None:
        """End the statement that runs now, if any."""
        ...


class DrawGuard:
    """Guards one run of a question, which reads in a thread and draws at the end.

    Without it, an attempt could be taken back while its thread draws an answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cut = self._has_drawn = False
        self._connection: Interruptible | None = None

    def read_by(self, connection: Interruptible) -> None:
        """Note the connection that reads the data. Call it in the question's thread."""
        self._connection = connection
        if self._is_cut:
            self.interrupt()

    def draw(self) -> None:
        """Note that the answer is drawn from here on. Call it in the question's thread.

        Raises: NotDrawn: the question was cut.
        """
        with self._lock:
            if self._is_cut:
                raise NotDrawn
            self._has_drawn = True

    def cut(self) -> bool:
        """Forbid the draw; tell whether that came in time. Safe to repeat."""
        with self._lock:
            self._is_cut = not self._has_drawn
        return self._is_cut

    def interrupt(self) -> None:
        """End the statement that reads now. One that comes next is not ended: call it again."""
        if self._connection is not None:
            # What the engine raises depends on it: the connection may be closed meanwhile.
            with contextlib.suppress(Exception):
                self._connection.interrupt()
