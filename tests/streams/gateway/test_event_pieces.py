"""A client that does not read holds up one piece of its stream, and pieces are small."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from msgspec.structs import replace

from accountant.records import encode
from accountant.views.datasets import view_of_ledger
from streams.embedded.service import EmbeddedService
from streams.gateway.events.event import EVERYTHING
from streams.gateway.events.replay_buffer import ReplayBuffer
from streams.gateway.events.stream import PIECE_BYTES, EventStream, past_alerts
from streams.log.appended import Appended
from streams.settings import Settings
from tests.accountant.world import World
from tests.streams.bodies import decision
from tests.streams.clock import TestClock


def test_past_alerts_are_sent_in_small_pieces() -> None:
    world = World()
    world.open("census", epsilon="1", filter="basic", alert_at=["0.5", "0.8", "0.9"])
    world.ask("pure:0.95", dataset="census")
    view = view_of_ledger(world.state.ledgers["census"])
    views = [replace(view, dataset=f"dataset-{number:05}") for number in range(2_000)]
    pieces = list(past_alerts(views, EVERYTHING))
    assert b"".join(pieces).count(b"event: alert") == 6_000
    assert max(map(len, pieces)) < 2 * PIECE_BYTES


async def test_long_decisions_are_sent_in_small_pieces(file: Path, clock: TestClock) -> None:
    service = EmbeddedService.open(file, Settings(), clock=clock)
    ring = ReplayBuffer(service, asyncio.Event())
    try:
        await ring.ready()
        stream = EventStream(service, ring, EVERYTHING, None).pieces([])
        assert b"from now on" in await anext(stream)
        assert (await anext(stream)).startswith(b"id: ")
        long = msgspec.Raw(b'"' + b"x" * 60_000 + b'"')
        values = [encode(replace(decision(number), request=long)) for number in range(1, 101)]
        service._announced.appended.send([Appended(0, 1, values)])
        pieces: list[bytes] = []
        while b"".join(pieces).count(b"event: decision") < 100:
            pieces.append(await anext(stream))
            assert len(pieces[-1]) < 2 * PIECE_BYTES
    finally:
        ring.close()
        await service.close()
