"""The process of the local broker: its command, its watchdog, its readiness check."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streams.testing.broker_settings import HOST

# Reads a pipe that only this process holds open, so it notices any end of this process.
# PR_SET_PDEATHSIG would fire when the starting thread ends, and exists on Linux only.
_WATCHDOG = 'read -r _; kill -9 "$1" 2>/dev/null; [ -z "$2" ] || { sleep 1; rm -rf -- "$2"; }'

# Variables that would change the Java program or its class path.
_IGNORED_ENVIRONMENT = ("CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

# Loggers that write many lines for each start or partition, and few that help to explain a test.
_CHATTY = (
    "kafka.cluster.Partition",
    "kafka.log.LogManager",
    "kafka.server.KafkaConfig",
    "kafka.server.ReplicaFetcherManager",
    "kafka.server.ReplicaManager",
    "org.apache.kafka.common.config",
    "org.apache.kafka.coordinator.common.runtime",
    "org.apache.kafka.storage.internals.log",
    "state.change.logger",
)

# Log lines that name an error: an error line, the head of a stack trace, its cause.
_PROBLEM = re.compile(r"^\S+ \[.*?\] ERROR |^(?:Caused by: )?[\w.$]+(?:Exception|Error)\b")

COLLECTOR: Final = (
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""The options of Kafka's own start script, which also sets the full heap size at the start.
With a growing heap, Java marks all of it about every second: at 500 requests/s the p99 doubles."""

QUICK_COMPILER: Final = ("-XX:TieredStopAtLevel=1",)
"""For a Java program that ends before its second compiler would have paid for itself."""


def java_command(
    java: Path,
    jars: Sequence[Path],
    program: Sequence[str | Path],
    *,
    temporary: Path,
    options: Sequence[str],
) -> list[str | Path]:
    """Return the command that runs a Java program with its log on standard error.

    Args:
        java: the executable.
        jars: the class path.
        program: the main class, then its arguments.
        temporary: where native libraries unpack; the system's directory may be mounted noexec.
        options: options of the Java machine, such as -Xmx512m.
    """
    logger = "-Dorg.slf4j.simpleLogger"
    quiet = [f"{logger}.log.{name}=warn" for name in _CHATTY]
    return [
        java, *options, "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true", f"-Djava.io.tmpdir={temporary}",
        f"{logger}.defaultLogLevel=info", f"{logger}.showDateTime=true",
        f"{logger}.dateTimeFormat=HH:mm:ss.SSS", *quiet,
        "-cp", os.pathsep.join(map(str, jars)), *program,
    ]  # fmt: skip


def spawn(command: Sequence[str | Path], log: Path) -> subprocess.Popen[bytes]:
    """Start a command with its output appended to `log`.

    The command runs in its own session: a terminal's interrupt reaches only this process, which
    then shuts the command down.
    """
    environment = {k: v for k, v in os.environ.items() if k not in _IGNORED_ENVIRONMENT}
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def pause_process(pid: int) -> None:
    """Stop a child process by SIGSTOP, and return once all its threads have stopped.

    A signal only starts the stop: until the kernel reaches its last thread, a broker answers.
    """
    os.kill(pid, signal.SIGSTOP)
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def watchdog(pid: int, temporary: Path | None) -> subprocess.Popen[bytes]:
    """Start a process that kills `pid`, and removes `temporary`, once this process has ended.

    Kill the watchdog to call it off.
    """
    return subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(pid), str(temporary or "")],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def problems(log: str, *, limit: int = 12) -> str:
    """Return the first lines of a log that name an error; a shutdown adds many lines after them."""
    found = [line for line in log.split("\n") if _PROBLEM.search(line)]
    return "\n".join(found[:limit])


def answers(port: int, cluster: str) -> bool:
    """Return whether the broker of this cluster id serves clients now at this loopback port.

    It asks for Metadata v2 of no topics. A broker accepts connections early, but lists itself
    there only once the controller lets it serve. The cluster id distinguishes it from another
    process that took the port first.
    """
    request = struct.pack(">hhihi", 3, 2, 0, -1, 0)
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.settimeout(1.0)
            connection.sendall(struct.pack(">i", len(request)) + request)
            (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            answer = connection.recv(min(length, 4096), socket.MSG_WAITALL)
            (brokers,) = struct.unpack_from(">i", answer, 4)
    except (OSError, struct.error):
        return False
    return brokers == 1 and cluster.encode() in answer
