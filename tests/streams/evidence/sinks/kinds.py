"""One sink of each kind, which a test can make unreachable."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from aiokafka.admin import NewTopic

from streams.evidence.sink_webhook import CheckpointWebhook
from streams.evidence.sinks import Sink
from streams.evidence.store import Directory
from streams.kafka.log.checkpoint_topic import Topic
from streams.kafka.wire.admin import admin_of
from streams.kafka.wire.security import Cluster
from tests.faults.proxy import FaultProxy
from tests.streams.evidence.sinks.receiver import CheckpointReceiver


class Kind(Protocol):
    """A sink, and the server or directory behind it."""

    @property
    def sink(self) -> Sink: ...

    @property
    def address(self) -> str:
        """As settings name it."""
        ...

    def notes(self) -> list[bytes]:
        """Return what it holds."""
        ...

    def gone(self) -> AbstractContextManager[None]:
        """Have it be away for a block."""
        ...


class InDirectory:
    """A directory that a file can replace."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "elsewhere"
        self._path.mkdir()
        self.sink = Directory(self._path)
        self.address = str(self._path)

    def notes(self) -> list[bytes]:
        return [note for _, note in self.sink.notes()]

    @contextmanager
    def gone(self) -> Iterator[None]:
        aside = self._path.with_name("aside")
        if self._path.exists():
            self._path.rename(aside)
        self._path.write_text("no directory")
        yield
        self._path.unlink()
        if aside.exists():
            aside.rename(self._path)


class OnTopic:
    """A topic of the session's broker, through a proxy that can be cut."""

    def __init__(self, proxy: FaultProxy, topic: str, **settings: str) -> None:
        self._proxy = proxy
        make_topic(proxy.bootstrap, topic, **settings)
        self.sink = Topic(Cluster(proxy.bootstrap), topic)
        self.address = f"kafka://{proxy.bootstrap}/{topic}"

    def notes(self) -> list[bytes]:
        return [note for _, note in self.sink.notes()]

    @contextmanager
    def gone(self) -> Iterator[None]:
        with self._proxy.away():
            yield


class OnWebhook:
    """A receiver on loopback."""

    def __init__(self, receiver: CheckpointReceiver) -> None:
        self.receiver = receiver
        self.sink = CheckpointWebhook(receiver.url, receiver.name, "Bearer header-secret")
        self.address = receiver.url

    def notes(self) -> list[bytes]:
        return self.receiver.notes()

    @contextmanager
    def gone(self) -> Iterator[None]:
        self.receiver.down()
        yield
        self.receiver.up()


def make_topic(bootstrap: str, topic: str, *, partitions: int = 2, **settings: str) -> None:
    """Make a topic, and return once a broker knows it."""

    async def made() -> list[str]:
        async with admin_of(Cluster(bootstrap)) as admin:
            configs = {"retention.ms": "-1", "retention.bytes": "-1", **settings}
            await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)])
            return await admin.list_topics()

    while topic not in asyncio.run(made()):
        time.sleep(0.05)


@contextmanager
def deaf() -> Iterator[int]:
    """Listen at a port, take connections, and never say anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def take() -> None:
            try:
                while True:
                    taken.append(server.accept()[0])
            except OSError:
                pass

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    for each in taken:
        each.close()
