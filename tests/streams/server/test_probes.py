"""The listener for probes: health alone, and answered whatever clients do at the other port."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from streams.auth import token_file
from streams.auth.start import make_authenticator
from streams.errors import Refused
from streams.metrics.registry import make_registry
from streams.server.connection_limits import REQUEST_S
from streams.server.probes import MAX_PROBES, Probes
from streams.service.ledger_service import Readiness
from streams.settings import Settings
from tests.patience import PATIENCE_S

STARTS = ("streams.cli",)

HALF = b"GET /datasets HTTP/1.1\r\nHost: localhost\r\nX-Half: "


def waiting() -> Readiness:
    return Readiness(ready=False, reasons=["dataset census is halted"], notes=[])


async def get_probe(probes: Probes, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http:
        return await http.get(f"http://127.0.0.1:{probes.port}{path}", headers=headers)


async def test_the_probe_port_serves_health_only() -> None:
    probes = Probes(Settings(probe_port=0), waiting, None)
    await probes.start()
    try:
        assert (await get_probe(probes, "/healthz")).json() == {"alive": True}
        ready = await get_probe(probes, "/readyz")
        assert (ready.status_code, ready.json()["reasons"]) == (503, waiting().reasons)
        for path in ("/", "/metrics", "/datasets", "/me", "/events", "/schema/openapi.json"):
            assert (await get_probe(probes, path)).status_code == 404
        assert (await get_probe(probes, "/readyz", Host="evil.example")).status_code == 421
    finally:
        await probes.stop()


async def test_probes_are_for_this_machine_unless_an_address_is_set() -> None:
    for settings in (
        Settings(probe_port=0, unauthenticated_bind="0.0.0.0"),
        Settings(probe_port=0, probe_bind="0.0.0.0"),
    ):
        probes = Probes(settings, waiting, None)
        await probes.start()
        try:
            assert probes.address == settings.probe_bind
            everywhere = settings.probe_bind == "0.0.0.0"
            status = (await get_probe(probes, "/healthz", Host="pod")).status_code
            assert status == (200 if everywhere else 421)
        finally:
            await probes.stop()


async def test_with_authentication_probes_get_only_the_ready_state(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    token_file.create(tokens, "ana", now=time.time_ns() // 1_000_000)
    settings = Settings(probe_port=0, tokens=tokens)
    probes = Probes(settings, waiting, make_authenticator(settings, make_registry(None)))
    await probes.start()
    try:
        assert (await get_probe(probes, "/readyz")).json() == {"ready": False}
    finally:
        await probes.stop()


async def test_probes_need_the_setting_and_a_free_port() -> None:
    probes = Probes(Settings(), waiting, None)
    await probes.start()
    assert probes.port is None
    await probes.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        probes = Probes(Settings(probe_port=taken.getsockname()[1]), waiting, None)
        with pytest.raises(Refused, match="ACCOUNTANT_PROBE_PORT"):
            await probes.start()


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[tuple[str, str]]:
    """Run `accountant serve` in a process that may have 1,024 files, as most have."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        probed = free.getsockname()[1]
    environment = {
        **os.environ,
        "ACCOUNTANT_URL": f"sqlite:///{directory}/ledger.db",
        "ACCOUNTANT_PROBE_PORT": str(probed),
    }
    command = f'ulimit -n 1024; exec "{sys.executable}" -m streams.cli serve --port 0'
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", command], stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    try:
        until = time.monotonic() + PATIENCE_S
        while "listening at " not in (said := (directory / "log").read_text()):
            assert time.monotonic() < until, said
            time.sleep(0.1)
        yield said.partition("listening at ")[2].split()[0], f"http://127.0.0.1:{probed}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def send_halves(stack: contextlib.ExitStack, url: str, count: int) -> None:
    """Hold so many connections whose requests never end."""
    address = httpx.URL(url)
    for _ in range(count):
        half = stack.enter_context(socket.socket())
        half.settimeout(0.2)
        with contextlib.suppress(OSError):
            half.connect((address.host, address.port))
            half.sendall(HALF)


def status(url: str) -> int:
    return httpx.get(url, trust_env=False, timeout=5).status_code


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_1500_half_sent_requests_block_neither_probes_nor_clients(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4_096:
        pytest.skip("needs 4,096 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, hard))
    try:
        with serving(tmp_path) as (url, probes), contextlib.ExitStack() as stack:
            for _ in range(5):
                send_halves(stack, url, 300)
                assert status(f"{probes}/healthz") == status(f"{probes}/readyz") == 200
            until = time.monotonic() + REQUEST_S / 2  # before the half ones end by themselves
            while True:
                with contextlib.suppress(httpx.TransportError):
                    assert status(f"{url}/datasets") == 200
                    break
                assert time.monotonic() < until
            # The listener of probes has the same bounds.
            send_halves(stack, probes, 3 * MAX_PROBES)
            assert status(f"{probes}/healthz") == 200
            assert status(f"{url}/datasets") == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    log = (tmp_path / "log").read_text()
    assert "probes_listen" in log
    assert "out of system resource" not in log
