"""Bars that show how far an audit has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streams.cli.printing.output import count_progress, progress

if TYPE_CHECKING:
    from rich.progress import Progress

    from streams.log.decision_log import Part, PartSize


@contextmanager
def audit_bars() -> Iterator[AuditBars]:
    """Show on stderr how far an audit has come, as the block runs it."""
    with progress(time_left=True) as bars:
        yield AuditBars(bars)


class AuditBars:
    """A bar for each partition; see `AuditProgress`."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    @contextmanager
    def counted(self, part: Part) -> Iterator[Iterator[bytes]]:
        """Yield the values of a partition, and count them as the block takes them."""
        task = self._bars.add_task(_title(part.number), total=part.total)
        with count_progress(self._bars, part.values, task) as values:
            yield values

    def side_by_side(self, sizes: Sequence[PartSize]) -> Callable[[int, int], None]:
        """Begin partitions that are audited at the same time."""
        tasks = [self._bars.add_task(_title(size.number), total=size.records) for size in sizes]
        return lambda place, records: self._bars.update(tasks[place], completed=records)


def _title(partition: int) -> str:
    return f"auditing partition {partition}"
