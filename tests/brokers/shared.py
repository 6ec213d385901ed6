"""The broker of all workers, as one of them sees it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, NoReturn

from streams.testing import BrokerError, LocalBroker
from streams.testing.broker_settings import Ports

STARTS = ()


class SharedBroker(LocalBroker):
    """A broker that another process runs: clients may use it, and nobody may stop it."""

    def __init__(
        self,
        directory: Path,
        *,
        pid: int,
        ports: Ports,
        users: Sequence[str] = (),
        connection: Connection | None = None,
    ) -> None:
        super().__init__(directory, users=users)
        self._shared_pid = pid
        self._shared_ports = ports
        self._connection = connection

    def forget(self, application: str) -> None:
        """Let the topics of a test that has ended be deleted."""
        if self._connection is not None:
            with suppress(OSError):  # the host has ended, and its brokers with it
                self._connection.send_bytes(application.encode())

    @property
    def ports(self) -> Ports:
        """The ports, with those of this worker's own proxy."""
        return self._shared_ports

    @property
    def pid(self) -> int:
        return self._shared_pid

    @property
    def is_running(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _refuse(self, *_: object) -> NoReturn:
        raise BrokerError("all workers share this broker: take the fixture `own_broker`")

    start = stop = kill = restart = pause = resume = close = _refuse


@contextmanager
def shared_broker(address: str, *, users: Sequence[str] = ()) -> Iterator[SharedBroker]:
    """Use a broker of the host at this address; the first use starts it."""
    with Client(address, "AF_UNIX") as connection:
        connection.send_bytes(json.dumps(users).encode())
        answer: dict[str, Any] = json.loads(connection.recv_bytes())
        if "error" in answer:
            raise BrokerError(answer["error"])
        yield SharedBroker(
            Path(answer["directory"]),
            pid=answer["pid"],
            ports=Ports(*answer["ports"]),
            users=users,
            connection=connection,
        )
