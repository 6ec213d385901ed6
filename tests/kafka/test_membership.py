"""A worker's place in its group: taken by another, or lost by its client."""

from __future__ import annotations

import asyncio

import pytest

from streams.errors import Refused
from streams.testing import LocalBroker
from tests.faults.frames import Action, Api
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.faults.proxy import FaultProxy


async def test_the_older_of_two_workers_of_one_name_gives_way(
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
                await asyncio.wait_for(older.wait_fatal(), 30)
            assert not older.status.serving
            await until(lambda: is_ready(newer), "the newer one serves all")
            assert newer.status.serving == {0, 1, 2, 3}
            refolds = watches[1].refolds
            # Longer than a session: neither comes back, nor is the newer one disturbed.
            await asyncio.sleep(10)
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
            assert watches[1].refolds == refolds
        assert watches[0].refolds == 4
        await ledger.judged()


async def test_a_worker_that_comes_back_under_its_name_displaces_nobody(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application) as ledger:
        await ledger.open("ds")
        for _ in range(2):  # at once: the group still has the first one's place
            async with working(ledger, instance_id="again"):
                assert (await ledger.decided(request("ds")))["outcome"] == "granted"
        await ledger.judged()


async def test_a_worker_whose_group_client_has_failed_joins_with_another(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    with FaultProxy(broker) as proxy:
        async with Ledger(broker.bootstrap, application, via=proxy.bootstrap) as ledger:
            await ledger.open("ds")
            async with working(ledger, observers=[watch]) as worker:
                joined = proxy.count(Api.JOIN_GROUP)
                # The client expects no such answer: it sends no further heartbeat, is evicted,
                # and never notices.
                fault = proxy.inject(Api.HEARTBEAT, Action.ANSWER_UNKNOWN_ERROR)
                await asyncio.to_thread(fault.wait)
                await until(lambda: proxy.count(Api.JOIN_GROUP) > joined, "joined again")
                await until(lambda: is_ready(worker), "ready again")
                assert worker.status.serving == {0, 1, 2, 3}
                assert (await ledger.decided(request("ds")))["outcome"] == "granted"
                assert watch.saw(Refused) == 0
            await ledger.judged()
