"""A ledger's file killed at each step of a reservation: nothing is lost, torn or charged twice."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Final

import pytest

from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from streams.testing import ManualClock
from tests.faults.fed_ledger import START
from tests.faults.oracle.amounts import as_text, whole_up
from tests.faults.reservation_steps import STEPS, Records, Step, check
from tests.faults.sqlite_life import Disk, die, forked, verdict
from tests.faults.test_sqlite_kill import killed_at
from tests.nightly import rounds
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.faults

KILLS: Final = rounds(1, 50)
MINUTE: Final = 60_000
_AFTER_ALL: Final = 1_000_000
"""No step takes so many operations: it is decided, and nobody has read the answer."""


def opened(file: Path, at: int) -> EmbeddedService:
    return EmbeddedService.open(file, Settings(), clock=ManualClock(at))


def prepare(file: Path, records: Records, step: Step) -> None:
    """Bring the reservation to the state before a step."""
    service = opened(file, START)
    try:
        service.submit_sync("admin", records.opening(START), PATIENCE_S)
        for kind in step.before:
            answer = service.submit_sync("requests", records.of(kind, START), PATIENCE_S)
            records.hear(answer.decision or b"")
    finally:
        service.close_sync()


def operations_of(file: Path, body: bytes, at: int) -> int:
    """Return how many operations on the disk a step takes, on a ledger that nobody kills."""
    with Disk() as disk:
        service = opened(file, at)
        disk.counting = True
        service.submit_sync("requests", body, PATIENCE_S)
        disk.counting = False
        service.close_sync()
        return disk.count


def take_and_die(file: Path, body: bytes, at: int, nth: int, *, torn: bool) -> None:
    """Send a step to a ledger in another process, which is killed at the n-th operation."""

    def run() -> None:
        with Disk() as disk:
            service = opened(file, at)
            killed_at(disk, nth, torn)
            service.submit_sync("requests", body, PATIENCE_S)
            die()  # before anybody has read the answer

    child, deadline = forked(run), time.monotonic() + PATIENCE_S
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:  # a fork of a process with threads may stand still
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    status = ended[1]
    assert os.WTERMSIG(status) == signal.SIGKILL, "it ended by itself"


@pytest.mark.parametrize("number", range(KILLS))
@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_is_sent_again_after_a_kill_is_taken_once(
    name: str, number: int, tmp_path: Path
) -> None:
    step, draw = STEPS[name], random.Random(f"{name} {number}")
    at = START + step.minutes * MINUTE
    counted, records = Records("census"), Records("census")
    prepare(tmp_path / "counted.db", counted, step)
    count = operations_of(tmp_path / "counted.db", counted.of(step.kind, at), at)
    assert count > 2
    file = tmp_path / "ledger.db"
    prepare(file, records, step)
    body = records.of(step.kind, at)
    places = [draw.randrange(1, count + 2) for _ in range(2)]  # the second one in the retry
    if not number:
        places[0] = _AFTER_ALL
    for place in places:
        take_and_die(file, body, at, place, torn=draw.random() < 0.5)
    service = opened(file, at)
    try:
        for _ in range(2):
            answer = service.submit_sync("requests", body, PATIENCE_S)
            check(records, step, records.hear(answer.decision or b""))
    finally:
        service.close_sync()
    partition = verdict(file, tmp_path / "copy", records.made.values(), (START, at))
    dataset = partition.datasets["census"]
    assert as_text(whole_up(dataset.totals["epsilon"])) == step.total
    assert [each.stage for each in dataset.reservations.open.values()] == (
        [] if step.stage is None else [step.stage]
    )
    outcomes = [each["outcome"] for each in partition.decisions]
    assert outcomes.count(step.outcome) == 1
