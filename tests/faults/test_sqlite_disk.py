"""A disk that is full, fails, or changes bits: a clear error, and never a wrong total."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import pytest

from accountant.errors import LedgerFault, LogDamaged
from accountant.partition import Partition
from accountant.replay.replay import Replay, state_rows
from streams.embedded.journal import SqliteJournal
from streams.embedded.ledger_file import read_genesis
from streams.embedded.service import EmbeddedService
from streams.errors import JournalFault, Refused, Unavailable
from streams.processing.processor import Processor
from streams.settings import Settings
from streams.testing import RecordingObserver
from tests.faults import oracle
from tests.faults.edges import SKEW_MS, WINDOW_MS, edge_time
from tests.faults.oracle import Contents
from tests.faults.sqlite_life import (
    Disk,
    DiskFile,
    copied,
    decisions_of,
    die,
    forked,
    granted_to,
    since,
    verdict,
)
from tests.nightly import rounds
from tests.patience import PATIENCE_S
from tests.streams.bodies import asking, opening, request_id
from tests.streams.processing.contract import AwaitableQueue

pytestmark = pytest.mark.faults

REQUESTS: Final = 5
_DAY_MS = 86_400_000
CUTS: Final = rounds(25, 150)
FLIPS: Final = rounds(100, 600)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def failing(disk: Disk, nth: int, error: type[Exception], *, half: bool) -> None:
    """Fail the n-th operation and all after it, until `disk.counting` is unset."""

    def at(count: int, file: DiskFile, what: str, data: bytes, offset: int) -> None:
        if count >= nth and (what == "write" or error is apsw.IOError):
            if half and what == "write":
                file.write(data[: len(data) // 2], offset)
            raise error("planted")

    disk.at, disk.count, disk.counting = at, 0, True


def requests_at(at: int) -> list[bytes]:
    """Return requests that are granted, and some whose ids have expired, expire, or are ahead."""
    plain = [asking("census", at, number) for number in range(REQUESTS)]
    edges = [at - WINDOW_MS - 1, at - WINDOW_MS + 50, at + SKEW_MS + _DAY_MS]
    return plain + [asking("census", edge, 100 + i) for i, edge in enumerate(edges)] + plain[:1]


def check_all(file: Path, at: int) -> None:
    """Have the oracle judge a file of which `asked` was asked, whatever failed meanwhile."""
    sent = [opening("census", at, 0), *requests_at(at)]
    judged = verdict(file, file.with_name("copy"), sent, since(at))
    granted = granted_to(judged, "census")
    assert granted >= {request_id(at, number) for number in range(REQUESTS)}
    assert {each["outcome"] for each in judged.decisions} >= {"expired", "invalid"}


def ask_until_failed(service: EmbeddedService, bodies: list[bytes]) -> tuple[int, str]:
    """Send requests one after another; return the number of answers, and the error after them."""
    for answered, body in enumerate(bodies):
        try:
            service.submit_sync("requests", body, 10)
        except Unavailable as error:
            return answered, str(error)
    return len(bodies), ""


def each_operation(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Yield (n, file in a directory of its own) for n = 1, 2 and so on."""
    for nth in range(1, 200):
        directory = tmp_path / str(nth)
        directory.mkdir()
        yield nth, directory / "ledger.db"


def with_census(file: Path, at: int) -> EmbeddedService:
    service = EmbeddedService.open(file, Settings())
    service.submit_sync("admin", opening("census", at, 0), 10)
    return service


@pytest.mark.parametrize("half", [False, True])
def test_a_full_disk_loses_nothing_and_the_ledger_resumes_when_there_is_room(
    tmp_path: Path, half: bool
) -> None:
    at = now_ms()
    bodies = requests_at(at)
    failed = 0
    for nth, file in each_operation(tmp_path):
        with Disk() as disk:
            service = with_census(file, at)
            failing(disk, nth, apsw.FullError, half=half)
            answered, why = ask_until_failed(service, bodies)
            disk.counting = False
            if why:
                failed += 1
                full = f"the disk is full: {file.parent} has no space for {file.name}. Free some"
                assert full in why
                assert wait_ready(service)
                for body in bodies[answered:]:
                    service.submit_sync("requests", body, 10)
            service.close_sync()
        check_all(file, at)
        if not why:
            break
    assert failed >= REQUESTS


def test_a_disk_that_is_full_at_the_start_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Disk() as disk:
        EmbeddedService.open(file, Settings()).close_sync()
        failing(disk, 1, apsw.FullError, half=False)
        with pytest.raises(Unavailable, match=r"the disk is full: .* has no space for ledger\.db"):
            EmbeddedService.open(file, Settings())
        disk.counting = False
        EmbeddedService.open(file, Settings()).close_sync()


def wait_ready(service: EmbeddedService) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not service.readiness().ready and time.monotonic() < deadline:
        time.sleep(0.01)
    return service.readiness().ready


@pytest.mark.parametrize("half", [False, True])
def test_an_io_error_closes_the_ledger_and_the_next_start_finds_it_intact(
    tmp_path: Path, half: bool
) -> None:
    at = now_ms()
    bodies = requests_at(at)
    failed = 0
    for nth, file in each_operation(tmp_path):
        with Disk() as disk:
            service = with_census(file, at)
            failing(disk, nth, apsw.IOError, half=half)
            answered, why = ask_until_failed(service, bodies)
            service.close_sync()
            disk.counting = False
            if why:
                failed += 1
                assert "io_error" in why
            service = EmbeddedService.open(file, Settings())
            for body in bodies[answered:]:
                service.submit_sync("requests", body, 10)
            service.close_sync()
        check_all(file, at)
        if not why:
            break
    assert failed >= REQUESTS


