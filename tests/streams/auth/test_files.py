"""Who may use the files of a ledger: on a shared machine others can read what they are let to."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.client.connection.connect import connect_file_or_server
from streams.client.http.service import HttpService
from streams.clock import SystemClock
from streams.embedded.file_lock import FileLock
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.streams.auth.roles_server import RolesServer
from tests.streams.clock import TestClock
from tests.streams.waiting import eventually


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The usual one, by which others may read what is made."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def usable_by_others(directory: Path, *more: str) -> set[str]:
    """Return the names of the ledger's files that others may use; all of `more` must be there."""
    found = {each.name: each.stat().st_mode for each in directory.glob("ledger.db*")}
    assert found.keys() >= {f"ledger.db{end}" for end in more}
    return {name for name, mode in found.items() if stat.S_IMODE(mode) & 0o077}


ALL = ("", "-wal", "-shm", ".lock", ".index", ".index-wal", ".index-shm")


@pytest.mark.parametrize("before", [None, 0o644])
def test_other_users_cannot_open_the_lock_file(tmp_path: Path, before: int | None) -> None:
    beside = tmp_path / "ledger.db.lock"
    if before is not None:  # of an earlier version
        beside.touch(before)
    lock = FileLock(tmp_path / "ledger.db")
    lock.take()
    assert usable_by_others(tmp_path) == set()
    lock.release()


def test_a_process_that_locks_a_stopped_ledger_receives_no_token(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    settings = Settings(url=f"sqlite:///{path}", token="acct_administrators")
    service = EmbeddedService.open(path, settings)
    service.publish_address("http://127.0.0.1:18999")
    service.close_sync()
    # What the server left behind says no address any more, whoever holds the lock.
    with path.with_name("ledger.db.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = FileLock(path).owner()
        assert owner is None or owner.address is None
    found = connect_file_or_server(settings, SystemClock())
    assert not isinstance(found, HttpService)
    assert isinstance(found, EmbeddedService)
    found.close_sync()


def server_with_every_file(directory: Path) -> RolesServer:
    """Return a server before a ledger of which every kind of file is there."""
    (directory / "tokens.json").unlink(missing_ok=True)
    server = RolesServer(directory)
    if "census" not in {each["dataset"] for each in server.see("root", "/datasets").json()}:
        server.open_for_olga("census", access="members")
        server.enrol("census", "ana", "analyst")
        server.granted("census", "ana")
    eventually(lambda: server.see("root", "/datasets/census/usage").status_code == 200)
    return server


def test_with_authentication_ledger_files_are_private(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.umask(0)
    with server_with_every_file(tmp_path):
        assert usable_by_others(tmp_path, *ALL) == set()
    with server_with_every_file(tmp_path):
        assert usable_by_others(tmp_path, *ALL) == set()
    assert "files_open_to_others" not in caplog.text


def test_readable_older_files_are_logged_once_until_chmod_600(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    EmbeddedService.open(tmp_path / "ledger.db", Settings(), clock=TestClock()).close_sync()
    before = {"ledger.db", "ledger.db.index"}
    (tmp_path / "ledger.db.index").touch(0o644)
    assert usable_by_others(tmp_path) == before
    with server_with_every_file(tmp_path):
        (result,) = [each for each in caplog.messages if "files_open_to_others" in each]
        assert all(str(tmp_path / name) in result for name in before)
        open_now = usable_by_others(tmp_path)
        assert open_now >= before
        for name in open_now:
            (tmp_path / name).chmod(0o600)
        assert usable_by_others(tmp_path, *ALL) == set()
    caplog.clear()
    with server_with_every_file(tmp_path):
        assert usable_by_others(tmp_path, *ALL) == set()
    assert "files_open_to_others" not in caplog.text


def test_a_rebuilt_index_stays_private(tmp_path: Path) -> None:
    with server_with_every_file(tmp_path):
        pass
    index = tmp_path / "ledger.db.index"
    index.write_bytes(index.read_bytes()[:200])
    os.truncate(index, 5_000)
    with server_with_every_file(tmp_path):
        assert usable_by_others(tmp_path) == set()
        assert index.stat().st_size != 5_000


def test_without_authentication_ledger_files_follow_the_umask(tmp_path: Path) -> None:
    service = EmbeddedService.open(tmp_path / "ledger.db", Settings())
    assert usable_by_others(tmp_path, "") >= {"ledger.db"}
    service.close_sync()
