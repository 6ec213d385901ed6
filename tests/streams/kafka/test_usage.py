"""Who used what, as a service on Kafka has it of the decisions that its tail hands over."""

from __future__ import annotations

from functools import partial

from streams.kafka.deployment import Deployment
from streams.kafka.service import KafkaService
from tests.accountant.world import World
from tests.streams.steps import steps


async def of_log(analysts: int) -> KafkaService:
    """Return a service that was given a log: five analysts of `adult`, and many of `census`."""
    world = World(batch=500)
    for name in "census", "adult":
        world.open(name, epsilon="1", filter="basic")
    for number in range(analysts):
        world.ask("pure:5", analyst=f"a{number}")
    for number in range(5):
        world.ask("pure:0.1", dataset="adult", analyst=f"b{number}")
    service = KafkaService(Deployment(bootstrap="127.0.0.1:9"))  # nobody is asked for anything
    await service._take_decisions(0, world.log)
    return service


async def test_usage_of_one_dataset_does_not_grow_with_analysts_of_others() -> None:
    spent = []
    for analysts in (5, 500):
        service = await of_log(analysts)
        used = await service.usage("adult")
        assert [(use.analyst, use.granted) for use in used] == [(f"b{i}", 1) for i in range(5)]
        assert await service.usage("nowhere") == []
        spent.append(steps(partial(list, service.usage("adult").__await__())))
        await service.close()
    assert spent[0] == spent[1]


async def test_very_many_analysts_of_a_dataset_are_shown_as_few_are() -> None:
    service = await of_log(1_200)
    used = await service.usage("census")
    assert sorted(use.analyst for use in used) == sorted(f"a{number}" for number in range(1_200))
    assert {(use.granted, use.refused) for use in used} == {(0, 1)}
    await service.close()
