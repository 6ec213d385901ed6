"""A private file is read only as its user alone may read it, and replaced as a whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from streams.errors import Refused
from streams.files.private_files import read_private, replace_private


def read(path: Path, *, own_only: bool = False) -> bytes:
    return read_private(
        path, 4, what="the file of secrets", then="replace it", own_only=own_only
    ).content


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "secret"
    replace_private(made, b"12345")
    return made


def test_a_private_file_is_read_up_to_its_limit(file: Path) -> None:
    assert read(file) == b"1234"
    assert read(file, own_only=True) == b"1234"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601])
def test_a_file_that_others_may_access_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(Refused, match=f"Run `chmod 600 {file}` and replace it"):
        read(file)


def test_a_file_that_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, tmp_path):
        with pytest.raises(Refused, match="is not a regular file: name the file of secrets"):
            read(path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing")


def test_only_a_file_of_ones_own_may_not_be_a_link(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read(link) == b"1234"
    with pytest.raises(Refused, match=f"{link} is a symbolic link. Remove it, and replace it"):
        read(link, own_only=True)


def test_only_a_file_of_ones_own_may_not_belong_to_another_user(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert read(file) == b"1234"
    with pytest.raises(Refused, match="belongs to another user"):
        read(file, own_only=True)


def test_a_replaced_file_is_private_whatever_the_umask(file: Path) -> None:
    before = os.umask(0)
    try:
        replace_private(file, b"new")
    finally:
        os.umask(before)
    assert read(file) == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == [file.name]
