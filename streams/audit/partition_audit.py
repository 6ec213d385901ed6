"""The audit of one partition of a log, with the hashes to compare with other sources."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from streams.errors import Refused

if TYPE_CHECKING:
    from accountant.partition import Partition
    from accountant.replay.audit import AuditReport
    from streams.log.decision_log import Part


class PartitionAudit(NamedTuple):
    """What the audit of one partition has found.

    Attributes:
        number: of the partition.
        report: on its records, and on its rows of `state`.
        first: the first record, None for an empty log.
        last: number of the last record, -1 for none.
        hashes: of the records with the wanted numbers; None for a number that the log lacks.
        known: number and hash of each record that the log must have, as its own places say.
    """

    number: int
    report: AuditReport
    first: bytes | None
    last: int
    hashes: dict[int, str | None]
    known: tuple[tuple[int, str], ...]


def audit_part(
    part: Part,
    values: Iterable[bytes],
    wanted: Collection[int],
    decided: Callable[[Partition, int], None] | None = None,
) -> PartitionAudit:
    """Audit a part of a log, and read it to its end even after a disagreement.

    Args:
        values: those of the part.
        wanted: numbers of the records whose hashes are needed.
        decided: see `accountant.replay.audit.audit`.
    """
    from accountant.replay.audit import audit

    state_end = None if part.state is None else part.state.end
    known = tuple(at for at in (state_end, None if part.sealed else part.archived) if at)
    recorder = _HashRecorder(part, values, {*wanted, *(number for number, _ in known)})
    values = iter(recorder)
    report = audit(
        values,
        expected_head=part.head,
        sealed=part.sealed,
        state=part.state,
        gapless=part.gapless,
        decided=decided,
    )
    if report.right or decided is None:
        # Read on after a disagreement, to reach the next partition; the audit of that one
        # reports its own damage.
        with suppress(Refused):
            for _ in values:
                pass
    return PartitionAudit(part.number, report, recorder.first, recorder.last, recorder.found, known)


class _HashRecorder:
    """Reads the values of one partition, and records the hashes of the wanted numbers.

    Attributes:
        first: the first value, None before it was read.
        last: number of the last value that was read, -1 for none.
        found: hashes by number; None for a number that was not read yet.
    """

    def __init__(self, part: Part, values: Iterable[bytes], wanted: Collection[int]) -> None:
        self.first: bytes | None = None
        self.last = -1
        self.found: dict[int, str | None] = dict.fromkeys(wanted)
        self._part = part
        self._values = values

    def __iter__(self) -> Iterator[bytes]:
        from accountant.partition import hash_of

        for number, value in zip(self._part.numbers(), self._values, strict=False):
            if self.last < 0:
                self.first = value
            if number in self.found:
                self.found[number] = hash_of(value)
            self.last = number
            yield value
