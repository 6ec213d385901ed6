"""How many were granted and refused, as tables show it: a zero only where it is one."""

from __future__ import annotations

from streams.clock import SystemClock
from tests.streams.cli.shown import counts_shown
from tests.streams.gateway.door import Door, TestClock


def test_who_has_not_seen_the_opening_knows_of_no_zero(accountant):
    clock = TestClock(SystemClock().now())
    file = accountant.directory / "door.db"
    with Door(file, clock) as door:
        door.open()
        assert counts_shown(accountant, ACCOUNTANT_URL=door.url) == {("0", "0")}
    with Door(file, clock) as door:
        assert counts_shown(accountant, ACCOUNTANT_URL=door.url) == {("–", "–")}
        assert door.ask().json()["outcome"] == "granted"
        assert counts_shown(accountant, ACCOUNTANT_URL=door.url) == {("1", "–")}
    assert counts_shown(accountant, ACCOUNTANT_URL=f"sqlite:///{file}") == {("1", "0")}
