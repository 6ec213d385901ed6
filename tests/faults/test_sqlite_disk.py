"""A disk that is full, fails, or changes bits: a clear error, and never a wrong total."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import pytest

from accountant.errors import LedgerFault, LogDamaged
from accountant.partition import Partition
from accountant.replay.refold import Refold, state_rows
from streams.embedded.journal import SqliteJournal
from streams.embedded.ledger_file import stored_genesis
from streams.embedded.service import EmbeddedService
from streams.errors import JournalFault, Refused, Unavailable
from streams.processing.processor import Processor
from streams.settings import Settings
from streams.testing import RecordingObserver
from tests.faults.sqlite_life import Disk, DiskFile, contents, copied, die, forked, verdict
from tests.nightly import rounds
from tests.streams.bodies import asking, opening
from tests.streams.model import judge
from tests.streams.processing.contract import AwaitableQueue

pytestmark = pytest.mark.faults

REQUESTS: Final = 5
CUTS: Final = rounds(50, 150)
FLIPS: Final = rounds(200, 600)


def born() -> int:
    return time.time_ns() // 1_000_000


def failing(disk: Disk, nth: int, error: type[Exception], *, half: bool) -> None:
    """Fail the n-th operation and all after it, until `disk.counting` is unset."""

    def at(count: int, file: DiskFile, what: str, data: bytes, offset: int) -> None:
        if count >= nth and (what == "write" or error is apsw.IOError):
            if half and what == "write":
                file.write(data[: len(data) // 2], offset)
            raise error("planted")

    disk.at, disk.count, disk.counting = at, 0, True


def ask_until_failed(service: EmbeddedService, bodies: list[bytes]) -> tuple[int, str]:
    """Ask one after another; return how many were answered, and the error after them."""
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
def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path, half: bool
) -> None:
    at = born()
    bodies = [asking("census", at, number) for number in range(REQUESTS)]
    failed = 0
    for nth, file in each_operation(tmp_path):
        with Disk() as disk:
            service = with_census(file, at)
            failing(disk, nth, apsw.FullError, half=half)
            answered, why = ask_until_failed(service, bodies)
            disk.counting = False
            if why:
                failed += 1
                assert "the disk is full" in why
                assert "make room" in why
                assert wait_ready(service)
                for body in bodies[answered:]:
                    service.submit_sync("requests", body, 10)
            service.close_sync()
        model = verdict(file, file.with_name("copy"))
        assert model.accounts["census"].grants == REQUESTS
        if not why:
            break
    assert failed >= REQUESTS


def test_a_disk_that_is_full_at_the_start_is_a_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with Disk() as disk:
        EmbeddedService.open(file, Settings()).close_sync()
        failing(disk, 1, apsw.FullError, half=False)
        with pytest.raises(Unavailable, match="the disk is full"):
            EmbeddedService.open(file, Settings())
        disk.counting = False
        EmbeddedService.open(file, Settings()).close_sync()


def wait_ready(service: EmbeddedService) -> bool:
    deadline = time.monotonic() + 10
    while not service.readiness().ready and time.monotonic() < deadline:
        time.sleep(0.01)
    return service.readiness().ready


@pytest.mark.parametrize("half", [False, True])
def test_an_io_error_ends_the_ledger_and_the_next_start_finds_it_sound(
    tmp_path: Path, half: bool
) -> None:
    at = born()
    bodies = [asking("census", at, number) for number in range(REQUESTS)]
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
        model = verdict(file, file.with_name("copy"))
        assert model.accounts["census"].grants == REQUESTS
        if not why:
            break
    assert failed >= REQUESTS


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose owner was killed: some of it in the WAL, some in the file itself."""
    file = tmp_path_factory.mktemp("history") / "ledger.db"
    at = born()

    def life(numbers: range) -> None:
        service = EmbeddedService.open(file, Settings())
        for name in ("census", "other", "idle"):
            service.submit_sync("admin", opening(name, at, ord(name[0])), 10)
        for number in numbers:
            name = ("census", "other")[number % 2]
            service.submit_sync("requests", asking(name, at, number, epsilon="0.03"), 10)
        die()

    import os

    for numbers in (range(1000, 1030), range(2000, 2030)):
        os.waitpid(forked(lambda numbers=numbers: life(numbers)), 0)  # type: ignore[misc]
    assert file.with_name("ledger.db-wal").stat().st_size > 50_000
    return file


async def opened(file: Path) -> Partition | BaseException:
    """Return what a processor reads back from a file, or why it does not."""
    observer = RecordingObserver()
    try:
        genesis = stored_genesis(file)
    except (LedgerFault, ValueError) as error:
        return error
    journal = SqliteJournal(file, inbox=AwaitableQueue(10))
    running = asyncio.create_task(Processor(journal, genesis, observer).run())
    await observer.until(lambda: bool(observer.refolds or observer.halt or observer.drops))
    partition = observer.partition
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return partition or observer.halt or observer.drops[0] or AssertionError("nothing")


def check(result: Partition | BaseException, original: list[bytes]) -> str:
    """Check that what was read back is a prefix of the original, whole and right."""
    if isinstance(result, BaseException):
        assert isinstance(result, Refused | LogDamaged | JournalFault), repr(result)
        return "refused"
    prefix = original[: result.sequence + 1]
    judge(prefix, None, dict(state_rows(result)) if len(prefix) > 1 else None)
    expected = Refold(result.genesis)
    for value in prefix:
        expected.take_decision(value)
    again = expected.finish()
    assert state_rows(again) == state_rows(result)
    assert len(again.ids) == len(result.ids), "an id was forgotten"
    return "whole" if len(prefix) == len(original) else "prefix"


def test_a_wal_cut_anywhere_leaves_a_committed_prefix(history: Path, tmp_path: Path) -> None:
    chance = random.Random(1)
    original, _ = contents(copied(history, tmp_path / "original"))
    size = history.with_name("ledger.db-wal").stat().st_size
    seen: Counter[str] = Counter()
    for _ in range(CUTS):
        file = copied(history, tmp_path / "cut")
        with file.with_name("ledger.db-wal").open("r+b") as wal:
            wal.truncate(chance.randrange(size))
        seen[check(asyncio.run(opened(file)), original)] += 1
    assert seen["prefix"] > CUTS / 2


@pytest.mark.parametrize("suffix", ["-wal", ""])
def test_flipped_bits_give_a_prefix_or_a_refusal_never_a_wrong_total(
    history: Path, tmp_path: Path, suffix: str
) -> None:
    chance = random.Random(2)
    original, _ = contents(copied(history, tmp_path / "original"))
    source = history
    if not suffix:  # all of it in the file itself
        source = tmp_path / "original" / history.name
    size = source.with_name(source.name + suffix).stat().st_size
    seen: Counter[str] = Counter()
    for i in range(FLIPS // 2):
        file = copied(source, tmp_path / "flipped")
        with file.with_name(file.name + suffix).open("r+b") as damaged:
            for _ in range(chance.choice([1, 1, 3])):
                at = chance.randrange(100 if i % 10 == 0 else size)
                damaged.seek(at)
                bits = damaged.read(1)[0] ^ 1 << chance.randrange(8)
                damaged.seek(at)
                damaged.write(bytes([bits]))
        seen[check(asyncio.run(opened(file)), original)] += 1
    assert seen["whole"] + seen["prefix"] > 10, seen
    assert suffix or seen["refused"] > 10, seen
