"""One contract for usage, of a ledger in a file and of one on Kafka: the index of each is one."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from accountant.records import Source
from accountant.views.usage import BYS, By, UsageRow
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.kafka.service.kafka_service import KafkaService
from streams.service.ledger_service import Service
from streams.settings import load
from tests.patience import PATIENCE_S
from tests.streams.index.logs import recounted


class IndexedLedger(ABC):
    """A ledger with an index that can be opened again."""

    index: Path

    @abstractmethod
    async def open(self) -> EmbeddedService | KafkaService:
        """Return a service of it; the last one is closed."""

    @abstractmethod
    def log(self) -> list[bytes]:
        """Return all decisions."""

    @abstractmethod
    async def close(self) -> None:
        """End what decides."""


class InFile(IndexedLedger):
    def __init__(self, directory: Path) -> None:
        self._file = directory / "ledger.db"
        self.index = directory / "usage.index"

    async def open(self) -> EmbeddedService:
        return EmbeddedService.open(self._file, load(index=self.index))

    def log(self) -> list[bytes]:
        from streams.embedded.ledger_file import read_decisions

        return list(read_decisions(self._file))

    async def close(self) -> None:
        """The service has decided; it is closed."""


class OnKafka(IndexedLedger):
    def __init__(self, bootstrap: str, application: str, directory: Path) -> None:
        from tests.faults.ledger import Ledger

        self.index = directory / "usage.index"
        self._ledger = Ledger(bootstrap, application, partitions=2)
        self._working: Any = None

    async def start(self) -> None:
        from tests.faults.ledger import working

        await self._ledger.__aenter__()
        self._working = working(self._ledger)
        await self._working.__aenter__()

    async def open(self) -> KafkaService:
        service = await KafkaService.start(self._ledger.deployment, index=self.index)
        service.usage_index.start()
        return service

    def log(self) -> list[bytes]:
        from tests.faults import oracle

        name = self._ledger.topic("decisions")
        found = oracle.read(self._ledger.bootstrap, name, 2)
        return [record.value or b"" for part in found for record in part]

    async def close(self) -> None:
        await self._working.__aexit__(None, None, None)
        await self._ledger.__aexit__(None, None, None)


@pytest.fixture(params=["file", pytest.param("kafka", marks=pytest.mark.kafka)])
async def indexed_ledger(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[IndexedLedger]:
    made: IndexedLedger
    if request.param == "file":
        made = InFile(tmp_path)
    else:
        bootstrap = request.getfixturevalue("broker").bootstrap
        on_kafka = OnKafka(bootstrap, request.getfixturevalue("application"), tmp_path)
        await on_kafka.start()
        made = on_kafka
    yield made
    await made.close()


async def decided(service: Service, source: Source, body: bytes) -> str:
    answer = await service.submit(source, body, wait=PATIENCE_S)
    assert answer.decision is not None
    return str(json.loads(answer.decision)["outcome"])


async def open_two(service: Service) -> None:
    from tests.faults.ledger import opening

    for name in ("d0", "d1"):
        opened = opening(name, filter="basic", epsilon="1")
        assert await decided(service, "admin", opened) == "opened"


async def ask_some(service: Service, *, first: int = 0) -> None:
    from tests.faults.ledger import request

    for number in range(first, first + 6):
        body = request(
            f"d{number % 2}",
            epsilon="5" if number % 3 == 2 else f"0.0{number + 1}",
            analyst=f"a{number % 3}",
            purpose=["", "α, β", '"'][number % 3],
        )
        assert await decided(service, "requests", body) in {"granted", "refused"}


async def rows(service: EmbeddedService | KafkaService, name: str, by: By) -> list[UsageRow]:
    """Return usage; ask again where the index is being built."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await service.usage_by(name, by)
            except Unavailable:
                await asyncio.sleep(0.05)


async def check(indexed_ledger: IndexedLedger, service: EmbeddedService | KafkaService) -> None:
    """Compare all there is to ask with a plain count of the log."""
    log = await asyncio.to_thread(indexed_ledger.log)
    for name in ("d0", "d1"):
        for by in BYS:
            found = await rows(service, name, by)
            assert [row.key for row in found] == sorted(row.key for row in found)
            assert {row.dataset for row in found} == {name}
            sums = {row.key: (row.granted, row.refused, Fraction(row.spent)) for row in found}
            assert sums == recounted(log, name, by)
        await check_why(service, name, log)
        analysts = await rows(service, name, "analyst")
        assert await service.usage(name) == [row.view() for row in analysts]
    assert await service.usage("nowhere") == []


