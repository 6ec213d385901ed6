"""A server, and the commands that find it."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from tests.every_case import every_case
from tests.patience import PATIENCE_S
from tests.streams.cli.authenticated_server import authenticated_server
from tests.streams.cli.conftest import environment

STARTS = ()


@contextlib.contextmanager
def serving(command, **settings: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = command.start("serve", "--port", "0", env=environment(**settings))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening at http://127.0.0.1:"), line + process.communicate()[1]
        yield line.split()[-1], process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_commands_with_the_files_address_find_the_server(accountant):
    with serving(accountant) as (address, process):
        opened = accountant("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6")
        assert opened.code == 0, opened.err
        for url in ("sqlite:///accountant.db", address):
            granted = accountant("ask", "census", "pure:0.05", "--analyst", "ana", "--url", url)
            assert granted.code == 0, granted.err
            shown = accountant("dataset", "show", "census", "--url", url, "--json")
            assert shown.code == 0, shown.err
            watched = accountant("watch", "--once", "--url", url)
            assert "census" in watched.out
        page = httpx.get(address, headers={"accept": "text/html"}, timeout=PATIENCE_S)
        assert page.headers["content-type"].startswith("text/html")
        assert "census" in page.text
        assert shown.json["totals"]["mechanisms"] == 2
        assert accountant("audit").code == 0
        export = accountant("log", "export", "--url", address)
        assert export.code == 2
        assert "sqlite:///" in export.err
        second = accountant("serve", "--port", "0")
        assert second.code == 4
        assert str(process.pid) in second.err
        assert address in second.err
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert accountant("ask", "census", "pure:0.05", "--analyst", "ana").code == 0


def test_the_demo_runs_through_a_server_on_datasets_of_its_own(accountant):
    with serving(accountant) as (address, _):
        for _ in range(2):
            done = accountant("demo", "--url", address, "--requests", "60", "--json")
            assert done.code == 0, done.err
            assert (done.json["requests"], done.json["audit"]) == (60, "skipped")
        assert accountant("audit").code == 0
        assert len(accountant("dataset", "list", "--json").rows) == 6


@every_case(
    "arguments",
    [
        ("serve", "--url", "kafka://127.0.0.1:9"),
        ("serve", "--port", "99999"),
        ("gateway", "--url", "sqlite:///accountant.db"),
        ("worker", "--url", "http://127.0.0.1:9"),
        ("topics", "create", "--url", "sqlite:///accountant.db"),
        ("topics", "check"),
        ("gateway",),
        ("worker",),
    ],
)
def test_serve_refuses_an_unsuitable_url_with_an_error(accountant, arguments):
    done = accountant(*arguments)
    assert done.code in {2, 4}
    assert done.err


def test_a_setting_that_the_file_was_not_made_with_is_a_refused_start(opened):
    done = opened("serve", "--port", "0", ACCOUNTANT_WINDOW_MS="61000")
    assert done.code == 4
    assert "ACCOUNTANT_WINDOW_MS=3600000" in done.err


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    ids=["no HTTP", "another protocol"],
)
def test_unauthenticated_callers_do_not_fill_the_log(accountant, sent):
    with authenticated_server(accountant) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        for _ in range(50):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(sent)
                connection.recv(400)
    assert len(server.log.splitlines()) <= 10
    assert "uvicorn.error" in server.log
