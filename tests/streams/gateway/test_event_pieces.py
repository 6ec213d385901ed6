"""A client that does not read holds up one piece of its stream, and pieces are small."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from accountant.records import Decision
from accountant.views.datasets import view_of_ledger
from streams.broadcast import Broadcast
from streams.gateway.events import _PIECE_BYTES, Streams, _crossed, _next
from tests.accountant.world import World
from tests.streams.bodies import decision


def test_what_was_crossed_before_comes_in_pieces() -> None:
    world = World()
    world.open("census", epsilon="1", filter="basic", alert_at=["0.5", "0.8", "0.9"])
    world.ask("pure:0.95", dataset="census")
    view = view_of_ledger(world.state.ledgers["census"])
    views = [replace(view, dataset=f"dataset-{number:05}") for number in range(2_000)]
    pieces = list(_crossed(views))
    assert b"".join(pieces).count(b"event: alert") == 6_000
    assert max(map(len, pieces)) < 2 * _PIECE_BYTES


async def test_long_decisions_come_in_pieces() -> None:
    broadcast, streams = Broadcast[Decision](), Streams()
    reader = broadcast.subscribe()
    long = msgspec.Raw(b'"' + b"x" * 60_000 + b'"')
    broadcast.send([replace(decision(number), request=long) for number in range(100)])
    pieces: list[bytes] = []
    while b"".join(pieces).count(b"event: decision") < 100:
        pieces.append(await _next(reader, streams))
        assert len(pieces[-1]) < 2 * _PIECE_BYTES
