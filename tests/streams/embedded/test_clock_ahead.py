"""A clock that is ahead decides nothing; where one did, a command sets the log back."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from accountant.records import decode_decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.outcomes import Outcome
from accountant.replay.audit import audit
from accountant.times import iso
from streams.client import Accountant, Refused, Unavailable
from streams.clock import DAY_MS, SystemClock
from streams.embedded import ledger_file
from streams.embedded.file_ownership import stopped_ledger
from streams.embedded.service import EmbeddedService
from streams.evidence.operator_records import reset_clock
from streams.metrics.registry import exposition, make_registry
from streams.settings import Settings
from tests.streams.bodies import asking
from tests.streams.cli.here import run_here
from tests.streams.clock import TestClock
from tests.streams.uncompared import uncompared

ONE = {"filter": "basic", "epsilon": "1"}
DAY_S = DAY_MS / 1000


def log(file: Path) -> list[bytes]:
    with ledger_file.reader(file) as db:
        return [value for _, value in ledger_file.numbered_decisions(db, first=0)]


def ask(file: Path, clock: TestClock, settings: Settings | None = None) -> Outcome:
    settings = (settings or Settings()).model_copy(update={"url": f"sqlite:///{file}"})
    with Accountant(settings=settings, clock=clock, analyst="ana") as ledger:
        return ledger.ask("census", "pure:0.1", wait=0.2).outcome


def reset_file(
    file: Path, settings: Settings, clock: TestClock, note: str
) -> EncodedDecision | None:
    with stopped_ledger(file, settings, clock.now()) as (journal, genesis):
        return asyncio.run(reset_clock(journal, genesis, clock, note, compare=uncompared))


@pytest.fixture
def used(file: Path, clock: TestClock) -> Path:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
        assert ledger.ask("census", "pure:0.1").granted
    return file


def test_a_clock_far_ahead_decides_nothing_and_names_the_setting(
    used: Path, clock: TestClock
) -> None:
    before = log(used)
    clock.pass_(seconds=401 * DAY_S)
    named = "401 days ahead.*ACCOUNTANT_CLOCK_AHEAD_DAYS=402"
    with pytest.raises(Unavailable, match=named):
        ask(used, clock)
    service = EmbeddedService.open(used, Settings(), clock=clock)
    assert not service.readiness().ready
    assert "ACCOUNTANT_CLOCK_AHEAD_DAYS" in service.readiness().reasons[0]
    service.close_sync()
    assert log(used) == before
    assert ask(used, clock, Settings(clock_ahead_days=402)) is Outcome.GRANTED


def test_a_year_of_rest_is_no_wrong_clock(used: Path, clock: TestClock) -> None:
    clock.pass_(seconds=399 * DAY_S)
    assert ask(used, clock) is Outcome.GRANTED


def test_thirty_days_of_rest_start_and_decide(used: Path, clock: TestClock) -> None:
    clock.pass_(seconds=30 * DAY_S)
    service = EmbeddedService.open(used, Settings(), clock=clock)
    assert service.readiness().ready
    service.close_sync()
    assert ask(used, clock) is Outcome.GRANTED


def test_a_laptop_that_slept_for_three_days_decides(used: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{used}", clock=clock, analyst="ana") as ledger:
        clock.pass_(seconds=3 * DAY_S)  # both clocks: the monotonic one counts the time asleep
        assert ledger.ask("census", "pure:0.1").granted


def test_a_running_ledger_whose_clock_jumps_two_days_stops(used: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{used}", clock=clock, analyst="ana") as ledger:
        assert ledger.ask("census", "pure:0.1").granted
        before = log(used)
        clock.jump(seconds=2 * DAY_S)
        with pytest.raises(Unavailable, match="the clock jumped by 172800 s"):
            ledger.ask("census", "pure:0.1", wait=0.2)
        assert log(used) == before
        clock.jump(seconds=-2 * DAY_S)
        assert ledger.ask("census", "pure:0.1").granted


def test_a_clock_far_ahead_of_the_newest_checkpoint_is_a_warning(
    file: Path, clock: TestClock, checkpoint_directory: Path
) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
    began = iso(clock.now())
    clock.pass_(seconds=6 * DAY_S)
    service = EmbeddedService.open(file, Settings(), clock=clock)
    assert service.readiness().notes == []
    service.close_sync()  # a checkpoint of the same decision does not make the first one newer

    clock.pass_(seconds=4 * DAY_S)
    service = EmbeddedService.open(file, Settings(), clock=clock)
    readiness = service.readiness()
    (note,) = readiness.notes
    assert readiness.ready
    assert note.startswith("this machine's clock is 10.0 days ahead of the newest checkpoint: ")
    assert f"{iso(clock.now())} now, {began} then" in note
    assert "otherwise set the clock" in note
    time.sleep(0.5)  # the checkpoints' interval passes several times
    assert service.readiness().notes == [note]
    decided = service.submit_sync("requests", asking("census", clock.now(), 1), 10).decision
    assert decode_decision(decided or b"").granted
    while service.readiness().notes:  # until its checkpoint is stored
        time.sleep(0.02)
    service.close_sync()


def test_the_systems_monotonic_clock_counts_the_time_asleep() -> None:
    """On Linux only CLOCK_BOOTTIME does; on macOS CLOCK_MONOTONIC, but not `time.monotonic`."""
    name = "CLOCK_BOOTTIME" if sys.platform == "linux" else "CLOCK_MONOTONIC"
    counted = time.clock_gettime(getattr(time, name))
    assert counted <= SystemClock().monotonic() <= counted + 60


def test_a_running_ledger_stops_when_its_clock_is_ahead(used: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{used}", clock=clock, analyst="ana") as ledger:
        assert ledger.ask("census", "pure:0.1").granted
        clock.pass_(seconds=401 * DAY_S)
        with pytest.raises(Unavailable, match="ACCOUNTANT_CLOCK_AHEAD_DAYS"):
            ledger.ask("census", "pure:0.1", wait=0.2)


def test_a_frozen_ledger_is_thawed(used: Path, clock: TestClock) -> None:
    clock.pass_(seconds=300 * DAY_S)
    assert ask(used, clock) is Outcome.GRANTED  # by a clock 300 days ahead
    clock.pass_(seconds=-300 * DAY_S)
    with pytest.raises(Unavailable, match="accountant clock reset"):
        ask(used, clock)
    decision = reset_file(used, Settings(), clock, "set by hand")
    assert decision is not None
    assert decision.outcome is Outcome.CLOCK_RESET
    assert reset_file(used, Settings(), clock, "again") is None
    assert ask(used, clock) is Outcome.EXPIRED
    clock.pass_(seconds=301)
    assert ask(used, clock) is Outcome.GRANTED
    assert ask(used, clock) is Outcome.GRANTED  # after one more start
    records = log(used)
    assert audit(records).ok
    outcomes = [decode_decision(value).outcome for value in records]
    assert outcomes.count(Outcome.GRANTED) == 4
    with Accountant(f"sqlite:///{used}", clock=clock) as ledger:
        view = ledger.dataset("census")
        assert view is not None
        assert view.totals["epsilon"] == "0.4"


def test_alerts_metrics_and_usage_go_by_numbers_not_by_times(used: Path, clock: TestClock) -> None:
    clock.pass_(seconds=300 * DAY_S)
    for _ in range(5):
        assert ask(used, clock) is Outcome.GRANTED  # crosses 0.5 by the clock that is ahead
    ahead = iso(clock.now())[:10]
    clock.pass_(seconds=-300 * DAY_S)
    reset_file(used, Settings(), clock, "set by hand")
    clock.pass_(seconds=301)
    asyncio.run(_by_numbers(used, clock, ahead))


async def _by_numbers(used: Path, clock: TestClock, ahead: str) -> None:
    now = clock.now()
    service = EmbeddedService.open(used, Settings(), clock=clock)
    coming = service.alerts()
    for n in range(2):
        answer = await service.submit("requests", asking("census", now, n), wait=10)
        assert decode_decision(answer.decision or b"").granted
    alert = await anext(coming)
    # Sent once, with its own time, though an earlier threshold was reached later.
    assert (alert.threshold, alert.decided_at) == ("0.8", iso(now))
    by_day = {row.key: row.granted for row in await service.usage_by("census", "day")}
    assert by_day == {ahead: 5, iso(now)[:10]: 3}
    text, _ = exposition(make_registry(service.live_ledgers), "")
    (last,) = re.findall(rb"privacy_last_decision_timestamp_seconds{.*} (.+)", text)
    assert float(last) == now / 1000
    await service.close()


def test_a_file_that_is_open_is_not_reset(used: Path, clock: TestClock) -> None:
    service = EmbeddedService.open(used, Settings(), clock=clock)
    with pytest.raises(Refused, match=r"has \S+ open since"):
        reset_file(used, Settings(), clock, "set by hand")
    service.close_sync()


def test_by_command(file: Path) -> None:
    run = partial(run_here, file.parent)
    clock = TestClock()
    clock.pass_(seconds=7300 * DAY_S)
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        ledger.as_owner("owner").open("census", ONE, as_given=True)
    url = f"sqlite:///{file}"
    asked = run("ask", "census", "pure:0.1", "--analyst", "ana", "--url", url, "--wait", "1")
    assert asked.code == 4
    assert "accountant clock reset" in asked.err
    again = run("clock", "reset", "--reason", "", "--url", url)
    assert again.code == 2
    done = run("clock", "reset", "--reason", "dead battery", "--url", url, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["outcome"] == "clock_reset"
    assert run("clock", "reset", "--reason", "x", "--url", url).code == 1
    for command in (
        ("audit",),
        ("dataset", "list"),
        ("dataset", "show", "census"),
        ("watch", "--once"),
        ("log", "export"),
    ):
        done = run(*command, "--url", url)
        assert done.code == 0, (command, done.err)
    exported = [json.loads(line) for line in done.out.splitlines()]
    assert exported[-1]["note"] == "dead battery"
    assert run("clock", "reset", "--reason", "x", "--url", f"{url}.no").code == 4
    assert not Path(f"{file}.no").exists()
