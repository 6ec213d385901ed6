"""An id issued ahead of the clock, asked for again after its decision is older than the floor."""

from __future__ import annotations

import json
from pathlib import Path

from accountant.records import decode_decision
from accountant.times import from_iso
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from streams.testing import ManualClock
from tests.streams.bodies import asking, opening
from tests.streams.processing.stage import GENESIS, START, Stage, outcomes, play

AHEAD = GENESIS.skew_ms
# One millisecond before the floor reaches the id; the floor has long passed its decision.
LATER = GENESIS.window_ms + AHEAD - 1


def test_an_id_issued_ahead_is_repeated_after_a_restart_in_memory() -> None:
    async def story() -> None:
        stage = Stage()
        stage.open()
        stage.clock.pass_(GENESIS.window_ms)
        body = asking("census", stage.clock.wall + AHEAD, stage.number())
        stage.feed("requests", body)
        await stage.settle()
        stage.clock.pass_(LATER)
        stage.ask()
        await stage.settle()
        first, last = (decode_decision(value) for value in stage.log.decisions[-2:])
        assert from_iso(first.decided_at) < from_iso(last.floor)

        stage.feed("requests", body)
        await stage.settle()
        assert outcomes(stage) == {"opened": 1, "granted": 2, "repeated": 1}

    play(story())


def test_an_id_issued_ahead_is_repeated_after_a_restart_from_a_file(file: Path) -> None:
    clock = ManualClock(START)
    body = asking("census", START + GENESIS.window_ms + AHEAD, 1)

    def ask(*bodies: bytes) -> list[str]:
        """Ask in a ledger that is opened for it, and closed; return the outcomes."""
        service = EmbeddedService.open(file, Settings(), clock=clock)
        try:
            answers = [service.submit_sync("requests", each, 10).decision for each in bodies]
        finally:
            service.close_sync()
        return [json.loads(answer or b"{}")["outcome"] for answer in answers]

    service = EmbeddedService.open(file, Settings(), clock=clock)
    service.submit_sync("admin", opening("census", START, 0), 10)
    service.close_sync()
    clock.pass_(GENESIS.window_ms)
    assert ask(body) == ["granted"]
    clock.pass_(LATER)
    assert ask(asking("census", clock.wall, 2)) == ["granted"]
    assert ask(body) == ["repeated"]
