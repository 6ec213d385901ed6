"""Inputs of a ledger's file are numbered one by one: a hole shows decisions that were taken out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accountant.errors import LogDamaged
from accountant.partition import hash_of
from streams.audit.log_audit import run_audit
from streams.client import Accountant
from streams.embedded.service import EmbeddedService
from streams.embedded.sqlite_log import SqliteLog
from streams.settings import Settings
from tests.ledger_file import connected
from tests.streams.clock import TestClock

OFF = Settings(checkpoints="off")


@pytest.fixture
def holed(file: Path, clock: TestClock) -> Path:
    """A ledger without one of its decisions, the rest numbered and chained again."""
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
        ledger.ask("census", "pure:0.1")
        ledger.ask("nowhere", "pure:0.1")
        ledger.ask("census", "pure:0.1")
    with connected(file) as db:
        values = [bytes(v) for (v,) in db.execute("SELECT value FROM decisions ORDER BY sequence")]
        times = [at for (at,) in db.execute("SELECT decided_at FROM decisions ORDER BY sequence")]
    del values[3], times[3]
    last = values[3].replace(b'"partition_sequence":4', b'"partition_sequence":3')
    previous = json.loads(last)["previous"].encode()
    values[3] = last.replace(previous, hash_of(values[2]).encode())
    with connected(file) as db:
        db.execute("DELETE FROM decisions")
        db.execute("DELETE FROM state")
        rows = zip(range(4), times, values, strict=True)
        db.executemany("INSERT INTO decisions VALUES (?, ?, ?)", rows)
    return file


def test_an_audit_names_a_missing_input_offset(holed: Path) -> None:
    ((_, report),) = run_audit(SqliteLog(holed))
    wrong = report.first_disagreement
    assert wrong is not None
    assert (wrong.partition_sequence, wrong.what) == (3, "source.offset")
    assert (wrong.expected, wrong.found) == ("1", "2")


def test_a_start_refuses_a_missing_input_offset(holed: Path, clock: TestClock) -> None:
    with pytest.raises(LogDamaged, match=r"decision 3 is about input 2 of requests, .* about 0"):
        EmbeddedService.open(holed, OFF, clock=clock)
