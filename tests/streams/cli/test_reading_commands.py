"""A command that only reads leaves a closed ledger's directory as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.streams.cli.conftest import Command
from tests.streams.cli.test_writing_commands import READING

ARGUMENTS: Final = {
    "approval list": ("census",),
    "more list": ("census",),
    "audit": (),
    "dataset list": (),
    "dataset releases": ("census",),
    "dataset show": ("census",),
    "evidence": ("../evidence",),
    "head": (),
    "limit list": ("census",),
    "log export": (),
    "member list": ("census",),
    "mine": ("--analyst", "ana"),
    "reservation list": ("census",),
    "usage": ("census",),
    "why": ("census",),
    "report": ("census",),
}

ELSEWHERE: Final = {
    "dataset columns",  # reads as `dataset show` does
    "answers",  # tests/streams/cli/test_ask_question.py
    "me",  # asks a server
    "ready",  # asks a server
    "watch",  # reads as `dataset list` does, until it is interrupted
}


def test_each_reading_command_leaves_a_closed_ledger_as_it_is(
    opened: Command, tmp_path: Path
) -> None:
    assert ARGUMENTS.keys() | ELSEWHERE == READING
    done = opened("ask", "census", "pure:0.1", "--analyst", "ana")
    assert done.code == 0, done.err
    file = tmp_path / "accountant.db"

    def files() -> tuple[set[str], bytes, int]:
        return (
            {each.name for each in tmp_path.iterdir()},
            file.read_bytes(),
            file.stat().st_mtime_ns,
        )

    before = files()
    for name, arguments in ARGUMENTS.items():
        done = opened(*name.split(), *arguments)
        assert done.code == 0, (name, done.err)
        assert files() == before, name
    file.chmod(0o400)
    assert opened("audit").code == 0
    assert files() == before
