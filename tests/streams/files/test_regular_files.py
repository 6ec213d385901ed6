"""A pipe in a file's place is refused at once: nobody may ever write to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.files.regular_files import NotRegular, open_regular


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path, Path(os.devnull)):
        with pytest.raises(NotRegular, match="it is no regular file"):
            open_regular(path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")


def test_a_link_is_followed_unless_none_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"12"
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "link", follow_links=False)
