"""A webhook and a sink that hang delay no decision, no checkpoint and no index."""

from __future__ import annotations

from pathlib import Path

from streams.embedded.service import EmbeddedService
from streams.settings import load
from tests.streams.embedded import ledger_files
from tests.streams.embedded.ledger_files import ask
from tests.streams.evidence.sinks.kinds import deaf
from tests.streams.waiting import eventually


def test_tasks_that_hang_delay_no_other(tmp_path: Path, checkpoint_directory: Path) -> None:
    file = tmp_path / "ledger.db"
    with ledger_files.serving(file) as service:
        ask(service, *range(1, 6))
    with deaf() as port:
        settings = load(
            alert_webhook=f"http://127.0.0.1:{port}/hook",
            checkpoint_places=f"http://127.0.0.1:{port}/notes",
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
        service.close_sync()  # returns, though both still hang
