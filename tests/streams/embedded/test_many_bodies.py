"""Many bodies at once in a file's ledger: each is queued, decided or failed as if sent alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import msgspec
import pytest

from accountant.errors import BudgetError
from accountant.records import decode_decision
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.service.ledger_service import Submission
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.gateway.records import opening, request
from tests.streams.waiting import eventually


def opened(file: Path, clock: TestClock, settings: Settings | None = None) -> EmbeddedService:
    service = EmbeddedService.open(file, settings or Settings(), clock=clock)
    body = msgspec.json.encode(opening(clock, epsilon="1000"))
    service.submit_sync("admin", body, 10)
    return service


def bodies(clock: TestClock, count: int) -> list[bytes]:
    return [msgspec.json.encode(request(clock)) for _ in range(count)]


def outcome(answer: Submission | BudgetError) -> str:
    assert isinstance(answer, Submission), answer
    assert answer.decision is not None
    return decode_decision(answer.decision).outcome


async def test_they_are_few_commits(
    file: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened(file, clock)
    commits = service.log.appended()
    found = await service.submit_many(bodies(clock, 200), wait=20)
    assert {outcome(each) for each in found} == {"granted"}
    assert [each.offset for each in found if isinstance(each, Submission)] == list(range(200))
    sizes = []
    while (commit := commits.ready()) is not None:
        sizes.append(len(commit.values))
    assert sum(sizes) == 200
    assert len(sizes) <= 5
    await service.close()


@pytest.mark.parametrize("wait", [0, 20])
async def test_those_without_room_in_the_queue_fail_and_the_others_are_decided(
    file: Path, clock: TestClock, wait: float
) -> None:
    service = opened(file, clock, Settings(most_waiting=30))
    sent = bodies(clock, 50)
    found = await service.submit_many(sent, wait=wait)
    assert [type(each) for each in found] == [Submission] * 30 + [Unavailable] * 20
    assert "waiting already" in str(found[-1])
    await asyncio.to_thread(eventually, lambda: len(service._inbox) == 0)
    again = [outcome(each) for each in await service.submit_many(sent[:30], wait=20)]
    assert again == ["repeated"] * 30
    rest = [outcome(each) for each in await service.submit_many(sent[30:], wait=20)]
    assert rest == ["granted"] * 20
    await service.close()


async def test_after_a_fault_the_same_bodies_are_decided_once(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    sent = bodies(clock, 20)
    blocker = apsw.Connection(str(file))
    blocker.execute("BEGIN IMMEDIATE")
    found = await service.submit_many(sent, wait=20)
    assert {type(each) for each in found} == {Unavailable}
    assert all("same bytes" in str(each) for each in found)
    blocker.execute("ROLLBACK")
    blocker.close()
    first = [outcome(each) for each in await service.submit_many(sent, wait=20)]
    again = [outcome(each) for each in await service.submit_many(sent, wait=20)]
    assert first == ["granted"] * 20
    assert again == ["repeated"] * 20
    await service.close()


async def test_when_the_time_is_up_they_are_undecided_and_stay_queued(
    file: Path, clock: TestClock
) -> None:
    service = opened(file, clock)
    sent = bodies(clock, 20)
    with service._writer._lock:  # the writer has to wait
        found = await service.submit_many(sent, wait=0.05)
        assert found == [Submission(decision=None, partition=0)] * 20
    async with asyncio.timeout(PATIENCE_S):
        again = [outcome(each) for each in await service.submit_many(sent, wait=20)]
    assert again == ["repeated"] * 20
    await service.close()


async def test_a_closed_ledger_fails_each(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    await service.close()
    found = await service.submit_many(bodies(clock, 2), wait=1)
    assert [type(each) for each in found] == [Unavailable] * 2
    assert "closed" in str(found[0])
