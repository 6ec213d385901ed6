"""The `accountant` command in separate processes."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from streams.kafka.deployment import Deployment

_READY_S = 40.0


def free_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def worker_settings(deployment: Deployment, port: int, *, read_side: bool) -> dict[str, str]:
    """Return the environment of a worker or gateway of a deployment, HTTP servers at `port`."""
    return {
        "ACCOUNTANT_URL": f"kafka://{deployment.bootstrap}",
        "ACCOUNTANT_APPLICATION": deployment.application,
        "ACCOUNTANT_TOPIC_PREFIX": deployment.topics.prefix,
        "ACCOUNTANT_PARTITIONS": str(deployment.partitions),
        "ACCOUNTANT_METRICS_PORT": str(port),
        "ACCOUNTANT_PORT": str(port),
        "ACCOUNTANT_INSTANCE_ID": "bench",
        "ACCOUNTANT_READ_SIDE": str(read_side).lower(),
    }


@contextlib.contextmanager
def command(
    name: str, settings: Mapping[str, str], *, port: int, cwd: str = ".", ready: bool = True
) -> Iterator[int]:
    """Run `accountant NAME` under settings until the block ends; yield its process's number.

    Args:
        ready: begin the block once /readyz says so, else at once.
    """
    environment = {**os.environ, "ACCOUNTANT_LOG_LEVEL": "error", **settings}
    process = subprocess.Popen(
        [sys.executable, "-m", "streams.cli", name],
        env=environment,
        cwd=cwd,
        stdout=subprocess.DEVNULL,
    )
    try:
        if ready:
            _await_ready(process, port)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def processor_seconds(process: int) -> float:
    """Return the CPU time of all threads of a process (Linux only)."""
    tasks = Path(f"/proc/{process}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def _await_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the command ended with {process.returncode}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=1).status_code == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the command was not ready within {_READY_S:.0f} s")
