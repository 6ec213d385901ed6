"""Three brokers, each also a controller, for tests of leaders on other brokers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.testing.broker_process import (
    COLLECTOR,
    java_command,
    pause_process,
    spawn,
    watchdog,
)
from streams.testing.broker_settings import HOST, Ports, free_ports, server_properties
from streams.testing.kafka_install import java, kafka_jars, kafka_version

STARTS = ()

_NODES: Final = (1, 2, 3)
_START_S: Final = 90.0
_OF_THREE: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "broker.session.timeout.ms": "9000",  # Kafka's default
    "broker.heartbeat.interval.ms": "2000",
}


class LocalCluster:
    """Three Kafka nodes in child processes, ended with this process at the latest."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="local-cluster-"))
        self._ports: dict[int, Ports] = {node: free_ports() for node in _NODES}
        self._id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._running: dict[int, tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]] = {}

    def __enter__(self) -> Self:
        try:
            formatting = [self._format(node) for node in _NODES]
            assert [each.wait() for each in formatting] == [0, 0, 0], self._log.read_text()
            for node in _NODES:
                self.start(node)
            self.wait_until_whole()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(f"{HOST}:{ports.clients}" for ports in self._ports.values())

    def start(self, node: int) -> None:
        """Start a node, without waiting for it."""
        program = ("kafka.Kafka", self._properties(node))
        process = spawn(self._command(program, ("-Xms512m", "-Xmx512m", *COLLECTOR)), self._log)
        self._running[node] = process, watchdog(process.pid, None)

    def kill(self, node: int) -> None:
        """End a node by SIGKILL."""
        process, dog = self._running.pop(node)
        process.kill()
        process.wait()
        dog.kill()
        dog.communicate()

    def pause(self, node: int) -> None:
        """Stop a node by SIGSTOP: connections stay open and it does not answer."""
        pause_process(self._running[node][0].pid)

    def resume(self, node: int) -> None:
        """Resume a paused node."""
        os.kill(self._running[node][0].pid, signal.SIGCONT)

    def close(self) -> None:
        """End all nodes and remove their data."""
        for node in list(self._running):
            self.kill(node)
        shutil.rmtree(self._directory, ignore_errors=True)

    def log_tail(self, lines: int = 200) -> str:
        """Return the last lines of the log of all nodes."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the node that leads each partition of a topic."""
        partitions = self._admin().list_topics(topic, timeout=20).topics[topic].partitions
        return {number: each.leader for number, each in partitions.items()}

    def wait_until_whole(self) -> None:
        """Return once every node serves, and every partition has three copies in sync."""
        deadline = time.monotonic() + _START_S
        while not self._is_whole():
            assert time.monotonic() < deadline, f"not whole: {self._log.read_text()[-4000:]}"
            time.sleep(0.1)

    def wait_until_without(self, node: int) -> None:
        """Return once the others have elected leaders in place of a node."""
        deadline = time.monotonic() + _START_S
        while not self._is_without(node):
            assert time.monotonic() < deadline, f"still led by {node}"
            time.sleep(0.1)

    def _is_without(self, node: int) -> bool:
        with suppress(KafkaException):
            found = self._admin().list_topics(timeout=5)
            return node not in found.brokers and all(
                partition.leader not in {node, -1}
                for topic in found.topics.values()
                for partition in topic.partitions.values()
            )
        return False

    def _is_whole(self) -> bool:
        with suppress(KafkaException):
            found = self._admin().list_topics(timeout=5)
            return len(found.brokers) == len(_NODES) and all(
                partition.leader > 0 and len(partition.isrs) == len(_NODES)
                for topic in found.topics.values()
                for partition in topic.partitions.values()
            )
        return False

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def _format(self, node: int) -> subprocess.Popen[bytes]:
        ports = self._ports[node]
        data = self._directory / f"data-{node}"
        voters = ",".join(f"{i}@{HOST}:{each.controller}" for i, each in self._ports.items())
        own = {"node.id": str(node), "controller.quorum.voters": voters}
        self._properties(node).write_text(server_properties(ports, data, _OF_THREE | own))
        program = ("kafka.tools.StorageTool", "format", f"--cluster-id={self._id}", "-c")
        quick = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        command = self._command((*program, self._properties(node)), quick)
        return spawn(command, self._log)

    def _command(
        self, program: tuple[str | Path, ...], options: tuple[str, ...]
    ) -> list[str | Path]:
        temporary = self._directory / "tmp"
        temporary.mkdir(exist_ok=True)
        jars = kafka_jars(kafka_version())
        return java_command(java(), jars, program, temporary=temporary, options=options)

    def _properties(self, node: int) -> Path:
        return self._directory / f"{node}.properties"

    @property
    def _log(self) -> Path:
        return self._directory / "cluster.log"
