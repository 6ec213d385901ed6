"""The note in a lock file: it names the process that holds the lock, and nothing depends on it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from streams.client import Accountant
from streams.embedded.file_lock import FileInUse, FileLock
from streams.errors import Refused
from streams.files.lock_holder import (
    LockHolder,
    command_name,
    read_holder,
    this_process,
    write_holder,
)
from streams.index.index_lock import IndexInUse, IndexLock
from tests.patience import PATIENCE_S

STARTS = ()

# The URL is an argument, as a token might be: the note must not repeat it.
HOLDER: Final = """
import sys
from streams.client import Accountant
with Accountant(sys.argv[1]) as ledger:
    ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
    print("open", flush=True)
    sys.stdin.read()
"""
AT: Final = 1_790_000_000_000


@contextlib.contextmanager
def held_by_script(directory: Path, url: str) -> Iterator[int]:
    """Have a script of another process open a ledger; yield the process's number."""
    script = directory / "night_batch.py"
    script.write_text(HOLDER)
    command = [sys.executable, str(script), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        try:
            yield other.pid
        finally:
            other.stdin.close()
            other.wait(PATIENCE_S)


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in directory.glob("ledger.db*")}


def test_a_locked_file_names_itself_its_process_and_the_way_to_share_it(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with held_by_script(tmp_path, f"sqlite:///{file}") as pid:
        with pytest.raises(FileInUse) as refused:
            Accountant(f"sqlite:///{file}", wait=0)
        message = str(refused.value)
        assert f"process {pid} (python night_batch.py) has {file} open since 20" in message
        assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d UTC\. End it first\.", message)
        assert f"`accountant serve --url sqlite:///{file}`" in message


def test_the_message_changes_no_byte_of_a_file_in_use(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with held_by_script(tmp_path, f"sqlite:///{file}"):
        before = bytes_of(tmp_path)
        with pytest.raises(FileInUse):
            Accountant(f"sqlite:///{file}", wait=0)
        assert bytes_of(tmp_path) == before


def test_a_reader_without_a_lock_writes_no_note(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Accountant(f"sqlite:///{file}") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
        lock = file.with_name("ledger.db.lock").read_bytes()
        with Accountant(f"sqlite:///{file}", read_only=True) as reader:
            assert [each.dataset for each in reader.datasets()] == ["census"]
        assert file.with_name("ledger.db.lock").read_bytes() == lock
    file.with_name("ledger.db.lock").unlink()
    with Accountant(f"sqlite:///{file}", read_only=True) as reader:
        assert [each.dataset for each in reader.datasets()] == ["census"]
    assert not file.with_name("ledger.db.lock").exists()


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"\n",
        b'{"pid": 12',
        b"[1, 2]\n",
        b"\xff\xfe\n",
        b"[" * 3000,
        b'{"pid": "12", "address": 7, "command": [], "since": "today", "host": {}}\n',
        b'{"pid": -1, "since": 1e400}\n',
        b'{"pid": true, "since": 999999999999999999999}\n',
    ],
)
def test_an_unreadable_note_names_another_process(tmp_path: Path, note: bytes) -> None:
    file = tmp_path / "ledger.db"
    lock = FileLock(file)
    lock.take()
    try:
        file.with_name("ledger.db.lock").write_bytes(note)
        assert lock.owner() == LockHolder()
        with pytest.raises(FileInUse, match=rf"^another process has {re.escape(str(file))} open\."):
            FileLock(file).take()
    finally:
        lock.release()


def test_the_note_of_an_ended_process_is_not_believed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(PATIENCE_S)
    note = tmp_path / "lock"
    with note.open("wb") as file:
        write_holder(file.fileno(), LockHolder(ended.pid, None, "old", AT, socket.gethostname()))
    with note.open("rb") as file:
        assert str(read_holder(file.fileno())) == "another process"
        assert read_holder(file.fileno()).since_words == ""


def test_a_shorter_note_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    long, short = this_process(AT, "http://gateway.example.org:8000"), this_process(AT)
    with (tmp_path / "lock").open("w+b") as file:
        for holder in (long, short):
            write_holder(file.fileno(), holder)
            assert read_holder(file.fileno()) == holder
        assert file.read().count(b"\n") == 1


def test_a_holder_on_another_machine_is_named_with_it() -> None:
    assert str(LockHolder(7, host="node-2")) == "process 7 on host node-2"
    assert str(LockHolder(7, host=socket.gethostname())) == "process 7"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], "unknown program"),
        (["/venv/bin/python", "/venv/bin/accountant", "serve", "--port", "1"], "accountant serve"),
        (["python3.12", "/venv/bin/accountant", "--token=acct_secret"], "accountant"),
        (
            ["python", "-X", "dev", "-u", "work/batch.py", "--token", "acct_secret"],
            "python batch.py",
        ),
        (["python", "-m", "ipykernel_launcher", "-f", "k.json"], "python -m ipykernel_launcher"),
        (["python", "-c", "import secrets"], "python"),
        (["python"], "python"),
        (["/opt/app/engine", "acct_secret"], "engine"),
    ],
)
def test_a_program_is_named_without_its_arguments(arguments: list[str], name: str) -> None:
    assert command_name(arguments) == name


def test_a_forked_child_that_closes_leaves_the_note(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "ledger.db")
    lock.take()
    lock.publish("http://127.0.0.1:9")
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    owner = lock.owner()
    assert owner is not None
    assert (owner.pid, owner.address) == (os.getpid(), "http://127.0.0.1:9")
    lock.release()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists locks")
def test_a_file_in_use_by_another_path_names_its_process(tmp_path: Path) -> None:
    file, link = tmp_path / "ledger.db", tmp_path / "link.db"
    with held_by_script(tmp_path, f"sqlite:///{file}") as pid:
        link.symlink_to(file)
        with pytest.raises(Refused, match=rf"process {pid} \(python night_batch.py\) has .*link"):
            Accountant(f"sqlite:///{link}", wait=0)


def test_an_index_in_use_names_its_process(tmp_path: Path) -> None:
    index = tmp_path / "usage.index"
    lock = IndexLock(index)
    with pytest.raises(IndexInUse, match=rf"usage.index is in use: process {os.getpid()} \("):
        IndexLock(index)
    lock.release()
    IndexLock(index).release()
    assert (tmp_path / "usage.index.lock").read_bytes() == b""
