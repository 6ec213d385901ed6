"""What commands say where the clock of who decides cannot be trusted."""

from __future__ import annotations

import msgspec
import pytest

from streams.clock import SystemClock
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import opening
from tests.streams.waiting import eventually

ID = "01977f3a-5c00-7000-8000-000000000001"
ASK = ("ask", "census", "pure:0.01", "--analyst", "ana", "--id", ID, "--wait", "0")
OPEN = ("dataset", "open", "other", "--epsilon", "1", "--delta", "1e-6", "--id", ID, "--wait", "0")
CHECK = "correct the clock of the machine that runs the ledger, for example with NTP"
COMMANDS = [
    (ASK, f"{CHECK}; then run the same command with --id {ID}; it is never charged twice"),
    (OPEN, f"{CHECK}; then run the same command with --id {ID}; it is decided once"),
]


@pytest.mark.parametrize(("command", "hint"), COMMANDS)
def test_a_clock_behind_the_file_is_an_operators_matter(accountant, command, hint):
    ahead = TestClock(SystemClock().now() + 4_000_000)
    service = EmbeddedService.open(accountant.directory / "accountant.db", Settings(), clock=ahead)
    service.submit_sync("admin", msgspec.json.encode(opening(ahead)), 10)
    service.close_sync()
    done = accountant(*command)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error: clock_out_of_range: the clock is ")
    assert (
        "behind the last decision. Set it. If it is right, an earlier clock was ahead" in done.err
    )
    assert f"try:   {hint}\n" in done.err
    assert accountant("dataset", "list").code == 0  # to look takes no clock


@pytest.mark.parametrize(("command", "hint"), COMMANDS)
def test_a_server_whose_clock_jumped_is_an_operators_matter(accountant, command, hint):
    clock = TestClock(SystemClock().now())
    with LocalServer(accountant.directory / "server.db", clock) as server:
        server.open()
        clock.jump(seconds=400)
        eventually(lambda: server.http.get("/readyz").status_code == 503)
        done = accountant(*command, "--url", server.url)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("error: clock_out_of_range: the clock jumped by 400 s. Set it back")
    assert f"try:   {hint}\n" in done.err
