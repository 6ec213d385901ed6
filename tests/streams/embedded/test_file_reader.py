"""Readers of a file see what its service says, and leave no trace."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accountant.claims import Pure
from accountant.errors import LogDamaged
from accountant.records import decode_decision, encode
from accountant.records.previews import PreviewRequest
from accountant.views.visibility import Caller
from streams.embedded import ledger_file
from streams.embedded.file_reader import FileReader
from streams.embedded.ledger_file import FileChanged
from streams.embedded.service import EmbeddedService
from streams.errors import Gone, Refused
from streams.settings import Settings
from tests.every_case import every_case
from tests.ledger_file import connected
from tests.streams.auth.roles_server import KINDS, RolesServer
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import archive_file, fill, ledger_of

DATASETS = [*KINDS, "elsewhere", "nowhere"]
ASKED = PreviewRequest(Pure(epsilon="0.1"), "person", "add_remove", "ana")


class Furnished:
    def __init__(self, directory: Path) -> None:
        self.path, self.clock = directory / "ledger.db", TestClock()
        self.first = dict[str, str]()
        with RolesServer(directory, clock=self.clock) as server:
            server.furnish()
            for dataset in KINDS:
                for name in ("ana", "ben"):
                    body = server.granted(dataset, name)
                    self.first[dataset] = body["request_id"]
                    server.granted(dataset, name, via="eng")


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    return Furnished(tmp_path_factory.mktemp("read-only"))


PageData = Callable[[Any, str], Any]


async def _recent(service: Any, dataset: str) -> Any:
    return [each async for each in _pages(service, dataset)]


async def _pages(service: Any, dataset: str) -> Any:
    after = 0
    while page := await service.decisions(dataset, after=after, limit=3):
        for value in page:
            yield value
        after = decode_decision(page[-1]).sequence


READS: dict[str, PageData] = {
    "datasets": lambda service, _: service.datasets(),
    "dataset": lambda service, name: service.dataset(name),
    "members": lambda service, name: service.members(name),
    "levels": lambda service, name: service.levels(name),
    "budget": lambda service, name: service.budget_for(name, "ana"),
    "preview": lambda service, name: service.preview(name, ASKED),
    "usage": lambda service, name: service.usage(name),
    "days": lambda service, name: service.usage_by(name, "day"),
    "why": lambda service, name: service.why(name, analyst="ana"),
    "overview": lambda service, name: service.overview(name, Caller("ana")),
    "overview of all": lambda service, name: service.overview(name, None),
    "decisions": _recent,
    "heads": lambda service, _: service.heads(),
}


@every_case("dataset", DATASETS)
async def test_a_read_only_ledger_equals_the_running_service(
    furnished: Furnished, dataset: str
) -> None:
    service = EmbeddedService.open(
        furnished.path, Settings(checkpoints="off"), clock=furnished.clock
    )
    # A reader for each question: what one has read must not help with the next.
    readers = {what: FileReader(furnished.path, furnished.clock) for what in READS}
    beside = dict[str, Any]()
    try:
        for what, reader in readers.items():
            beside[what] = _plain(await READS[what](reader, dataset))
            assert beside[what] == _plain(await READS[what](service, dataset)), what
    finally:
        await service.close()
    for what, reader in readers.items():
        assert _plain(await READS[what](reader, dataset)) == beside[what], what
        await reader.close()


def _plain(found: Any) -> Any:
    if isinstance(found, list):
        return [_plain(each) for each in found]
    # The service counts requests since its start; a reader counts those of the whole log.
    reported = json.loads(encode(found)) if isinstance(found, msgspec.Struct) else found
    if isinstance(reported, dict):
        for view in (reported, reported.get("dataset")):
            if isinstance(view, dict):
                for counted in ("outcomes", "reasons", "partition_sequence"):
                    view.pop(counted, None)
    return reported


async def test_a_decision_is_found_by_its_id(furnished: Furnished) -> None:
    reader = FileReader(furnished.path, furnished.clock)
    for dataset, request_id in furnished.first.items():
        found = await reader.find(dataset, "ben", request_id)
        assert found is not None
        assert decode_decision(found).outcome == "granted"
        assert await reader.find(dataset, "ana", request_id) is None
    assert await reader.find("nowhere", "ben", request_id) is None
    await reader.close()


async def test_a_reader_writes_nothing_and_locks_nothing(furnished: Furnished) -> None:
    def traces() -> dict[str, tuple[int, bytes]]:
        # SQLite keeps its readers' marks in a -shm that a writer has made.
        files = [each for each in furnished.path.parent.iterdir() if each.suffix != ".db-shm"]
        return {each.name: (each.stat().st_mtime_ns, each.read_bytes()) for each in files}

    for suffix in ("-wal", "-shm"):  # as the end of a writer leaves it
        furnished.path.with_name(f"ledger.db{suffix}").unlink(missing_ok=True)
    before = traces()
    reader = FileReader(furnished.path, furnished.clock)
    for read in READS.values():
        for dataset in DATASETS:
            await read(reader, dataset)
    assert traces() == before
    service = EmbeddedService.open(
        furnished.path, Settings(checkpoints="off"), clock=furnished.clock
    )
    await service.close()
    with pytest.raises(Refused, match="read_only"):
        await reader.submit("requests", b"{}", wait=0)
    await reader.close()


async def test_a_read_during_the_start_of_a_writer_raises_file_changed(tmp_path: Path) -> None:
    furnished = Furnished(tmp_path)
    for suffix in ("-wal", "-shm"):
        furnished.path.with_name(f"ledger.db{suffix}").unlink(missing_ok=True)
    settings = Settings(checkpoints="off")
    reading = ledger_file.reader(furnished.path, traceless=True)
    reading.__enter__()
    service = EmbeddedService.open(furnished.path, settings, clock=furnished.clock)
    with pytest.raises(FileChanged):
        reading.__exit__(None, None, None)
    await service.close()


DAMAGE = {
    "a row": ("UPDATE state SET value = x'7b' WHERE key = CAST('census' AS BLOB)", "the row of"),
    "a sound row of another moment": (
        "DELETE FROM state WHERE key = CAST('census' AS BLOB)",
        "`state` has .* datasets, but .*`accountant audit`",
    ),
    "the last decision": (
        "UPDATE decisions SET value = x'7b' WHERE sequence = (SELECT max(sequence) FROM decisions)",
        "decision [0-9]+ ",
    ),
    "no last decision": (
        "DELETE FROM decisions WHERE sequence = (SELECT max(sequence) FROM decisions)",
        "decision [0-9]+ of the log is missing",
    ),
}


@every_case("what", DAMAGE)
async def test_damage_is_reported_each_time(tmp_path: Path, what: str) -> None:
    path, clock = tmp_path / f"{list(DAMAGE).index(what)}.db", TestClock()
    change, message = DAMAGE[what]
    with ledger_of(path, clock) as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
        ledger.ask("census", "pure:0.05")
    with connected(path) as file:
        file.execute(change)
        assert file.changes() == 1
    reader = FileReader(path, clock)
    for _ in range(3):
        with pytest.raises((LogDamaged, Refused), match=message):
            await reader.datasets()
    await reader.close()


async def test_a_view_says_as_of_which_decision_it_is(furnished: Furnished) -> None:
    reader = FileReader(furnished.path, furnished.clock)
    last, _ = await reader.log.last(0)
    for view in await reader.datasets():
        assert view.partition_sequence == last
    await reader.close()


async def test_a_log_whose_rows_are_gone_is_read_from_its_beginning(tmp_path: Path) -> None:
    furnished = Furnished(tmp_path)
    reader = FileReader(furnished.path, furnished.clock)
    whole = await reader.datasets()
    with connected(furnished.path) as file:
        file.execute("DELETE FROM state")
    fresh = FileReader(furnished.path, furnished.clock)
    assert _plain(await fresh.datasets()) == _plain(whole)
    for each in (reader, fresh):
        await each.close()


async def test_another_file_at_the_path_is_read_again(tmp_path: Path) -> None:
    clock = TestClock()
    found = list[str]()
    for name, epsilon in (("first", "100"), ("second", "7")):
        with ledger_of(tmp_path / f"{name}.db", clock) as ledger:
            policy = {"filter": "basic", "epsilon": epsilon}
            ledger.as_owner("owner").open("census", policy, as_given=True)
    reader = FileReader(tmp_path / "first.db", clock)
    for _ in range(2):
        view = await reader.dataset("census")
        assert view is not None
        found.append(view.budget["epsilon"])
        if len(found) == 1:
            (tmp_path / "second.db").rename(tmp_path / "first.db")
    assert found == ["100", "7"]
    await reader.close()


async def test_a_log_that_is_archived_meanwhile_is_read_on(tmp_path: Path) -> None:
    clock, path = TestClock(), tmp_path / "ledger.db"
    with ledger_of(path, clock) as ledger:
        ledger.as_owner("owner").open("early", {"filter": "basic", "epsilon": "1"}, as_given=True)
        ledger.ask("early", "pure:0.05")
    await asyncio.to_thread(fill, path, clock)
    all_, one = FileReader(path, clock), FileReader(path, clock)
    assert len(await all_.datasets()) == 3
    assert await one.dataset("survey") is not None

    def more() -> None:
        with ledger_of(path, clock) as ledger:
            for _ in range(3):
                ledger.ask("survey", "pure:0.01")
        clock.pass_(seconds=7200)
        with ledger_of(path, clock) as ledger:
            ledger.ask("survey", "pure:0.01")

    await asyncio.to_thread(more)
    await asyncio.to_thread(archive_file, path, clock, tmp_path / "archive.gz")
    fresh = FileReader(path, clock)
    service = EmbeddedService.open(path, Settings(checkpoints="off"), clock=clock)
    try:
        for name in ("survey", "census", "early"):
            view = await fresh.dataset(name)
            assert _plain(await one.dataset(name)) == _plain(view)
            among = {each.dataset: each for each in await all_.datasets()}
            assert _plain(among[name]) == _plain(view)
            shown, held = await fresh.overview(name, None), await service.overview(name, None)
            assert shown is not None
            assert held is not None
            assert encode(shown.requests) == encode(held.requests)
            assert not shown.requests.is_whole
            assert shown.requests.archived
        assert len((await fresh.overview("survey", None)).requests.decisions) > 0  # type: ignore[union-attr]
        with pytest.raises(Gone):
            await fresh.decisions("early", after=0, limit=10)
    finally:
        await service.close()
        for each in (all_, one, fresh):
            await each.close()


async def test_decisions_are_read_to_the_end_of_the_log(tmp_path: Path) -> None:
    clock, path = TestClock(), tmp_path / "ledger.db"
    reader = None
    for granted in range(1, 4):
        with ledger_of(path, clock) as ledger:
            if granted == 1:
                ledger.as_owner("o").open(
                    "census", {"filter": "basic", "epsilon": "1"}, as_given=True
                )
            ledger.ask("census", "pure:0.01")
        reader = reader or FileReader(path, clock)
        assert len(await reader.decisions("census", after=0, limit=10)) == granted + 1
        assert len(await reader.decisions("census", after=granted, limit=10)) == 1
    assert reader is not None
    await reader.close()


async def test_calls_from_many_threads_wait_for_one_another(furnished: Furnished) -> None:
    reader = FileReader(furnished.path, furnished.clock)
    whole = await FileReader(furnished.path, furnished.clock).datasets()

    async def cancelled() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await reader.datasets()

    await asyncio.gather(*[cancelled() for _ in range(8)])
    found = await asyncio.gather(*[reader.datasets() for _ in range(8)])
    assert all(each == whole for each in found)
    await reader.close()
