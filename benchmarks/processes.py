"""The command in processes of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import httpx

_READY_S = 40.0


def free_port() -> int:
    """Return a TCP port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def command(name: str, settings: Mapping[str, str], *, port: int, cwd: str = ".") -> Iterator[None]:
    """Run `accountant NAME` under settings until the block ends; begins once it is ready."""
    environment = {**os.environ, "ACCOUNTANT_LOG_LEVEL": "error", **settings}
    process = subprocess.Popen(
        [sys.executable, "-m", "streams.cli", name],
        env=environment,
        cwd=cwd,
        stdout=subprocess.DEVNULL,
    )
    try:
        _await_ready(process, port)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
