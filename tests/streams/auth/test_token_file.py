"""The file of tokens: whole at every moment, whoever changes it."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from accountant.errors import RequestInvalid
from streams.auth import token_file
from streams.auth.token_file import Row, create, read, revoke
from streams.errors import Refused
from streams.files.private_files import lock_against_writers

NOW = 1_795_262_400_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_concurrent_commands_lose_no_token_and_readers_see_whole_files(file: Path) -> None:
    create(file, "first", now=NOW)
    stop = threading.Event()
    lengths = list[int]()

    def look() -> None:
        while not stop.is_set():
            lengths.append(len(read(file)[0]))

    def make(worker: int) -> None:
        for number in range(15):
            create(file, f"a{worker}.{number}", now=NOW)
            revoke(file, f"a{worker}.{number}", now=NOW)

    looking = threading.Thread(target=look)
    making = [threading.Thread(target=make, args=(worker,)) for worker in range(4)]
    for thread in (looking, *making):
        thread.start()
    for thread in making:
        thread.join()
    stop.set()
    looking.join()
    rows, _ = read(file)
    assert len(rows) == 61
    assert [row.name for row in rows if row.revoked is None] == ["first"]
    assert lengths == sorted(lengths)
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, f"{file.name}.lock"]


def test_a_failed_write_leaves_the_token_file_unchanged(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(file, "ana", now=NOW)
    before = file.read_bytes()

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="the disk is full"):
        create(file, "ben", now=NOW)
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, f"{file.name}.lock"]


def test_writing_through_a_symbolic_link_keeps_the_link(file: Path, tmp_path: Path) -> None:
    create(file, "ana", now=NOW)
    link = tmp_path / "link.json"
    link.symlink_to(file)
    create(link, "ben", now=NOW)
    assert link.is_symlink()
    assert [row.name for row in read(file)[0]] == ["ana", "ben"]


def test_a_symbolic_link_to_the_token_file_shares_its_lock(file: Path, tmp_path: Path) -> None:
    create(file, "ana", now=NOW)
    link = tmp_path / "link.json"
    link.symlink_to(file)
    with lock_against_writers(link):
        lock = os.open(file.with_name(f"{file.name}.lock"), os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(lock)
    assert not link.with_name(f"{link.name}.lock").exists()
    # Both ways at once lose no revocation.
    threads = [
        threading.Thread(target=create, args=(path, f"a{number}"), kwargs={"now": NOW})
        for number, path in enumerate([file, link] * 10)
    ]
    threads.append(threading.Thread(target=revoke, args=(file, "ana"), kwargs={"now": NOW}))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows, _ = read(link)
    assert len(rows) == 21
    assert [row.name for row in rows if row.revoked is not None] == ["ana"]


def test_an_expired_token_can_be_revoked(file: Path) -> None:
    create(file, "eve", now=NOW, expires=NOW + 1)
    # The clock of a server may be behind that of whoever revokes.
    (row,) = revoke(file, "eve", now=NOW + 2)
    assert row.state(NOW) == "revoked"
    assert revoke(file, "eve", now=NOW + 3) == []


def test_a_write_keeps_the_owner_and_mode_of_the_token_file(file: Path) -> None:
    create(file, "ana", now=NOW)
    owner = (65_534, 65_534) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)  # which only root may do for another
    create(file, "ben", now=NOW)
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (*owner, 0o600)


def test_a_token_is_active_only_before_its_expiry(file: Path) -> None:
    row = create(file, "ana", now=NOW, expires=NOW + 1).row
    assert [row.state(NOW), row.state(NOW + 1)] == ["active", "expired"]
    assert create(file, "ana", now=NOW + 1).row.state(NOW + 1) == "active"  # the first has ended


@pytest.mark.parametrize("name", ["", "a b", "a\n", "é", "a" * 101, "-a"])
def test_a_token_needs_a_valid_name(file: Path, name: str) -> None:
    with pytest.raises(RequestInvalid):
        create(file, name, now=NOW)
    assert not file.exists()


def test_the_token_file_has_a_maximum_number_of_tokens(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_file, "MOST_TOKENS", 2)
    for name in ("ana", "ben"):
        create(file, name, now=NOW)
    with pytest.raises(Refused, match="the limit"):
        create(file, "eve", now=NOW)


def test_tokens_are_unique_and_never_written_to_the_file(file: Path) -> None:
    made = [create(file, "ana", now=NOW, another=True) for _ in range(50)]
    assert len({each.token for each in made}) == len({each.row.id for each in made}) == 50
    content = file.read_text()
    assert not [each for each in made if each.token in content]


def test_an_invalid_row_of_the_token_file_is_refused() -> None:
    good = {"id": "t-0123456789ab", "name": "ana", "sha256": "0" * 64}
    Row(**good, created="2026-11-21T12:00:00.000Z")
    for wrong in ({"created": "today"}, {"id": "x"}, {"name": " "}, {"sha256": "0" * 63}):
        with pytest.raises(ValueError):  # noqa: PT011 (the reader names the file instead)
            Row(**{**good, "created": "2026-11-21T12:00:00.000Z", **wrong})
