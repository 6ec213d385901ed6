"""A log that cannot be read is an error of its own, with what to name instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.cli.reading.log_at import log_at
from streams.client import Accountant
from streams.embedded.sqlite_log import SqliteLog
from streams.errors import InputInvalid
from streams.log.exported_log import ExportedLog
from tests.accountant.replay.test_grant_run import WORLD


def test_a_file_that_never_was_a_log_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("milk, bread")
    with pytest.raises(InputInvalid, match="notes is not a decision log") as refused:
        log_at(str(file))
    assert "accountant log export" in str(refused.value.hint)


def test_a_server_has_no_whole_log() -> None:
    with pytest.raises(InputInvalid, match="cannot be read over HTTP") as refused:
        log_at("http://127.0.0.1:1")
    assert "--url sqlite:///FILE" in str(refused.value.hint)


def test_only_a_ledgers_file_has_archives(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(WORLD.log[0] + b"\n")
    assert isinstance(log_at(str(file)), ExportedLog)
    with pytest.raises(InputInvalid, match="--archive needs a ledger's file"):
        log_at(str(file), [file])


def test_archives_of_a_log_that_has_none_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Accountant(f"sqlite:///{file}") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
    with pytest.raises(InputInvalid, match="has no archives"):
        next(SqliteLog(file, (tmp_path / "archive.jsonl",)).parts())
