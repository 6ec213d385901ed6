from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import msgspec
import pytest

from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import decode_decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.records.outcomes import Reason
from streams.client import Accountant
from streams.embedded.ledger_file import read_decisions, reader
from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from tests.ledger_file import connected
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening, request
from tests.streams.waiting import eventually

STARTS = ()


def opened(file: Path, clock: TestClock, **more: object) -> EmbeddedService:
    service = EmbeddedService.open(file, Settings(), clock=clock, **more)  # type: ignore[arg-type]
    if "census" not in service.views.datasets():
        body = msgspec.json.encode(opening(clock, epsilon="1000"))
        service.submit_sync("admin", body, 10)
    return service


def ask(service: EmbeddedService, body: bytes) -> str:
    answer = service.submit_sync("requests", body, 10)
    assert answer.decision is not None
    return decode_decision(answer.decision).outcome


@pytest.mark.parametrize(
    ("name", "value"), [("application", "other"), ("window_ms", 61_000), ("skew_ms", 1_000)]
)
def test_a_setting_other_than_the_files_is_a_refused_start(
    file: Path, clock: TestClock, name: str, value: object
) -> None:
    opened(file, clock).close_sync()
    with pytest.raises(Refused, match=f"ACCOUNTANT_{name.upper()}="):
        EmbeddedService.open(file, Settings(**{name: value}), clock=clock)  # type: ignore[arg-type]
    opened(file, clock).close_sync()


