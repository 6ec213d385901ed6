"""A worker's reaction to leaders that do not answer, on a real broker.

Of a real broker that hangs: tests/faults/test_kafka_cluster.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from aiokafka import TopicPartition

from accountant.partition import Partition
from accountant.partition.key_hash import partition_of
from streams.errors import Unavailable
from streams.kafka.wire.probe import LogEnds, Probe
from streams.testing import LocalBroker
from streams.worker.partitions import Worker
from tests.faults import oracle
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.faults.operator import Operator
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.worker.partitions._LOOK_EVERY_S", 0.5)


class _PartlyMutedProbe:
    """A probe whose answers do not all arrive.

    Attributes:
        partitions: of which the leaders say nothing; None: nobody says anything.
        looks: how many there were.
    """

    def __init__(self, worker: Worker) -> None:
        self._probe: Probe = worker._log_ends._probe
        self.partitions: set[int] | None = set()
        self.looks = 0
        worker._log_ends._probe = self  # type: ignore[assignment]  # to be looked through by the worker

    async def look(self, tps: Iterable[TopicPartition]) -> LogEnds:
        self.looks += 1
        if self.partitions is None:
            raise Unavailable("nobody there")
        look = await self._probe.look(tps)
        for tp in [tp for tp in look.ends if tp.partition in self.partitions]:
            del look.ends[tp]
            look.silent[tp] = "no answer in time"
        return look

    async def begins(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._probe.begins(tps)

    def close(self) -> None:
        self._probe.close()

    async def further(self, count: int = 2) -> None:
        """Return after so many more looks."""
        wanted = self.looks + count
        await until(lambda: self.looks >= wanted, "looks")


async def test_only_partitions_of_a_silent_leader_are_not_ready_and_are_replayed_later(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with Ledger(broker.bootstrap, application, partitions=3) as ledger:
        await ledger.open("ds")
        async with working(ledger, observers=[watch]) as worker:
            muted = _PartlyMutedProbe(worker)
            assert watch.refolded_of == {0: 1, 1: 1, 2: 1}
            muted.partitions = {1}
            await until(lambda: not is_ready(worker), "reported")
            await muted.further()
            (why,) = worker.status.readiness().reasons
            assert why.startswith("partition 1: the broker that leads ")
            assert [worker.status.is_sound(number) for number in range(3)] == [True, False, True]
            assert watch.refolded_of == {0: 1, 1: 1, 2: 1}, "nothing is gained before it answers"
            muted.partitions = set()
            await until(lambda: watch.refolded_of[1] == 2, "read again")
            await until(lambda: is_ready(worker), "ready")
            await muted.further()
            assert watch.refolded_of == {0: 1, 1: 2, 2: 1}
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
        await ledger.judged()


async def test_after_an_outage_of_all_brokers_all_partitions_are_replayed_once(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with (
        Ledger(broker.bootstrap, application, partitions=2) as ledger,
        working(ledger, observers=[watch]) as worker,
    ):
        muted = _PartlyMutedProbe(worker)
        muted.partitions = None
        await until(lambda: "does not answer" in str(worker.status.readiness()), "reported")
        await muted.further()
        assert watch.refolded_of == {0: 1, 1: 1}
        muted.partitions = set()
        await until(lambda: watch.refolded_of == {0: 2, 1: 2}, "read again")
        await muted.further()
        await until(lambda: is_ready(worker), "ready")
        assert watch.refolded_of == {0: 2, 1: 2}


async def test_a_partition_that_noticed_the_outage_itself_is_not_replayed_twice(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        await ledger.open("ds")
        async with working(ledger, observers=[watch]) as worker:
            muted = _PartlyMutedProbe(worker)
            # Its broker was away and it dropped the partition, which it cannot own yet.
            worker.status.dropped(0, Unavailable("away"))
            muted.partitions = {0}
            await muted.further()
            worker.status.replayed(ledger_partition(ledger), 0.0)
            muted.partitions = set()
            await muted.further()
            assert watch.refolded_of == {0: 1}


def ledger_partition(ledger: Ledger) -> Partition:
    """Return a partition in its first state."""
    return Partition(ledger.deployment.genesis(0))


@pytest.mark.parametrize("silent", [{0}, {0, 1}])
async def test_a_worker_can_stop_while_leaders_are_silent(
    broker: LocalBroker, application: str, silent: set[int]
) -> None:
    async with (
        Ledger(broker.bootstrap, application, partitions=2) as ledger,
        working(ledger) as worker,
    ):
        _PartlyMutedProbe(worker).partitions = silent
        await until(lambda: not is_ready(worker), "reported")
        async with asyncio.timeout(PATIENCE_S):
            await worker.stop()


async def test_a_partition_whose_decisions_are_deleted_while_it_is_served_halts(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        names = [
            next(n for i in range(99) if partition_of((n := f"ds-{i}").encode(), 2) == part)
            for part in range(2)
        ]
        await ledger.open(*names)

        def decisions_left() -> int:
            return len(oracle.read(broker.bootstrap, ledger.topic("decisions"), 2)[1])

        async with working(ledger, looks_again=(0.1,)) as worker:
            assert (await ledger.decided(request(names[1])))["outcome"] == "granted"
            Operator(ledger).delete_before("decisions", 1, 1)
            await until(
                lambda: any("halted" in why for why in worker.status.readiness().reasons), "halted"
            )
            (why,) = worker.status.readiness().reasons
            assert "begins at offset 1: decisions were deleted" in why
            before = decisions_left()
            await ledger.send_all([request(names[1])])
            assert (await ledger.decided(request(names[0])))["outcome"] == "granted"
            assert decisions_left() == before  # nothing is decided there any more
