"""Files of SQLite are read beside their writers, and nothing is left beside them."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from streams.files.immutable_sqlite import open_shared


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in WAL mode that nobody has open."""
    path = tmp_path / "file.db"
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("journal_mode", "wal")
        db.execute("CREATE TABLE numbers (number); INSERT INTO numbers VALUES (1)")
    return path


def numbers(db: apsw.Connection) -> list[int]:
    return [each[0] for each in db.execute("SELECT number FROM numbers")]


def test_a_reading_leaves_nothing_beside_a_closed_file(file: Path) -> None:
    before, at = file.read_bytes(), file.stat().st_mtime_ns
    with closing(open_shared(file)) as db:
        assert numbers(db) == [1]
        with pytest.raises(apsw.ReadOnlyError):
            db.execute("INSERT INTO numbers VALUES (2)")
    assert [*file.parent.iterdir()] == [file]
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, at)


def test_a_reading_sees_what_is_written_meanwhile_and_loses_none_of_it(file: Path) -> None:
    with closing(open_shared(file)) as db:
        with closing(apsw.Connection(str(file))) as writer:
            writer.execute("INSERT INTO numbers VALUES (2)")
            assert numbers(db) == [1, 2]
        assert numbers(db) == [1, 2]
    assert [*file.parent.iterdir()] == [file]
    with closing(open_shared(file)) as db:
        assert numbers(db) == [1, 2]


def test_what_a_killed_process_has_left_stays_as_it_is(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "killed" / file.name
    copy.parent.mkdir()
    with closing(apsw.Connection(str(file))) as writer:
        writer.execute("INSERT INTO numbers VALUES (2)")
        for name in (file.name, f"{file.name}-wal"):
            shutil.copy(tmp_path / name, copy.with_name(name))
    wal = copy.with_name(f"{copy.name}-wal")
    before = copy.read_bytes(), wal.read_bytes()
    with closing(open_shared(copy)) as db:
        assert numbers(db) == [1, 2]
    assert wal.exists()
    assert (copy.read_bytes(), wal.read_bytes()) == before
