"""Audits the partitions of a log side by side, each in a process of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from streams.audit.child_process import start_process
from streams.audit.deciding_process import InDoubt

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from streams.audit.partition_audit import PartitionAudit
    from streams.log.decision_log import DecisionLog, PartSize

_COUNT_EVERY: Final = 2_000  # records
_HALVED: Final = 0.6
"""The time of two processes for one partition after another, by that of one process."""


@dataclass(frozen=True, slots=True)
class PartitionProcesses:
    """Processes that audit the partitions of a log.

    Args:
        open_log: returns the log; each process calls it, so it must be a function of a module.
        sizes: of its partitions.
        jobs: how many processes there are at a time.
    """

    open_log: Callable[[], DecisionLog]
    sizes: Sequence[PartSize]
    jobs: int

    def audits(
        self,
        wanted: Callable[[int], set[int]],
        progress: Callable[[int, int], None],
    ) -> list[PartitionAudit]:
        """Return what was found in each partition, in order.

        Args:
            wanted: the numbers of the records of a partition whose hashes are needed.
            progress: called with the place of a partition in the log, and the number of its
                records that are audited.
        Raises: InDoubt: a process found something wrong, or has ended. Audit the log again in one
            process, which names it.
        """
        running = _Running(self.open_log)
        found: dict[int, PartitionAudit] = {}
        waiting = deque(range(len(self.sizes)))
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    place = waiting.popleft()
                    running.start(place, wanted(self.sizes[place].number))
                for place, message in running.receive():
                    if isinstance(message, int):
                        progress(place, message)
                    else:
                        found[place] = message
                        progress(place, self.sizes[place].records)
        except (EOFError, OSError) as error:
            raise InDoubt from error
        finally:
            running.end()
        return [found[place] for place in range(len(self.sizes))]


def partition_processes(
    log: DecisionLog, open_log: Callable[[], DecisionLog], jobs: int, *, least: int
) -> PartitionProcesses | None:
    """Return processes for the partitions of a log, None where one after another is better.

    Args:
        open_log: as of `PartitionProcesses`.
        jobs: how many processes there may be.
        least: decisions of a log from which on it has several processes.
    """
    if jobs < 2:
        return None
    try:
        sizes = log.sizes()
    except Exception:
        return None  # the audit reports why the log cannot be read
    records = sum(size.records for size in sizes)
    slots = min(jobs, len(sizes))
    if slots < 2 or records < least:
        return None
    longest = max(records / slots, *(size.records for size in sizes))
    return PartitionProcesses(open_log, sizes, jobs) if longest <= _HALVED * records else None


class _Running:
    """The processes that have not ended."""

    def __init__(self, open_log: Callable[[], DecisionLog]) -> None:
        self._open_log = open_log
        self._processes: dict[Connection, tuple[int, SpawnProcess]] = {}

    def __len__(self) -> int:
        return len(self._processes)

    def start(self, place: int, wanted: set[int]) -> None:
        """Start a process for the partition at a place in the log.

        Raises: OSError: the system starts no more.
        """
        arguments = self._open_log, place, wanted
        connection, process = start_process(_audit_in_process, *arguments)
        self._processes[connection] = place, process

    def receive(self) -> Iterator[tuple[int, int | PartitionAudit]]:
        """Wait for messages, and yield each with its place in the log.

        Raises: InDoubt, EOFError, OSError.
        """
        from multiprocessing.connection import wait

        for connection in cast("list[Connection]", wait(list(self._processes))):
            place, process = self._processes[connection]
            message = connection.recv()
            if message is None:
                raise InDoubt
            if not isinstance(message, int):
                del self._processes[connection]
                _end(connection, process)
            yield place, message

    def end(self) -> None:
        """End all processes."""
        for connection, (_, process) in self._processes.items():
            process.kill()
            _end(connection, process)
        self._processes.clear()


def _end(connection: Connection, process: SpawnProcess) -> None:
    connection.close()
    process.join()


def _audit_in_process(
    connection: Connection, open_log: Callable[[], DecisionLog], place: int, wanted: set[int]
) -> None:
    """Audit a partition and send what was found: None if anything is wrong or in doubt."""
    import os
    import signal

    from streams.audit.partition_audit import audit_part

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    # Only the audit in one process says what is wrong.
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,  # noqa: PTH123
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        result = None
        with suppress(Exception):
            for part in open_log().parts(only=place):
                found = audit_part(part, _counted(part.values, connection), wanted)
                result = found if found.report.right else None
        connection.send(result)


def _counted(values: Iterable[bytes], connection: Connection) -> Iterator[bytes]:
    for number, value in enumerate(values):
        if number % _COUNT_EVERY == 0:
            connection.send(number)
        yield value
