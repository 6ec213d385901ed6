"""Settings of the local broker: one node, loopback only, small, quick to start and stop."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"

# Below the ports that systems choose for outgoing connections (from 32768 on Linux): a client must
# not get the broker's own port while the broker restarts.
_PORTS = range(20_000, 32_000)


class BrokerError(RuntimeError):
    """The broker does not start, does not answer, or ended; the message has its last log lines."""


class Ports(NamedTuple):
    """The TCP ports of one broker, all on loopback."""

    clients: int
    controller: int
    proxied: int
    proxy: int


def free_ports(*, clients: int | None = None) -> Ports:
    """Return four ports that are free now; `clients` fixes the first.

    Another process may still take one of them first: `LocalBroker.start` then chooses again.

    Raises:
        BrokerError: another process listens on `clients`.
    """
    if clients is not None and not _is_free(clients):
        raise BrokerError(f"port {clients} of {HOST} is already in use")
    chosen: list[int] = [] if clients is None else [clients]
    while len(chosen) < len(Ports._fields):
        # Random, so that two processes rarely choose the same port; it is no secret.
        port = random.choice(_PORTS)  # noqa: S311
        if port not in chosen and _is_free(port):
            chosen.append(port)
    return Ports(*chosen)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def server_properties(ports: Ports, data: Path, extra: Mapping[str, str]) -> str:
    """Return the text of server.properties; `extra` overrides any setting.

    Replication is 1 because there is one node. For speed, coordinator topics are small and a
    group starts at once. Settings that change a client's view keep Kafka's defaults.
    """
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listeners": f"CLIENTS://{HOST}:{ports.clients},PROXIED://{HOST}:{ports.proxied},"
        f"CONTROLLER://{HOST}:{ports.controller}",
        # A client of PROXIED gets the proxy's address, so it stays behind the proxy.
        "advertised.listeners": f"CLIENTS://{HOST}:{ports.clients},PROXIED://{HOST}:{ports.proxy}",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,PROXIED:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "auto.create.topics.enable": "false",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # on the heap; default 128 MiB
        # A killed broker stays registered until its session ends; a restart waits for that.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    settings.update(extra)
    return "".join(f"{name}={_escaped(value)}\n" for name, value in sorted(settings.items()))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
