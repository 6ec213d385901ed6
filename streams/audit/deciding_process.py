"""A second process that decides the requests of a log again, while this one checks the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Self

from streams.audit.child_process import start_process

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from accountant.partition import Partition

_BATCH: Final = 256


class InDoubt(Exception):
    """The two processes did not both find the log right: audit it again in one process.

    It names no record. Only an audit in one process says what is wrong, if anything is.
    """


class NoSecondProcess(Exception):
    """The system starts no second process, for lack of memory or processes."""


class DecidingProcess:
    """Sends the records of one log to a process with a `Decider`, and takes its result.

    A pipe holds few records, so reading a log waits for the slower of both processes.
    """

    def __init__(self) -> None:
        """Start the process.

        Raises: NoSecondProcess: it does not start.
        """
        try:
            self._connection, self._process = start_process(_decide)
        except OSError as error:
            raise NoSecondProcess from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()

    @property
    def process_id(self) -> int | None:
        """The id of the process."""
        return self._process.pid

    def watch(self, values: Iterable[bytes]) -> Iterator[bytes]:
        """Yield values after sending them to the process.

        Raises: InDoubt: the process has stopped.
        """
        batch: list[bytes] = []
        for value in values:
            batch.append(value)
            if len(batch) == _BATCH:
                self._send(batch)
                batch = []
            yield value
        if batch:
            self._send(batch)

    def check(self, partition: Partition, requests: int) -> None:
        """Compare the results of both processes, after the last value.

        Raises: InDoubt: they differ, or the process has stopped.
        """
        from accountant.replay.decider import DecidedLog, hash_of_rows

        self._send([])
        try:
            found = self._connection.recv()
        except (EOFError, OSError) as error:
            raise InDoubt from error
        due = DecidedLog(requests, partition.sequence, partition.head, hash_of_rows(partition))
        if found != due:
            raise InDoubt

    def _send(self, batch: list[bytes]) -> None:
        try:
            if self._connection.poll():
                raise InDoubt  # it answers only after the last record, or when it gives up
            self._connection.send(batch)
        except OSError as error:
            raise InDoubt from error


def _decide(connection: Connection) -> None:
    """Decide the records of a connection again, and send the result: None if one is in doubt."""
    import signal

    from accountant.replay.decider import Decider

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    decider = Decider()
    try:
        while batch := connection.recv():
            for value in batch:
                if not decider.take(value):
                    connection.send(None)
                    return
        connection.send(decider.end())
    except Exception:
        # Whatever a wrong record raises: closing without a result leaves the log in doubt.
        connection.close()
