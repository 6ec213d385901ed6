"""What versions before the first release wrote is refused: by name, and without a byte written."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from accountant.errors import MadeByPrereleaseVersion
from accountant.records import Genesis, decode_decision
from accountant.replay.audit import audit
from accountant.replay.replay import Replay
from streams.client import Accountant
from streams.embedded import ledger_file
from streams.embedded.file_ownership import stopped_ledger
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.settings import Settings
from tests.before.fixtures import ARCHIVE, LEDGERS, REFUSED, directory_contents, topics
from tests.before.fixtures import HERE as FIXTURES
from tests.streams.processing.stage import Stage, play

OPENS = ("tests/before/*",)


def _open(file: Path) -> None:
    EmbeddedService.open(file, Settings()).close_sync()


def _ask(file: Path) -> None:
    with Accountant(f"sqlite:///{file}", analyst="ana") as ledger:
        ledger.ask("census", "pure:0.1")


def _read(file: Path) -> None:
    list(ledger_file.read_decisions(file))


def _own(file: Path) -> None:
    with stopped_ledger(file, Settings(), 1_800_000_000_000):
        pass


@pytest.mark.parametrize("start", [_open, _ask, _read, _own])
@pytest.mark.parametrize("name", LEDGERS)
def test_no_start_takes_an_old_file(
    name: str, start: Callable[[Path], None], tmp_path: Path
) -> None:
    file = tmp_path / "ledger.db"
    shutil.copy2(FIXTURES / f"{name}.sqlite", file)
    before = directory_contents(tmp_path)
    with pytest.raises(Refused, match=REFUSED) as refused:
        start(file)
    assert str(file) in str(refused.value)
    assert "Start a new ledger in another place" in str(refused.value)
    assert directory_contents(tmp_path) == before


def test_an_old_archive_is_no_log_and_none_of_its_records_is_read() -> None:
    archived = gzip.decompress(ARCHIVE.read_bytes()).splitlines()
    with pytest.raises(MadeByPrereleaseVersion, match=REFUSED):
        audit(archived)
    for value in archived:
        with pytest.raises(MadeByPrereleaseVersion, match=REFUSED):
            decode_decision(value)


def test_old_topics_stop_a_refold_at_the_first_record() -> None:
    decisions, rows = topics()
    genesis = Genesis("embedded", 0, 1, 3_600_000, 300_000)
    for key, value in rows:
        with pytest.raises(MadeByPrereleaseVersion, match=REFUSED):
            Replay(genesis).take_row(key, value)
    for value in decisions:
        with pytest.raises(MadeByPrereleaseVersion, match=REFUSED):
            Replay(genesis).take_decision(value)


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_worker_halts_at_topics_of_a_prerelease_and_decides_nothing(with_rows: bool) -> None:
    async def story() -> None:
        stage = Stage()
        decisions, rows = topics()
        stage.log.decisions[:] = decisions
        stage.log.state[:] = rows if with_rows else []
        stage.open()
        stage.ask(3)
        task, observer = stage.start()
        await observer.until(lambda: observer.halt is not None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert isinstance(observer.halt, MadeByPrereleaseVersion)
        assert stage.log.decisions == decisions
        assert stage.log.state == (rows if with_rows else [])
        assert not stage.log.dead_letters

    play(story())
