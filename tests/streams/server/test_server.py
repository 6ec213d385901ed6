from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from streams.embedded.file_lock import FileLock
from streams.errors import Refused
from streams.serve import serve, serve_kafka
from streams.server.gateway_server import address_of, bind
from streams.settings import Settings
from tests.patience import PATIENCE_S

STARTS = ()


def test_a_server_listens_on_127_0_0_1_by_default() -> None:
    with bind(Settings(port=0)) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"
        assert address_of(bound) == f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_the_listening_socket_disables_nagles_algorithm() -> None:
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP.
    with bind(Settings(port=0)) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_a_port_in_use_refuses_the_start() -> None:
    with bind(Settings(port=0)) as bound:
        bound.listen()
        with pytest.raises(Refused, match="ACCOUNTANT_PORT") as refused:
            bind(Settings(port=bound.getsockname()[1]))
        assert "--port" in str(refused.value)


def test_each_serve_command_needs_its_own_kind_of_url() -> None:
    with pytest.raises(Refused, match="ledger in a file"):
        serve(Settings(url="http://127.0.0.1:1"))
    with pytest.raises(Refused, match="kafka://"):
        serve_kafka(Settings())


_SERVE = """
import sys
from streams.telemetry import logs
from streams.serve import serve
from streams.settings import load
settings = load(url="sqlite:///" + sys.argv[1], port=0)
logs.configure(settings)
serve(settings, listening=lambda url: print(url, flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_and_releases_the_lock(
    file: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
        owner = FileLock(file).owner()
        assert owner is not None
        assert (owner.pid, owner.address) == (process.pid, url)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert "authentication_is_off" in said
    assert "bound_to=127.0.0.1" in said
    assert FileLock(file).owner() is None
