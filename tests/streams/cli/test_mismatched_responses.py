"""A command that is answered with another's decision, or about another dataset, says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from accountant.records import encode
from streams.clock import SystemClock
from streams.settings import Settings
from tests.streams.cli.conftest import Command
from tests.streams.client.requests.test_mismatched_responses import behind_a_proxy, instead
from tests.streams.client.requests.test_response_matcher import CHANGES, MixedUp, http_stub
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening

COMMANDS = {
    "analyst": "ask census pure:0.01 --analyst ana",
    "claim": "ask census pure:0.01 --analyst ana",
    "by": "dataset close census --yes --by owner --reason done",
    "reason": "member set census ana --role analyst --by owner",
}

READS = [
    "dataset show census",
    "dataset show census --json",
    "ask census pure:0.01 --analyst ana --dry-run",
    "ask census pure:0.01 --analyst ana --dry-run --json",
    "usage census",
    "usage census --by purpose",
    "why census",
    "member list census",
    "limit list census",
    "mine --analyst ana",
    "fits --dataset census --claim pure:0.01",
]


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
    assert f"with another {field}" in done.err
    assert done.out == ""


def test_a_command_takes_no_answer_about_another_dataset(accountant: Command, file: Path) -> None:
    with behind_a_proxy(file, SystemClock()) as proxy:
        for read in READS:
            words = [*read.split(), "--url", proxy.url]
            proxy.route = instead("census", "census")
            assert accountant(*words).code in {0, 6}, read
            for other in ("survey", "nowhere"):
                proxy.route = instead("census", other)
                done = accountant(*words)
                assert done.code == 4, (read, done)
                assert "a proxy or a cache may mix up responses" in done.err
                assert done.out == ""
