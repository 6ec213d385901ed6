"""Coroutines that submit in one turn of their event loop share a commit, and fail each alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from accountant.records import decode_decision
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.service.ledger_service import Submission
from streams.settings import Settings
from tests.patience import PATIENCE_S
from tests.streams.clock import TestClock
from tests.streams.embedded.test_many_bodies import bodies, opened, outcome
from tests.streams.waiting import eventually


async def submit_all(
    service: EmbeddedService, sent: list[bytes], wait: float = 20
) -> list[Submission | BaseException]:
    asked = [service.submit("requests", body, wait=wait) for body in sent]
    return await asyncio.gather(*asked, return_exceptions=True)


def outcomes(found: list[Submission | BaseException]) -> list[str]:
    return [outcome(each) for each in found]  # type: ignore[arg-type]


async def test_the_bodies_of_a_turn_are_few_commits_in_their_order(
    file: Path, clock: TestClock
) -> None:
    service = opened(file, clock)
    commits, sent = service.log.appended(), bodies(clock, 64)
    found = await submit_all(service, sent)
    assert outcomes(found) == ["granted"] * 64
    assert [each.offset for each in found if isinstance(each, Submission)] == list(range(64))
    sizes = []
    while (commit := commits.ready()) is not None:
        sizes.append(len(commit.values))
    assert sum(sizes) == 64
    assert len(sizes) <= 2
    await service.close()


async def test_each_answer_is_of_its_own_body(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    sent = bodies(clock, 20)
    for body, each in zip(sent, await submit_all(service, sent), strict=True):
        assert isinstance(each, Submission)
        assert each.decision is not None
        assert bytes(decode_decision(each.decision).request) == body
    await service.close()


async def test_only_bodies_without_room_fail(file: Path, clock: TestClock) -> None:
    service = opened(file, clock, Settings(most_waiting=30))
    sent = bodies(clock, 50)
    found = await submit_all(service, sent)
    assert [type(each) for each in found] == [Submission] * 30 + [Unavailable] * 20
    assert "waiting already" in str(found[-1])
    await asyncio.to_thread(eventually, lambda: len(service._inbox) == 0)
    assert outcomes(await submit_all(service, sent[30:])) == ["granted"] * 20
    await service.close()


async def test_a_closed_ledger_fails_each(file: Path, clock: TestClock) -> None:
    service = opened(file, clock)
    await service.close()
    found = await submit_all(service, bodies(clock, 3))
    assert [type(each) for each in found] == [Unavailable] * 3
    assert all("closed" in str(each) for each in found)


async def test_a_caller_that_gives_up_at_once_is_decided_all_the_same(
    file: Path, clock: TestClock
) -> None:
    service = opened(file, clock)
    (body,) = bodies(clock, 1)
    waiting = asyncio.create_task(service.submit("requests", body, wait=20))
    await asyncio.sleep(0)
    waiting.cancel()
    assert outcomes(await submit_all(service, [body])) == ["repeated"]
    await service.close()


def test_a_loop_that_ends_within_its_turn_does_not_stop_the_next_one(
    file: Path, clock: TestClock
) -> None:
    service = opened(file, clock)
    first, second = bodies(clock, 2)
    ended = asyncio.new_event_loop()

    async def give_up() -> None:
        ended.stop()
        await service.submit("requests", first, wait=20)

    task = ended.create_task(give_up())
    ended.run_forever()
    ended.close()
    found = asyncio.run(service.submit("requests", second, wait=20))
    assert outcome(found) == "granted"
    assert not task.done()
    service.close_sync()


async def test_each_wait_ends_after_its_own_time_and_its_body_stays_queued(
    file: Path, clock: TestClock
) -> None:
    service = opened(file, clock)
    sent = bodies(clock, 4)
    waits, loop = (0.1, 0.1, 0.4, 20.0), asyncio.get_running_loop()
    ended: dict[int, float] = {}

    async def submit(number: int) -> Submission:
        began = loop.time()
        answer = await service.submit("requests", sent[number], wait=waits[number])
        ended[number] = loop.time() - began
        return answer

    with service._writer._lock:  # the writer has to wait
        tasks = [asyncio.create_task(submit(number)) for number in range(4)]
        await asyncio.wait(tasks[:3])
        assert [task.result() for task in tasks[:3]] == [Submission(decision=None, partition=0)] * 3
        assert not tasks[3].done()
    assert ended[0] >= 0.09
    assert ended[1] >= 0.09
    assert ended[2] >= 0.39
    assert outcome(await tasks[3]) == "granted"
    assert outcomes(await submit_all(service, sent)) == ["repeated"] * 4
    await service.close()


async def test_a_caller_that_leaves_within_the_turn_ends_nobody_elses_wait(
    file: Path, clock: TestClock
) -> None:
    service = opened(file, clock)
    first, second = bodies(clock, 2)
    with service._writer._lock:
        leaving = asyncio.create_task(service.submit("requests", first, wait=0.2))
        asyncio.get_running_loop().call_soon(leaving.cancel)
        staying = asyncio.create_task(service.submit("requests", second, wait=0.2))
        done, _ = await asyncio.wait([staying], timeout=PATIENCE_S)
    assert done == {staying}
    assert staying.result().decision is None
    assert leaving.cancelled()
    await service.close()


async def test_no_timer_is_left_behind(file: Path, clock: TestClock) -> None:
    service, loop = opened(file, clock), asyncio.get_running_loop()
    before = len(loop._scheduled)  # type: ignore[attr-defined]
    await submit_all(service, bodies(clock, 64), wait=1_000)
    left = [each for each in loop._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
    assert len(left) <= before
    await service.close()