async def check_why(service: EmbeddedService | KafkaService, name: str, log: list[bytes]) -> None:
    """Compare why, which the same index answers, with plain counts of the log."""
    why = await service.why(name, analyst="nobody")
    assert why is not None
    expected = recounted(log, name, "analyst") | {"nobody": (0, 0, Fraction(0))}
    found = {row.analyst: (row.granted, row.refused, Fraction(row.spent)) for row in why.by_analyst}
    assert found == expected
    spent = sum(each[2] for each in expected.values())
    for table in (why.by_team, why.by_purpose, why.by_week):
        assert sum(Fraction(row.spent) for row in table) == spent
    assert Fraction(why.spent) == spent == Fraction(why.budget) - Fraction(why.left)
    assert sum(each.refused for each in why.refusals) == sum(each[1] for each in expected.values())
    grants = sorted((Fraction(each.cost) for each in why.largest), reverse=True)
    assert grants == [Fraction(each.cost) for each in why.largest]
    assert sum(grants) == spent  # fewer than are kept
    whole = [each for each in why.forecasts if each.scope == "all"]
    assert {Fraction(each.spent) for each in whole} == {spent}
    assert {each.left for each in whole} == {why.left}
    assert await service.why("nowhere") is None


async def test_usage_is_of_every_decision(indexed_ledger: IndexedLedger) -> None:
    service = await indexed_ledger.open()
    try:
        await open_two(service)
        await ask_some(service)
        await check(indexed_ledger, service)
        await ask_some(service, first=6)
        await check(indexed_ledger, service)
        assert service.readiness().notes == []
    finally:
        await service.close()


async def test_an_answered_decision_is_in_usage(indexed_ledger: IndexedLedger) -> None:
    from tests.faults.ledger import request

    service = await indexed_ledger.open()
    try:
        await open_two(service)
        for number in range(1, 6):
            assert await decided(service, "requests", request("d0", epsilon="0.1")) == "granted"
            (row,) = await rows(service, "d0", "day")
            assert row.granted == number
    finally:
        await service.close()


async def test_usage_survives_a_restart(indexed_ledger: IndexedLedger) -> None:
    for number in range(3):
        service = await indexed_ledger.open()
        try:
            if not number:
                await open_two(service)
            else:
                await check(indexed_ledger, service)
            await ask_some(service, first=6 * number)
            await check(indexed_ledger, service)
        finally:
            await service.close()


@pytest.mark.parametrize("what", ["foreign", "directory", "deleted", "damaged", "not writable"])
async def test_decisions_and_usage_continue_without_a_working_index(
    indexed_ledger: IndexedLedger, what: str
) -> None:
    service = await indexed_ledger.open()
    try:
        await open_two(service)
        await ask_some(service)
        await check(indexed_ledger, service)
    finally:
        await service.close()
    spoil(indexed_ledger.index, what)
    service = await indexed_ledger.open()
    try:
        await ask_some(service, first=6)
        await check(indexed_ledger, service)
        readiness = service.readiness()
        assert readiness.ready
        words = {"foreign": "move it away", "directory": "cannot be opened"}
        if what in words:
            assert words[what] in readiness.notes[0]
        elif what == "not writable":
            assert "written" in readiness.notes[0] or "locked" in readiness.notes[0]
        else:
            assert readiness.notes == []
    finally:
        await service.close()


def spoil(index: Path, what: str) -> None:
    if what == "not writable":
        # Nothing keeps root from writing; SQLite itself may only read a file of this format.
        with index.open("r+b") as file:
            file.seek(18)
            file.write(b"\x03")
        return
    content = index.read_bytes()
    for each in index.parent.glob("usage.index*"):
        each.unlink()
    if what == "foreign":
        index.write_text("somebody's notes " * 100)
    elif what == "directory":
        index.mkdir()
    elif what == "damaged":
        index.write_bytes(content[:4096] + b"\xa5" * 8192)
