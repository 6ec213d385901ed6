"""The process whose brokers all workers of one test run share.

    python -m tests.brokers.host WORKERS

prints its address and runs until its standard input ends: so it ends with the process that
started it, however that ends. A worker connects, sends the broker's users as JSON, and gets where
the broker is. The first to ask waits for its start. A worker's proxy ports are its own while it is
connected. It then sends the `application` of each test that has ended.
"""

from __future__ import annotations

import json
import queue
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from typing import Final

from streams.testing import BrokerError, KafkaUnavailable, LocalBroker
from streams.testing.broker_settings import HOST, Ports, free_ports
from tests.brokers.finished_topics import FinishedTopics

STARTS = ()

PATIENT: Final = {"broker.session.timeout.ms": "120000"}
"""Settings of a shared broker, which is never killed. On a busy machine its own heartbeats may come
late: its controller would then fence it, and no test could create a topic."""

_ATTEMPTS: Final = 3
_SPARE: Final = 2  # for workers that replace crashed ones, before those are disconnected
_FREE_S: Final = 60.0  # for the ports of a worker that has crashed
_END_S: Final = 10.0  # for a start that is under way; watchdogs end brokers after that


class Brokers:
    """The brokers by their users, each started at its first use."""

    def __init__(self, workers: int) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, ...], LocalBroker] = {}
        self._finished: dict[tuple[str, ...], FinishedTopics] = {}
        self._slots = workers + _SPARE
        self._free: queue.SimpleQueue[Ports] = queue.SimpleQueue()

    def serve(self, listener: Listener) -> None:
        """Serve each connection in a thread of its own."""
        while True:
            connection = listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """End the brokers and remove their data."""
        if self._lock.acquire(timeout=_END_S):
            for broker in self._running.values():
                broker.close()

    def _serve(self, connection: Connection) -> None:
        with connection, suppress(EOFError, OSError):
            users = tuple(json.loads(connection.recv_bytes()))
            try:
                with self._lock:
                    broker = self._broker(users)
                    where = {"directory": str(broker.directory), "pid": broker.pid}
                ports = broker.ports if users else self._free.get(timeout=_FREE_S)
            except (BrokerError, KafkaUnavailable, OSError, queue.Empty) as error:
                where = {"error": f"{type(error).__name__}: {error}"}
                connection.send_bytes(json.dumps(where).encode())
                return
            try:
                connection.send_bytes(json.dumps(where | {"ports": ports}).encode())
                while True:  # until the worker closes the connection
                    self._finished[users].add(connection.recv_bytes().decode())
            finally:
                if not users:
                    self._free.put(ports)

    def _broker(self, users: tuple[str, ...]) -> LocalBroker:
        if users not in self._running:
            if users:
                broker = LocalBroker(users=users, settings=PATIENT, short_lived=True)
                try:
                    broker.start()
                except BaseException:
                    broker.close()
                    raise
            else:
                broker, slots = _proxied(self._slots)
                for ports in slots:
                    self._free.put(ports)
            # With users, clients of this port need no password.
            port = broker.ports.proxied if users else broker.ports.clients
            self._finished[users] = FinishedTopics(port)
            self._running[users] = broker
        return self._running[users]


def _proxied(slots: int) -> tuple[LocalBroker, list[Ports]]:
    """Start a broker with a proxied listener for each slot.

    Such a listener tells its clients one proxy's port, and each worker runs a proxy of its own.
    """
    for tries_left in reversed(range(_ATTEMPTS)):
        slot_ports = _distinct(slots)
        broker = LocalBroker(
            port=slot_ports[0].clients, settings=PATIENT | _listeners(slot_ports), short_lived=True
        )
        try:
            broker.start()
        except BrokerError as error:
            broker.close()
            if not (tries_left and "already in use" in str(error)):
                raise
        except BaseException:
            broker.close()
            raise
        else:
            return broker, slot_ports
    raise AssertionError("the last attempt returns or raises")


def _distinct(slots: int) -> list[Ports]:
    first = free_ports()
    chosen = [first]
    while len(chosen) < slots:
        other = free_ports()._replace(clients=first.clients, controller=first.controller)
        used = {port for ports in chosen for port in ports}
        if not used & {other.proxied, other.proxy}:
            chosen.append(other)
    return chosen


def _listeners(slot_ports: Sequence[Ports]) -> dict[str, str]:
    first = slot_ports[0]
    clients = f"CLIENTS://{HOST}:{first.clients}"
    controller = f"CONTROLLER://{HOST}:{first.controller}"
    names = [f"PROXIED{slot}" for slot in range(len(slot_ports))]
    bound = [f"{n}://{HOST}:{p.proxied}" for n, p in zip(names, slot_ports, strict=True)]
    advertised = [f"{n}://{HOST}:{p.proxy}" for n, p in zip(names, slot_ports, strict=True)]
    plain = [f"{name}:PLAINTEXT" for name in ("CLIENTS", *names, "CONTROLLER")]
    return {
        "listeners": ",".join((clients, *bound, controller)),
        "advertised.listeners": ",".join((clients, *advertised)),
        "listener.security.protocol.map": ",".join(plain),
        "controller.quorum.voters": f"1@{HOST}:{first.controller}",
    }


def main() -> None:
    """Serve until standard input ends."""
    brokers = Brokers(int(sys.argv[1]))
    with (
        tempfile.TemporaryDirectory(prefix="brokers-") as directory,
        Listener(f"{directory}/host", "AF_UNIX") as listener,
    ):
        print(listener.address, flush=True)
        threading.Thread(target=brokers.serve, args=(listener,), daemon=True).start()
        sys.stdin.buffer.read()
        brokers.close()


if __name__ == "__main__":
    main()
