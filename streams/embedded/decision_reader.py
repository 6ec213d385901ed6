"""Reading decisions in a ledger's file beside its writer: one by one, or slice by slice."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw

from streams.embedded.archives.sealed_log import usage_of_seal
from streams.embedded.ledger_file import numbered_decisions, reader
from streams.errors import Unavailable
from streams.index import Beginning


class DecisionReader:
    """A read-only connection that several threads share."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_at_a_time = threading.Lock()
        self._db: apsw.Connection | None = None

    def decision(self, sequence: int) -> bytes | None:
        with self._one_at_a_time:
            try:
                if self._db is None:
                    flags = apsw.SQLITE_OPEN_READONLY
                    self._db = apsw.Connection(str(self._path), flags=flags)
                    self._db.set_busy_timeout(1000)
                query = "SELECT value FROM decisions WHERE sequence = ?"
                value = self._db.execute(query, (sequence,)).get
            except apsw.Error as error:
                raise Unavailable(f"{self._path} cannot be read: {error}") from error
        return None if value is None else bytes(value)

    def close(self) -> None:
        with self._one_at_a_time:
            if self._db is not None:
                self._db.close()
                self._db = None


class LogSlices:
    """The log in a ledger's file, read slice by slice beside its writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open = contextlib.ExitStack()
        with self._translated():
            self._db = self._open.enter_context(reader(path))

    def read(self, first: int, most: int) -> Sequence[bytes]:
        """Return decisions from number `first` on.

        Raises: Unavailable, Refused: the file cannot be read.
        """
        with self._translated():
            return [value for _, value in numbered_decisions(self._db, first=first, most=most)]

    def beginning(self) -> Beginning | None:
        """Return what stands for the log's beginning, None if that was not archived.

        Raises: Unavailable, Refused, LogDamaged.
        """
        with self._translated():
            return usage_of_seal(self._db)

    def close(self) -> None:
        """Let go of the file."""
        self._open.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise Unavailable(f"{self._path} cannot be read: {error}") from error
