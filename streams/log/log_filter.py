"""Chooses decisions of a log by dataset, request id and time, and the last ones of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from accountant.records.header import DecisionHeader
    from streams.log.decision_log import Part

MOST_LAST: Final = 10_000
"""The most decisions that --tail chooses: they are held in memory."""


class Chosen(NamedTuple):
    """A decision that satisfies a filter.

    Attributes:
        decided_at: its time, in the log's format.
        value: its bytes.
    """

    decided_at: str
    value: bytes


class LogFilter(NamedTuple):
    """Which decisions of a log are wanted: those that satisfy every field that is not None.

    Attributes:
        dataset: the dataset of the decision, or the one that its request names.
        request_id: the id of its request.
        since, until: `decided_at` is at or after `since` and before `until`, in the log's format.
        tail: only so many of these, the last ones; 1 to `MOST_LAST`.
    """

    dataset: str | None = None
    request_id: str | None = None
    since: str | None = None
    until: str | None = None
    tail: int | None = None

    @property
    def is_whole_log(self) -> bool:
        """Whether every decision satisfies the filter."""
        return self == LogFilter()

    def oldest_first(self, part: Part, values: Iterable[bytes]) -> Iterator[Chosen]:
        """Yield the decisions of a partition that satisfy all fields but `tail`.

        Args:
            values: those of `part.values`.
        Raises: LogDamaged: a decision that may be wanted cannot be read.
        """
        numbers = repeat(None) if part.first is None else part.numbers()
        for header, value in self._read(part, zip(numbers, values, strict=False)):
            # After a clock reset, a later decision may be before `until` again.
            if part.ordered and self._is_late(header):
                return
            if self._is_wanted(header):
                yield Chosen(header.decided_at, value)

    def last(self, part: Part, values: Iterable[bytes]) -> list[Chosen]:
        """Return the last `tail` decisions that satisfy the other fields, oldest first.

        Args:
            values: as `oldest_first`; read only if the part cannot be read from its end.
        Raises: as `oldest_first`.
        """
        if part.newest_first is None:
            return [*deque(self.oldest_first(part, values), maxlen=self.tail)]
        found: list[Chosen] = []
        numbered = zip(repeat(None), part.newest_first(), strict=False)
        for header, value in self._read(part, numbered):
            if part.ordered and self._is_early(header):
                break
            if self._is_wanted(header):
                found.append(Chosen(header.decided_at, value))
                if len(found) == self.tail:
                    break
        return found[::-1]

    def _read(
        self, part: Part, numbered: Iterable[tuple[int | None, bytes]]
    ) -> Iterator[tuple[DecisionHeader, bytes]]:
        """Yield the decisions that may be wanted, with their headers."""
        from accountant.errors import LogDamaged
        from accountant.records import DECODE_ERRORS
        from accountant.records.header import decode_header

        is_timed = self.since is not None or self.until is not None
        texts = [text.encode() for text in (self.dataset, self.request_id) if text is not None]
        for number, value in numbered:
            # Most decisions contain neither text: skip them without decoding.
            if not is_timed and not all(text in value for text in texts):
                continue
            try:
                yield decode_header(value), value
            except DECODE_ERRORS as error:
                of = f"a decision of partition {part.number}"
                name = of if number is None else f"decision {number}"
                raise LogDamaged(f"{name} cannot be read: {error}") from error

    def _is_late(self, header: DecisionHeader) -> bool:
        return self.until is not None and header.decided_at >= self.until

    def _is_early(self, header: DecisionHeader) -> bool:
        return self.since is not None and header.decided_at < self.since

    def _is_wanted(self, header: DecisionHeader) -> bool:
        if self._is_early(header) or self._is_late(header):
            return False
        if self.dataset is None and self.request_id is None:
            return True
        import msgspec

        from accountant.records.parts import by_dataset

        body = bytes(header.request)
        request = msgspec.json.decode(body) if body else {}
        if not isinstance(request, dict):
            request = {}
        datasets = {part.dataset for part in by_dataset(header)}
        is_of_dataset = self.dataset in {None, *datasets} or (
            None in datasets and request.get("dataset") == self.dataset
        )
        return is_of_dataset and self.request_id in {None, request.get("request_id")}


def last_of_all(parts: list[list[Chosen]], tail: int) -> list[list[Chosen]]:
    """Return, by partition, the last decisions of all partitions together, at most `tail`.

    Within a partition the order is that of the log; between partitions, `decided_at` decides.
    """
    ends = [len(part) for part in parts]
    for _ in range(min(tail, sum(ends))):
        newest = max(
            (number for number, end in enumerate(ends) if end),
            key=lambda number: (parts[number][ends[number] - 1].decided_at, number),
        )
        ends[newest] -= 1
    return [part[end:] for part, end in zip(parts, ends, strict=True)]
