"""A deposed leader that does not know it yet reports an old end of the log."""

from __future__ import annotations

import pytest

from streams.errors import JournalFault
from streams.kafka.log.genesis import write_genesis
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.faults.proxy import FaultProxy

pytestmark = pytest.mark.faults

_SAYS = "read from a broker that no longer leads it"


async def test_an_owner_that_read_an_old_end_decides_nothing_again(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    watch = Watch()
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap, partitions=1) as ledger:
        await ledger.open("ds", "edges", filter="basic", epsilon="0.15")
        edges = ledger.edges("edges")
        for count in (5, 8):
            async with working(ledger):
                await ledger.send_all([request("ds", epsilon="0.01") for _ in range(count)])
                await ledger.send_all(edges.take(5))
                await ledger.settle()
        # It gets the same answer as the second worker: the ends of `decisions` and `state` eight
        # decisions ago.
        with proxy.stale_ends():
            async with working(ledger, observers=[watch], ready=False):
                await until(lambda: any(_SAYS in str(each) for each in watch.errors), "noticed")
                await until(lambda: watch.refolds > 2, "reads again, for as long as it takes")
        async with working(ledger) as worker:
            await ledger.send_all([request("ds", epsilon="0.01") for _ in range(3)])
            await ledger.send_all(edges.take(20))
            await ledger.settle()
            assert is_ready(worker)
        verdict = await ledger.judged()
    assert verdict.plain == {"opened": 2, "granted": 15, "refused": 1}
    assert watch.reported == []


async def test_no_second_genesis_is_written_after_an_old_end(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap, partitions=1) as ledger:
        with proxy.stale_ends(), pytest.raises(JournalFault, match=_SAYS):
            await write_genesis(ledger.deployment, 0, [])
        (decisions,) = oracle.read(broker.bootstrap, ledger.topic("decisions"), 1)
    assert len(decisions) == 1
