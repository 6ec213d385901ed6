"""What a worker does about the ends and beginnings of its logs, without a broker."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from aiokafka import TopicPartition

from streams.errors import Refused
from streams.kafka.deployment import Deployment, TopicNames
from streams.kafka.wire.probe import LogEnds
from streams.worker.leader_watch import LeaderWatch
from streams.worker.status import Status


class _CutProbe:
    """A probe of logs whose decisions begin elsewhere, without a broker."""

    def __init__(self, begins: dict[int, int]) -> None:
        self._begins = begins

    async def look(self, tps: Iterable[TopicPartition]) -> LogEnds:
        look = LogEnds(())
        look.ends = dict.fromkeys(tps, 9)
        return look

    async def begins(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self._begins[tp.partition] for tp in tps if tp.partition in self._begins}


async def test_deleted_decisions_are_replayed_once() -> None:
    async def right() -> bool:
        return False

    status = Status()
    topics = TopicNames("app.")
    deployment = Deployment(bootstrap="127.0.0.1:1", application="app", topics=topics, partitions=4)
    watch = LeaderWatch(deployment, status, right)
    watch._probe = _CutProbe({0: 0, 1: 7, 2: 3})  # type: ignore[assignment]
    for number in range(4):
        status.replayed(SimpleNamespace(genesis=SimpleNamespace(partition=number)), 0)
    assert await watch.look(range(4)) == {1, 2}
    status.halted(2, Refused("its decisions were deleted"))
    assert await watch.look(range(4)) == {1}  # one that has halted stays so
