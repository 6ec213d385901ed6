"""Reads an exported log twice, and refuses one that was changed in between."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from streams.errors import Refused
from streams.log.decision_log import Part
from streams.log.exported_log import ExportedLog


class UnchangedLog(ExportedLog):
    """An exported log that is read twice and must not change in between.

    Attributes:
        firsts: the first decision of each partition, after the first reading.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.firsts: list[bytes] = []
        self._begun = self._stamp()

    def _stamp(self) -> tuple[int, int, int]:
        found = self.path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def parts(
        self, *, since: int | None = None, only: int | None = None
    ) -> Generator[Part, None, None]:
        self.firsts.clear()
        for part in super().parts(since=since, only=only):
            yield part._replace(values=self._same(part.values))

    def _same(self, values: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the decisions of a part; those that are written are those that were audited.

        Raises: Refused: the file was changed.
        """
        for number, value in enumerate(values):
            if self._stamp() != self._begun:
                raise Refused(f"{self.path} changed while it was read. Run the command again")
            if number == 0:
                self.firsts.append(value)
            yield value
