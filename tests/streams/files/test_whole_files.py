"""A file appears under its name as a whole, and what a killed process has left is removed."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from streams.evidence.keys import SigningKey
from streams.files.private_files import replace_private
from streams.files.whole_files import write_whole
from streams.sources.contribution_key import load_contribution_key


def names(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir()}


def killed_while_it_writes(path: Path) -> None:
    """Write half a file in a process, and kill it."""
    child = os.fork()
    if not child:
        try:
            with write_whole(path, replace=True) as file:
                file.write(b"half")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with write_whole(path) as file:
        file.write(b"old")
        assert not path.exists()
    with pytest.raises(FileExistsError), write_whole(path):
        raise AssertionError("the block does not run")
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(FileExistsError), write_whole(link):
        raise AssertionError("the block does not run")
    with suppress(ZeroDivisionError), write_whole(path, replace=True) as file:
        file.write(b"new %d" % (1 // 0))
    assert path.read_bytes() == b"old"
    with pytest.raises(FileExistsError), write_whole(tmp_path / "other") as file:
        (tmp_path / "other").write_bytes(b"faster")
    assert (tmp_path / "other").read_bytes() == b"faster"
    with write_whole(link, replace=True) as file:
        file.write(b"new")
    assert (path.read_bytes(), link.is_symlink()) == (b"new", True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == {"file", "link", "other"}


@pytest.mark.parametrize(
    "write",
    [
        lambda path: replace_private(path, b"secret"),
        lambda path: SigningKey.create(path, "census.example.org"),
        load_contribution_key,
    ],
    ids=["tokens", "key", "sources"],
)
def test_the_next_process_removes_what_a_killed_one_has_left(tmp_path: Path, write: object) -> None:
    path = tmp_path / "file"
    killed_while_it_writes(path)
    assert len(names(tmp_path)) == 1
    (tmp_path / ".others.7-0.partial").touch()
    with write_whole(tmp_path / "held") as file:  # it removes the abandoned one
        assert len(names(tmp_path)) == 2
        child = os.fork()
        if not child:  # another process, in which this directory is new
            try:
                write(path)  # type: ignore[operator]
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        file.write(b"held by this process")
    assert names(tmp_path) == {"file", "held", ".others.7-0.partial"}
