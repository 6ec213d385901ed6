"""A command that is answered with another's decision says so and ends as unanswered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from accountant.records import encode
from streams.settings import Settings
from tests.streams.cli.conftest import Command
from tests.streams.client.test_matching import CHANGES, MixedUp, http_stub
from tests.streams.gateway.door import TestClock, opening

COMMANDS = {
    "analyst": "ask census pure:0.01 --analyst ana",
    "claim": "ask census pure:0.01 --analyst ana",
    "by": "dataset close census --by owner --reason done",
    "reason": "member set census ana --role analyst --by owner",
}


@pytest.mark.parametrize("field", COMMANDS)
def test_a_command_takes_no_decision_on_another_request(
    accountant: Command, file: Path, field: str
) -> None:
    ledger = MixedUp.open(file, Settings())
    try:
        ledger.submit_sync("admin", encode(opening(TestClock(ledger._clock.now()))), 9)
        ledger.change = CHANGES[field]
        with http_stub(ledger) as url:
            done = accountant(*COMMANDS[field].split(), "--url", url)
    finally:
        asyncio.run(ledger.close())
    assert done.code == 3, done
    assert f"of another {field}" in done.err
    assert done.out == ""
