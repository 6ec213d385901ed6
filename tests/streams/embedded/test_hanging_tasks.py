"""A webhook and a directory that hang delay no decision, no checkpoint and no index."""

from __future__ import annotations

import os
from pathlib import Path

from accountant.partition import hash_of
from streams.embedded.checkpointing import ledger_id
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.evidence.store import Directory
from streams.settings import load
from tests.streams.embedded import ledger_files
from tests.streams.embedded.ledger_files import ask
from tests.streams.evidence.sinks.kinds import deaf
from tests.streams.waiting import eventually


def hanging(place: Path, file: Path) -> Path:
    """Return a pipe that nobody reads: the directory hangs at the checkpoint of the log's end."""
    *before, last = read_decisions(file)
    folder = place / ledger_id(file).replace(":", "-") / "0"
    folder.mkdir(parents=True)
    head = hash_of(last).removeprefix("sha256:")[:16]
    os.mkfifo(pipe := folder / f".0-{len(before):019d}-{head}.{os.getpid()}")
    return pipe


def test_tasks_that_hang_delay_no_other(tmp_path: Path, checkpoint_directory: Path) -> None:
    file, place = tmp_path / "ledger.db", tmp_path / "place"
    with ledger_files.serving(file) as service:
        ask(service, *range(1, 6))
    pipe = hanging(place, file)
    with deaf() as port:
        settings = load(
            alert_webhook=f"http://127.0.0.1:{port}/hook",
            checkpoint_places=str(place),
            checkpoint_places_seconds=1,
        )
        service = EmbeddedService.open(file, settings)
        eventually(service.alert_counts.waiting["webhook"])
        eventually(lambda: service.newest_checkpoint(0))
        for number in range(6, 10):
            before = service.newest_checkpoint(0)
            ask(service, number)
            eventually(lambda: service.newest_checkpoint(0) != before)  # noqa: B023
            rows = service._usage.rows("census", "analyst", service._partition().sequence)
            assert sum(row.granted for row in rows) == number
        assert service.alert_counts.of("webhook", "failed") == 0, "the first try hangs"
        assert [note for _, note in Directory(place).notes()] == []
        assert pipe.exists()
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # now it goes on
        service.close_sync()
        os.close(reading)
