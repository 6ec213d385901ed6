"""How many were granted and refused, as tables show it: a zero only where it is one."""

from __future__ import annotations

from streams.clock import SystemClock
from tests.streams.cli.shown import counts_shown
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer


def test_without_the_opening_no_count_of_zero_is_shown(accountant):
    clock = TestClock(SystemClock().now())
    file = accountant.directory / "server.db"
    with LocalServer(file, clock) as server:
        server.open()
        assert counts_shown(accountant, ACCOUNTANT_URL=server.url) == {("0", "0")}
    with LocalServer(file, clock) as server:
        assert counts_shown(accountant, ACCOUNTANT_URL=server.url) == {("–", "–")}
        assert server.ask().json()["outcome"] == "granted"
        assert counts_shown(accountant, ACCOUNTANT_URL=server.url) == {("1", "–")}
    assert counts_shown(accountant, ACCOUNTANT_URL=f"sqlite:///{file}") == {("1", "0")}
