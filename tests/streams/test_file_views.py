"""A ledger's file and its door show the same."""

from __future__ import annotations

from pathlib import Path

import msgspec

from accountant.views import DatasetView
from streams.cli.views import open_views
from tests.streams.door import Door, closing, request


def test_a_file_shows_what_its_door_shows(door: Door, file: Path) -> None:
    with open_views(f"sqlite:///{file}") as views:
        for _ in range(2):
            once = request(door.clock)
            for body in (once, once, {**once, "purpose": "another"}):
                door.post("/requests", body)
            door.ask(claim={"type": "pure", "epsilon": "3"})
            door.ask(unit="household")
            door.ask(dataset="nowhere")
            shown = msgspec.json.decode(door.http.get("/datasets").content, type=list[DatasetView])
            assert views.read() == shown
        door.post("/datasets/census/close", closing(door.clock))
        door.ask()
        shown = msgspec.json.decode(door.http.get("/datasets").content, type=list[DatasetView])
        assert views.read() == shown
        assert shown[0].reasons["exhausted"] == 2