def test_a_second_owner_learns_which_process_has_the_file(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    with pytest.raises(Refused, match=r"has \S+ledger\.db open"):
        opened(file, clock)
    service.publish_address("http://127.0.0.1:9")
    with pytest.raises(Refused, match=r"http://127\.0\.0\.1:9"):
        opened(file, clock)
    service.close_sync()
    opened(file, clock).close_sync()


def test_a_file_that_is_no_ledger_is_refused(file: Path, clock: TestClock) -> None:
    file.write_bytes(b"something else entirely" * 100)
    with pytest.raises(Refused, match=r"ledger\.db"):
        opened(file, clock)


def test_decisions_survive_a_restart(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    body = msgspec.json.encode(request(clock))
    assert ask(service, body) == "granted"
    left = service.views.datasets()["census"].left
    service.close_sync()
    service = opened(file, clock)
    assert service.views.datasets()["census"].left == left
    assert ask(service, body) == "repeated"
    service.close_sync()


def test_a_closed_service_takes_nothing_more(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    service.close_sync()
    with pytest.raises(Unavailable, match="closed"):
        ask(service, msgspec.json.encode(request(clock)))


def test_a_closed_file_has_all_decisions_itself_whatever_was_read(
    file: Path, clock: TestClock
) -> None:
    service = opened(file, clock)
    ask(service, msgspec.json.encode(request(clock)))
    values = asyncio.run(service.log.read(0, 0, 10))
    service.close_sync()
    assert not file.with_name(f"{file.name}-wal").exists()
    copy = file.with_name("copy.db")
    copy.write_bytes(file.read_bytes())
    assert [*read_decisions(copy)] == values


def test_after_a_fault_the_same_bytes_get_the_outcome(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    body = msgspec.json.encode(request(clock))
    blocker = apsw.Connection(str(file))
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="same bytes"):
        ask(service, body)
    blocker.execute("ROLLBACK")
    assert ask(service, body) == "granted"
    assert ask(service, body) == "repeated"
    service.close_sync()


def test_an_interrupt_while_deciding_loses_nothing_and_charges_nothing_twice(
    file: Path, clock: TestClock
) -> None:
    interrupts = [1]

    def interrupted(draft: Draft, record: Input, now: int) -> EncodedDecision:
        encoded = decide(draft, record, now)
        if record.source == "requests" and interrupts:
            interrupts.pop()
            raise KeyboardInterrupt
        return encoded

    service = opened(file, clock, decide=interrupted)
    body = msgspec.json.encode(request(clock))
    with pytest.raises(KeyboardInterrupt):
        ask(service, body)
    eventually(lambda: service.readiness().ready)
    assert ask(service, body) == "granted"
    assert ask(service, body) == "repeated"
    service.close_sync()


def test_threads_and_loops_may_ask_at_once(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    outcomes: list[str] = []

    def blocking() -> None:
        bodies = [msgspec.json.encode(request(clock)) for _ in range(100)]
        outcomes.extend(ask(service, body) for body in bodies)

    async def one() -> None:
        body = msgspec.json.encode(request(clock))
        answer = await service.submit("requests", body, wait=30)
        assert answer.decision is not None
        outcomes.append(decode_decision(answer.decision).outcome)

    async def together() -> None:
        await asyncio.gather(*(one() for _ in range(100)))

    threads = [threading.Thread(target=blocking) for _ in range(3)]
    threads += [threading.Thread(target=asyncio.run, args=(together(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == ["granted"] * 500
    assert service.views.datasets()["census"].totals["mechanisms"] == 500
    service.close_sync()


@pytest.mark.parametrize("seconds", [400, -400])
def test_a_jump_that_is_set_back_needs_no_restart(
    file: Path, clock: TestClock, seconds: int
) -> None:
    service = opened(file, clock)
    body = msgspec.json.encode(request(clock))
    clock.jump(seconds=seconds)
    eventually(lambda: not service.readiness().ready)
    said = f"clock_out_of_range: the clock jumped by {seconds} s. Set it back; or, if it is right"
    with pytest.raises(Unavailable, match=f"^{said} now, restart"):
        ask(service, body)
    clock.jump(seconds=-seconds)
    eventually(lambda: service.readiness().ready)
    assert ask(service, body) == "granted"
    service.close_sync()


def test_decisions_resume_by_themselves_after_a_clock_that_was_ahead(
    file: Path, clock: TestClock
) -> None:
    opened(file, TestClock(clock.now() + 600_000)).close_sync()
    service = EmbeddedService.open(file, Settings(), clock=clock)
    body = msgspec.json.encode(request(clock))
    said = "600 s behind the last decision. Set it. If it is right, an earlier clock was ahead"
    with pytest.raises(Unavailable, match=f"{said}: wait until it is 300 s behind"):
        ask(service, body)
    clock.pass_(seconds=300)
    eventually(lambda: service.readiness().ready)
    assert ask(service, body) == "granted"
    service.close_sync()


async def test_events_are_the_decisions_since_the_subscription(
    file: Path, clock: TestClock
) -> None:
    service = await asyncio.to_thread(opened, file, clock)
    events = service.events()
    answers = [
        await service.submit("requests", msgspec.json.encode(request(clock)), wait=10)
        for _ in range(3)
    ]
    seen = [await anext(events) for _ in range(3)]
    assert seen == [decode_decision(answer.decision or b"") for answer in answers]
    await service.close()
    with pytest.raises(StopAsyncIteration):
        await anext(events)


_SERVE = """
import resource, sys
from streams.telemetry import logs
from streams.serve import serve
from streams.settings import load

def listening(url):
    print(url, flush=True)
    sys.stdin.readline()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
    print("limited", flush=True)

settings = load(url="sqlite:///" + sys.argv[1], port=0)
logs.configure(settings)
try:
    serve(settings, listening=listening)
except Exception as error:
    print(type(error).__name__, error, flush=True)
    sys.exit(4)
"""


def test_an_error_of_the_disk_ends_the_process(file: Path) -> None:
    import httpx

    from streams.clock import SystemClock

    clock = SystemClock()
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a file would be limited as well
        text=True,
    ) as process:
        stop = threading.Timer(60, process.kill)
        stop.start()
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "limited\n"
        response = httpx.post(
            f"{url}/datasets", json=opening(clock), timeout=PATIENCE_S, trust_env=False
        )
        assert response.status_code == 503
        said = process.stdout.read()
        assert process.wait(PATIENCE_S) == 4
        stop.cancel()
    assert "Refused" in said
    assert "check the disk" in said
    with_room = EmbeddedService.open(file, Settings())
    assert dict(with_room.views.datasets()) == {}
    with_room.close_sync()


def test_an_old_row_of_a_dataset_idle_for_hours_is_detected(file: Path, clock: TestClock) -> None:
    def row_of_idle() -> tuple[bytes, bytes, int]:
        # By the owner's SQLite: a second one in a process takes the first one's locks away.
        with reader(file) as db:
            found = db.execute("SELECT key, value, crc FROM state WHERE key = ?", (b"idle",))
            key, value, crc = found.fetchall()[0]
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            return key, value, int(crc)

    url = f"sqlite:///{file}"
    with Accountant(url, clock=clock) as ledger:
        for name in ("idle", "busy"):
            ledger.as_owner("owner").open(name, {"filter": "basic", "epsilon": "1"}, as_given=True)
        ledger.ask("idle", "pure:0.5", analyst="ana")
    old = row_of_idle()
    with Accountant(url, clock=clock) as ledger:
        ledger.ask("idle", "pure:0.5", analyst="ana")
        for _ in range(3):
            clock.pass_(seconds=3600)
            ledger.ask("busy", "pure:0.01", analyst="ana")
    good = row_of_idle()
    with connected(file) as db:
        db.execute("INSERT OR REPLACE INTO state (key, value, crc) VALUES (?, ?, ?)", old)
    assert row_of_idle() == old
    with Accountant(url, clock=clock) as ledger:
        view = ledger.dataset("idle")
        assert view is not None
        assert view.left["epsilon"] == "0"
        assert row_of_idle() == good
        assert ledger.ask("idle", "pure:0.5", analyst="ana").reason is Reason.EXHAUSTED
