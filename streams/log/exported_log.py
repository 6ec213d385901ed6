"""A log as JSON lines, from a file that may be compressed."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from itertools import groupby, islice
from pathlib import Path

from accountant.errors import LogDamaged
from streams.errors import Unavailable
from streams.log.archives import opened
from streams.log.decision_log import MAX_LINE, DecisionLog, Part, PartSize
from streams.log.single_decisions import number_of
from streams.ndjson import read_lines


class ExportedLog(DecisionLog):
    """JSON lines from `log export`, `log archive` or `decide`, compressed or not.

    The partitions follow one another.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, partition: int, first: int, limit: int) -> list[bytes]:
        """Read the file from its beginning; see `DecisionLog.read`."""
        with closing(self._values(partition)) as values:
            found = list(islice(values, first, first + limit))
        if found and number_of(found[0]) != first:
            raise LogDamaged(f"partition {partition} has no decision {first}")
        return found

    def last(self, partition: int) -> tuple[int, bytes]:
        with closing(self._values(partition)) as values:
            found = deque(enumerate(values), maxlen=1)
        if not found:
            raise Unavailable(f"partition {partition} has no decision yet")
        return found[0]

    def _values(self, partition: int) -> Generator[bytes, None, None]:
        with closing(self.parts()) as parts:
            for part in parts:
                if part.number == partition:
                    yield from part.values

    def seal(self, partition: int) -> None:
        """Return None: no snapshot is exported."""

    def sizes(self) -> list[PartSize]:
        sizes: list[PartSize] = []
        for part in self.parts():
            first = next(part.values)
            if not sizes and not _is_of_several(first):
                break  # do not read the file a second time
            sizes.append(PartSize(part.number, 1 + sum(1 for _ in part.values)))
        return sizes

    def parts(
        self, *, since: int | None = None, only: int | None = None
    ) -> Generator[Part, None, None]:
        with opened(self.path) as file:
            lines = _numbered(read_lines(file, MAX_LINE))
            for place, (number, group) in enumerate(groupby(lines, key=lambda pair: pair[0])):
                if only in (None, place):
                    yield Part(number, (line for _, line in group))
                if only == place:
                    return

    def forget(self, partition: int) -> None:
        """Do nothing: each read opens the file."""

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _is_of_several(first: bytes) -> bool:
    """Tell whether a first record is the genesis of a ledger with several partitions."""
    from accountant.errors import MadeByOtherVersion
    from accountant.records import DECODE_ERRORS, decode_decision

    try:
        genesis = decode_decision(first).genesis
    except (*DECODE_ERRORS, MadeByOtherVersion):
        return False
    return genesis is not None and genesis.partitions > 1


def _numbered(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line with the partition number from the latest genesis record."""
    from accountant.errors import MadeByOtherVersion
    from accountant.records import DECODE_ERRORS, decode_decision

    number = 0
    for line in lines:
        if b'"genesis"' in line:
            # An unreadable line is left to the audit, which reports its position.
            with suppress(*DECODE_ERRORS, MadeByOtherVersion):
                genesis = decode_decision(line).genesis
                number = number if genesis is None else genesis.partition
        yield number, line
