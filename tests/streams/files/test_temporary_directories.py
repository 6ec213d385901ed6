"""Rows that a killed process spilled are removed by the next process that reads."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from pathlib import Path

import pytest

from streams.curator.start import make_curator
from streams.files.temporary_directories import (
    SPILL,
    remove_abandoned_directories,
    temporary_directory,
)
from streams.settings import Settings
from streams.sources.database import connected, run
from streams.sources.source_settings import CsvSource
from tests.streams.curator.curated import CuratedLedger


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def entries(directory: Path) -> list[str]:
    return [str(each) for each in directory.iterdir()]


def killed_while_it_reads() -> None:
    """Spill rows in a process, and kill it."""
    child = os.fork()
    if not child:
        try:
            with temporary_directory(SPILL) as spill:
                Path(spill, "rows").write_text("of people")
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def csv_in(directory: Path) -> CsvSource:
    (directory / "people.csv").write_text("age\n7\n")
    return CsvSource(path=str(directory / "people.csv"))


def test_a_source_is_opened_in_a_directory_of_its_own(tmp_path: Path, temporary: Path) -> None:
    killed_while_it_reads()
    (left,) = temporary.iterdir()
    with connected(csv_in(tmp_path)) as source:
        assert not left.exists()
        (spill,) = temporary.iterdir()
        assert spill.stat().st_mode & 0o777 == 0o700
        assert run(source.connection, "SELECT current_setting('temp_directory')") == [(str(spill),)]
    assert not entries(temporary)


async def test_a_start_removes_what_was_left(tmp_path: Path, temporary: Path) -> None:
    killed_while_it_reads()
    (tmp_path / "sources.json").write_text("{}")
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        assert len(entries(temporary)) == 1
        settings = Settings(data_sources=tmp_path / "sources.json")
        make_curator(ledger.service, ledger.store, settings)
        assert not entries(temporary)


def test_what_a_process_reads_with_stays(temporary: Path) -> None:
    with temporary_directory(SPILL) as spill:
        killed_while_it_reads()
        with temporary_directory(SPILL) as other:
            assert set(entries(temporary)) == {spill, other}
        remove_abandoned_directories(SPILL)
        assert entries(temporary) == [spill]


def test_only_directories_of_this_user_and_name_are_removed(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (temporary / "accountant-spill-link").symlink_to(tmp_path / "elsewhere")
    (temporary / "accountant-spill-file").touch()
    (temporary / "others").mkdir()
    remove_abandoned_directories(SPILL)
    assert len(entries(temporary)) == 3
    assert (tmp_path / "elsewhere").exists()
    killed_while_it_reads()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 4321)
        remove_abandoned_directories(SPILL)
    assert len(entries(temporary)) == 4
    remove_abandoned_directories(SPILL)
    assert len(entries(temporary)) == 3


def test_a_directory_that_is_removed_before_it_is_locked_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = list[Path]()
    lock = fcntl.flock

    def locked_too_late(fd: int, how: int) -> None:
        if not removed:
            removed.extend(temporary.iterdir())
            remove_abandoned_directories(SPILL)  # as another process does
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", locked_too_late)
    with temporary_directory(SPILL) as spill:
        assert len(removed) == 1
        assert entries(temporary) == [spill] != list(map(str, removed))