class KilledOwnersFile(NamedTuple):
    """A file of a killed owner: partly in the WAL, partly in the file itself.

    Attributes:
        begun: before anything was sent, milliseconds since 1970.
    """

    file: Path
    begun: int

    def judge(self, prefix: Sequence[bytes], rows: dict[bytes, bytes]) -> None:
        """Let the oracle judge the rest of the log."""
        found = Contents(prefix, rows, [])
        sent = sent_to_history(self.begun)
        oracle.judge_file(found, oracle.inputs_of(found, sent, since(self.begun)))


NAMES: Final = ("census", "other", "idle")
LIVES: Final = range(1000, 1030), range(2000, 2030)


def openings(at: int) -> list[bytes]:
    return [opening(name, at, ord(name[0])) for name in NAMES]


def asked_of_history(at: int, number: int) -> bytes:
    edge = at if number % 5 else edge_time(at, number)
    return asking(NAMES[number % 2], edge, number, epsilon="0.03")


def sent_to_history(at: int) -> list[bytes]:
    return [*openings(at), *(asked_of_history(at, number) for life in LIVES for number in life)]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> KilledOwnersFile:
    file = tmp_path_factory.mktemp("history") / "ledger.db"
    at = now_ms()

    def life(numbers: range) -> None:
        service = EmbeddedService.open(file, Settings())
        for body in openings(at):
            service.submit_sync("admin", body, 10)
        for number in numbers:
            service.submit_sync("requests", asked_of_history(at, number), 10)
        die()

    for numbers in LIVES:
        os.waitpid(forked(lambda numbers=numbers: life(numbers)), 0)  # type: ignore[misc]
    assert file.with_name("ledger.db-wal").stat().st_size > 50_000
    return KilledOwnersFile(file, at)


async def opened(file: Path) -> Partition | BaseException:
    """Return the state that a processor reads from a file, or its error."""
    observer = RecordingObserver()
    try:
        genesis = read_genesis(file)
    except (LedgerFault, ValueError) as error:
        return error
    journal = SqliteJournal(file, inbox=AwaitableQueue(10))
    running = asyncio.create_task(Processor(journal, genesis, observer).run())
    await observer.until(lambda: bool(observer.refolds or observer.halt or observer.drops))
    partition = observer.partition
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return partition or observer.halt or observer.drops[0] or AssertionError("nothing")


def check(
    history: KilledOwnersFile, result: Partition | BaseException, original: Sequence[bytes]
) -> str:
    """Check that the state is a correct prefix of the original."""
    if isinstance(result, BaseException):
        assert isinstance(result, Refused | LogDamaged | JournalFault), repr(result)
        return "refused"
    prefix = original[: result.sequence + 1]
    history.judge(prefix, dict(state_rows(result)) if len(prefix) > 1 else {})
    expected = Replay(result.genesis)
    for value in prefix:
        expected.take_decision(value)
    again = expected.finish()
    assert state_rows(again) == state_rows(result)
    assert len(again.ids) == len(result.ids), "an id was forgotten"
    return "whole" if len(prefix) == len(original) else "prefix"


def test_a_wal_cut_anywhere_leaves_a_committed_prefix(
    history: KilledOwnersFile, tmp_path: Path
) -> None:
    chance = random.Random(1)
    original = decisions_of(copied(history.file, tmp_path / "original"))
    size = history.file.with_name("ledger.db-wal").stat().st_size
    outcomes: Counter[str] = Counter()
    for _ in range(CUTS):
        file = copied(history.file, tmp_path / "cut")
        with file.with_name("ledger.db-wal").open("r+b") as wal:
            wal.truncate(chance.randrange(size))
        outcomes[check(history, asyncio.run(opened(file)), original)] += 1
    assert outcomes["prefix"] > CUTS / 2


@pytest.mark.parametrize("suffix", ["-wal", ""])
def test_flipped_bits_give_a_prefix_or_a_refusal_never_a_wrong_total(
    history: KilledOwnersFile, tmp_path: Path, suffix: str
) -> None:
    chance = random.Random(2)
    original = decisions_of(copied(history.file, tmp_path / "original"))
    source = history.file
    if not suffix:  # everything is in the file itself
        source = tmp_path / "original" / history.file.name
    size = source.with_name(source.name + suffix).stat().st_size
    outcomes: Counter[str] = Counter()
    for i in range(FLIPS // 2):
        file = copied(source, tmp_path / "flipped")
        with file.with_name(file.name + suffix).open("r+b") as damaged:
            for _ in range(chance.choice([1, 1, 3])):
                at = chance.randrange(100 if i % 10 == 0 else size)
                damaged.seek(at)
                bits = damaged.read(1)[0] ^ 1 << chance.randrange(8)
                damaged.seek(at)
                damaged.write(bytes([bits]))
        outcomes[check(history, asyncio.run(opened(file)), original)] += 1
    assert outcomes["whole"] + outcomes["prefix"] > 10, outcomes
    assert suffix or outcomes["refused"] > 10, outcomes
