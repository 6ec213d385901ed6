"""A file is read where nothing may be written; a newer program's file is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from streams.client import Accountant, Refused
from streams.embedded import ledger_file
from streams.files.immutable_sqlite import file_stamp

STARTS = ()

ONE = {"filter": "basic", "epsilon": "1"}

# Imports everything first: the other user may not even read the program.
_AS_ANOTHER = """
import os, sys
import streams.cli, streams.cli.audit, streams.cli.dataset, streams.cli.log, streams.cli.watch
from streams.cli.root import app
from typer.testing import CliRunner
runner = CliRunner()
for command in (["audit"], ["dataset", "list"], ["log", "export"], ["watch", "--once"]):
    runner.invoke(app, [*command, "--url", sys.argv[3]])  # imports what commands import late
os.chmod(sys.argv[1], 0o555)
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
for command in (["audit"], ["dataset", "list"], ["dataset", "show", "census"], ["log", "export"],
                ["watch", "--once"]):
    done = runner.invoke(app, [*command, "--url", sys.argv[2]])
    print(*command, done.exit_code, done.output.replace(chr(10), " "))
"""


def create_ledger(file: Path) -> None:
    with Accountant(f"sqlite:///{file}", analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        assert ledger.ask("census", "pure:0.1").granted


def read_as_another(directory: Path, file: Path, like: Path) -> list[str]:
    """Return what each command says of a file that another user reads.

    Args:
        like: any ledger's file, to be read by this user before.
    """
    urls = f"sqlite:///{file}", f"sqlite:///{like}"
    command = [sys.executable, "-c", _AS_ANOTHER, str(directory), *urls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    directory.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5
    return done.stdout.splitlines()


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A directory that everybody may read, up to the root."""
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_mode & 0o005 != 0o005 and each.name.startswith(
            ("pytest", "test", "popen")
        ):
            each.chmod(0o755)
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    return shelf


def test_a_copy_in_a_read_only_directory_can_be_audited_and_read(
    shelf: Path, tmp_path: Path
) -> None:
    create_ledger(like := tmp_path / "like.db")
    file = shelf / "a copy?#%.db"
    file.write_bytes(like.read_bytes())
    file.chmod(0o444)
    for line in read_as_another(shelf, file, like):
        assert " 0 " in line, line
    assert [path.name for path in shelf.iterdir()] == [file.name]


def test_a_copy_that_lacks_a_part_is_refused(shelf: Path, tmp_path: Path) -> None:
    create_ledger(like := tmp_path / "like.db")
    file = shelf / "ledger.db"
    file.write_bytes(like.read_bytes())
    file.with_name("ledger.db-wal").write_bytes(b"x" * 40)  # and no -shm to read it by
    for line in read_as_another(shelf, file, like):
        assert " 4 " in line, line
        assert "cannot be opened" in line


def test_a_change_of_a_file_shows_in_its_stillness(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    create_ledger(file)
    before = file_stamp(file)
    made_more = Accountant(f"sqlite:///{file}", analyst="ana")
    made_more.ask("census", "pure:0.1")
    assert file_stamp(file) is None  # a -wal holds a part
    made_more.close()
    assert file_stamp(file) not in (None, before)


def test_a_file_of_a_newer_program_is_refused_with_a_message(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    create_ledger(file)
    with apsw.Connection(str(file)) as db:
        db.pragma("user_version", ledger_file.FORMAT + 1)
    with pytest.raises(Refused, match="run the newer version"):
        Accountant(f"sqlite:///{file}")
    with pytest.raises(Refused, match="run the newer version"), ledger_file.reader(file):
        pass
