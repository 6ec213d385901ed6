"""Who may use the files of a ledger: on a shared machine others can read what they are let to."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.client.connect import connect_here
from streams.client.http import HttpService
from streams.embedded.file_lock import FileLock
from streams.embedded.service import EmbeddedService
from streams.settings import Settings


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The usual one, by which others may read what is made."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def usable_by_others(directory: Path) -> list[str]:
    """Return the names of the ledger's files that others may use."""
    return sorted(
        each.name
        for each in directory.glob("ledger.db*")
        if stat.S_IMODE(each.stat().st_mode) & 0o077
    )


@pytest.mark.parametrize("before", [None, 0o644])
def test_others_cannot_open_the_lock_of_a_ledger(tmp_path: Path, before: int | None) -> None:
    beside = tmp_path / "ledger.db.lock"
    if before is not None:  # of an earlier version
        beside.touch(before)
    lock = FileLock(tmp_path / "ledger.db")
    lock.take()
    assert usable_by_others(tmp_path) == []
    lock.release()


def test_whoever_locks_a_stopped_ledger_is_sent_no_token(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    settings = Settings(url=f"sqlite:///{path}", token="acct_administrators")
    service = EmbeddedService.open(path, settings)
    service.publish_address("http://127.0.0.1:18999")
    service.close_sync()
    # What the door left behind says no address any more, whoever holds the lock.
    with path.with_name("ledger.db.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = FileLock(path).owner()
        assert owner is None or owner.address is None
    found = connect_here(settings, None)
    assert not isinstance(found, HttpService)
    assert isinstance(found, EmbeddedService)
    found.close_sync()
