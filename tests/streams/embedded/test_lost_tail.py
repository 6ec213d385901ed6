"""A file that has lost decisions is refused, whatever else is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from accountant.errors import LogDamaged
from streams.client import Accountant
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from tests.streams.clock import TestClock
from tests.streams.gateway.records import request

ONE = {"filter": "basic", "epsilon": "1"}


@pytest.fixture
def spent(file: Path, clock: TestClock) -> Path:
    """A ledger whose `census` is used up."""
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        ledger.as_owner("owner").open("idle", ONE, as_given=True)
        for _ in range(10):
            assert ledger.ask("census", "pure:0.1", analyst="ana").outcome == "granted"
    return file


@pytest.mark.parametrize(
    "damage",
    [
        "SELECT 1",
        "UPDATE state SET value = x'7b' WHERE key = CAST('idle' AS BLOB)",
        "DELETE FROM state WHERE key = CAST('idle' AS BLOB)",
        "DELETE FROM state WHERE key = CAST('{\"partition\":0}' AS BLOB)",
    ],
)
def test_lost_decisions_are_never_granted_again(spent: Path, clock: TestClock, damage: str) -> None:
    db = apsw.Connection(str(spent))
    db.execute("DELETE FROM decisions WHERE sequence > 7")
    db.execute(damage)
    db.close()
    with pytest.raises(LogDamaged, match="restore the log"):
        EmbeddedService.open(spent, Settings(), clock=clock)


@pytest.mark.parametrize("last", [0, 6, 9])
def test_times_beside_the_log_that_were_changed_forget_no_id(
    file: Path, clock: TestClock, last: int
) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        bodies = []
        for _ in range(9):
            clock.pass_(seconds=1)
            bodies.append(json.dumps(request(clock)).encode())
            assert ledger.submit(bodies[-1]).outcome == "granted"
    db = apsw.Connection(str(file))
    # No chain covers this column; by it alone the window would begin behind these decisions.
    db.execute("UPDATE decisions SET decided_at = 0 WHERE sequence <= ?", (last,))
    db.close()
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        assert [ledger.submit(body).outcome for body in bodies] == ["repeated"] * 9
