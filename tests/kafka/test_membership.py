"""A worker's membership in its group: taken over by another worker, or lost by its client."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition

from streams.errors import Refused
from streams.kafka.log.membership import GroupMembership
from streams.testing import LocalBroker
from tests.faults.frames import Action, Api
from tests.faults.ledger import Ledger, Watch, is_ready, request, rounds_pass, until, working
from tests.faults.proxy import FaultProxy
from tests.patience import PATIENCE_S


async def test_the_older_of_two_workers_of_one_name_stops(
    broker: LocalBroker, application: str
) -> None:
    watches = Watch(), Watch()
    async with Ledger(broker.bootstrap, application) as ledger:
        await ledger.open("ds")
        async with (
            working(ledger, instance_id="twin", observers=[watches[0]]) as older,
            working(ledger, instance_id="twin", observers=[watches[1]]) as newer,
        ):
            with pytest.raises(Refused, match=r"joined as 'twin'.*ACCOUNTANT_INSTANCE_ID"):
                await asyncio.wait_for(older.wait_fatal(), PATIENCE_S)
            assert not older.status.serving
            assert not older.status.readiness().ready
            await until(lambda: is_ready(newer), "the newer one serves all")
            assert newer.status.serving == {0, 1, 2, 3}
            refolds = watches[1].refolds
            # Longer than a session: neither comes back, nor is the newer one disturbed.
            await rounds_pass(newer, 3)
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
            assert watches[1].refolds == refolds
        assert watches[0].refolds == 4
        await ledger.judged()


async def test_one_of_two_idle_workers_of_one_name_stops(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        await ledger.open("ds")
        async with (
            working(ledger, instance_id="a") as busy,
            working(ledger, instance_id="z", ready=False) as first,
            working(ledger, instance_id="z", ready=False) as second,
        ):
            ends = [asyncio.create_task(each.wait_fatal()) for each in (first, second)]
            done, rest = await asyncio.wait(ends, timeout=PATIENCE_S, return_when="FIRST_COMPLETED")
            assert [type(each.exception()) for each in done] == [Refused]
            await rounds_pass(busy, 3)  # longer than a session
            assert not any(each.done() for each in rest)
            assert busy.status.serving == {0}
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
            for each in rest:
                each.cancel()


async def test_a_late_duplicate_of_its_join_request_does_not_stop_a_worker(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap) as ledger:
        await ledger.open("ds")
        fault = proxy.inject(Api.JOIN_GROUP, Action.FORWARD_LATE, seconds=4)
        async with working(ledger) as worker:
            joined = proxy.count(Api.JOIN_GROUP)
            # The late duplicate takes over the worker's membership, and sends no heartbeats.
            await asyncio.to_thread(fault.wait)
            await until(lambda: proxy.count(Api.JOIN_GROUP) > joined, "joined again")
            await until(lambda: is_ready(worker), "ready again")
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
        await ledger.judged()


async def test_a_client_that_left_its_group_owns_no_partitions(
    broker: LocalBroker, application: str
) -> None:
    assigned: list[set[int]] = []

    async def revoked(partitions: set[int]) -> None:
        assigned.remove(partitions)

    before = asyncio.all_tasks()
    async with Ledger(broker.bootstrap, application) as ledger:
        group = GroupMembership(
            ledger.deployment, "alone", on_revoked=revoked, on_assigned=assigned.append
        )
        assigned.append(set())  # the previous assignment
        await group.join()
        assert assigned == [{0, 1, 2, 3}]
        await group.leave()
        # Like a client that left during a rebalance.
        await group.on_partitions_assigned([TopicPartition(ledger.topic("requests"), 0)])
        with pytest.raises(asyncio.CancelledError):
            await group.on_partitions_revoked([])
        assert assigned == [{0, 1, 2, 3}]
    await until(lambda: asyncio.all_tasks() <= before, "no task is left behind")


async def test_a_failure_to_serve_an_assigned_partition_is_reported(
    broker: LocalBroker, application: str
) -> None:
    async def revoked(_: set[int]) -> None:
        pass

    def refuses(_: set[int]) -> None:
        raise ArithmeticError("planted")

    async with Ledger(broker.bootstrap, application) as ledger:
        group = GroupMembership(ledger.deployment, "alone", on_revoked=revoked, on_assigned=refuses)
        await group.join()
        try:
            with pytest.raises(ArithmeticError, match="planted"):
                await group.wait(PATIENCE_S)
        finally:
            await group.leave()


async def test_a_restarted_worker_displaces_no_other(broker: LocalBroker, application: str) -> None:
    async with Ledger(broker.bootstrap, application) as ledger:
        await ledger.open("ds")
        for _ in range(2):  # at once: the group still has the first member
            async with working(ledger, instance_id="again"):
                assert (await ledger.decided(request("ds")))["outcome"] == "granted"
        await ledger.judged()


async def test_a_worker_joins_again_after_its_group_client_failed(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    watch = Watch()
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap) as ledger:
        await ledger.open("ds")
        async with working(ledger, observers=[watch]) as worker:
            joined = proxy.count(Api.JOIN_GROUP)
            # The client expects no such answer: it sends no further heartbeat, is evicted,
            # and never notices.
            fault = proxy.inject(Api.HEARTBEAT, Action.ANSWER_ERROR)
            await asyncio.to_thread(fault.wait)
            await until(lambda: proxy.count(Api.JOIN_GROUP) > joined, "joined again")
            await until(lambda: is_ready(worker), "ready again")
            assert worker.status.serving == {0, 1, 2, 3}
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
            assert watch.saw(Refused) == 0
        await ledger.judged()
