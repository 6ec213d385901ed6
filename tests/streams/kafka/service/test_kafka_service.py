"""How a gateway on Kafka takes decisions, without a broker."""

from __future__ import annotations

import asyncio

from accountant.records import decode_decision
from streams.kafka.deployment import Deployment
from streams.kafka.service.kafka_service import KafkaService
from tests.accountant.replay.test_follow import opened
from tests.accountant.world import World, code


async def service_of(world: World) -> KafkaService:
    """Return a service that has taken the rows of a ledger, and reads its decisions."""
    service = KafkaService(Deployment(bootstrap="127.0.0.1:9", partitions=1))
    assert await service.states.take_rows(0, dict(world.rows()))
    service.states.read_on()
    service._tail.trouble = None
    return service


async def test_other_tasks_get_their_turn_while_a_backlog_is_applied() -> None:
    world = opened()
    service, known, turns = await service_of(world), len(world.log), 0
    for _ in range(500):
        assert code(world.ask("pure:0.001")) == "granted"

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await service._take_decisions(0, world.log[known:])
    task.cancel()
    view = await service.dataset("census")
    assert view is not None
    assert view.totals["mechanisms"] == 500
    assert turns >= 10, "at most 50 decisions a turn"


async def test_whoever_was_answered_finds_the_decision_in_the_next_read() -> None:
    world = opened()
    service, known = await service_of(world), len(world.log)
    for _ in range(120):
        assert code(world.ask("pure:0.001")) == "granted"
    answered = list[tuple[int, int]]()

    async def wait_for(offset: int) -> None:
        future = asyncio.get_running_loop().create_future()
        service._submissions._pending[0, "requests", offset] = future
        decision = decode_decision(await future)
        view = await service.dataset("census")
        assert view is not None
        answered.append((int(decision.sequence or 0), view.sequence))

    tasks = [asyncio.create_task(wait_for(offset)) for offset in range(120)]
    await asyncio.sleep(0)
    await service._take_decisions(0, world.log[known:])
    await asyncio.gather(*tasks)
    assert len(answered) == 120
    assert all(shown >= decided for decided, shown in answered)


async def test_an_unreadable_decision_stops_its_partition_alone_for_subscribers_too() -> None:
    world = opened()
    service, known = await service_of(world), len(world.log)
    for _ in range(2):
        assert code(world.ask("pure:0.1")) == "granted"
    events, alerts = service.events(), service.alerts()
    good, bad = world.log[known:]
    header_alone = bad.replace(b'"rules":1', b'"rules":"one"')
    assert header_alone != bad
    taking = service._take_decisions(0, [good, header_alone])
    assert await asyncio.gather(taking, return_exceptions=True) == [False]
    assert service.states.known() == {0: False}
    service._announced.end()
    assert [each async for each in events] == [decode_decision(good)]
    assert [each async for each in alerts] == []
