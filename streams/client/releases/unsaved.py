"""Results that this process has and its store does not: the disk was full, or read-only.

A retry within the process stores the result, and gets it. Another process never runs a mechanism
again whose result was returned: its row says so before that.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final, NamedTuple

_MOST: Final = 100
"""The most results that a process keeps; the oldest are dropped."""


class UnsavedResult(NamedTuple):
    """A result of one run.

    Attributes:
        returned: the caller has got it, and the store says so.
    """

    decision: str
    run: str
    answer: bytes
    returned: bool


class UnsavedResults:
    """What the store of one path lacks, by the hash of the request's bytes. Thread-safe.

    Attributes:
        failed_runs: runs that ended without a result, which the store could not be given; whether
            each may run again.
    """

    def __init__(self) -> None:
        self.failed_runs: dict[str, bool] = {}
        self._results: dict[str, UnsavedResult] = {}
        self._lock = threading.Lock()

    def keep(self, request: str, result: UnsavedResult) -> None:
        """Keep a result until it is stored."""
        with self._lock:
            self._results[request] = result
            if len(self._results) > _MOST:
                del self._results[next(iter(self._results))]

    def find(self, request: str) -> UnsavedResult | None:
        """Return the result of a request, None if there is none."""
        return self._results.get(request)

    def drop(self, request: str) -> None:
        """Forget a result that is stored, or that no row is for."""
        with self._lock:
            self._results.pop(request, None)


_unsaved: Final[dict[Path, UnsavedResults]] = {}


def unsaved_of(path: Path) -> UnsavedResults:
    """Return what the store of a path lacks, the same for all stores of this process."""
    return _unsaved.setdefault(path, UnsavedResults())
