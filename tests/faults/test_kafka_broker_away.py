"""During a broker outage a worker waits and reports it; then it replays and continues."""

from __future__ import annotations

import asyncio

import pytest

from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.nightly import rounds
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.faults

# Longer than a session in the group, a transaction, and a look at the broker may take.
AWAY_S = rounds(12, 30)


async def ask(ledger: Ledger, stop: asyncio.Event) -> None:
    """Send requests all the time; during the outage they arrive late."""
    edges = ledger.edges(*(f"ds-{i}" for i in range(40)))
    while not stop.is_set():
        bodies = [request(f"ds-{i}", epsilon="0.0001") for i in range(40)]
        await ledger.send_all(bodies + edges.take(5))
        await asyncio.sleep(0.05)


async def test_a_worker_waits_for_a_broker_that_was_killed_and_for_one_that_hangs(
    own_broker: LocalBroker, application: str, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch()
    async with Ledger(own_broker.bootstrap, application) as ledger:
        await ledger.open(*(f"ds-{i}" for i in range(40)))
        async with working(ledger, observers=[watch]) as worker:
            stop = asyncio.Event()
            asking = asyncio.create_task(ask(ledger, stop))
            try:
                for how in ("killed", "paused"):
                    await asyncio.sleep(1)
                    refolds = watch.refolds
                    await (kill(own_broker) if how == "killed" else pause(own_broker))
                    await until(lambda: "does not answer" in str(worker.status.readiness()), how)
                    assert not worker.status.readiness().ready
                    await asyncio.sleep(AWAY_S)
                    assert not worker.status.readiness().ready
                    await (start(own_broker) if how == "killed" else resume(own_broker))
                    await until(lambda: is_ready(worker), "ready again")
                    await until(lambda n=refolds: watch.refolds > n, "refolded")
            finally:
                stop.set()
                await asyncio.wait_for(asking, PATIENCE_S)
            verdict = await ledger.judged()
        # Clients without an answer have sent their requests again, and get the first answers.
        assert verdict.plain.keys() - {"repeated"} == {"opened", "granted"}
        assert len(watch.reported) == len(set(watch.reported))
        assert set(watch.reported) <= verdict.by_place.keys()
    assert "_do_commit_offsets" not in caplog.text, "an error of the client that nobody took"


async def kill(broker: LocalBroker) -> None:
    await asyncio.to_thread(broker.kill)


async def start(broker: LocalBroker) -> None:
    await asyncio.to_thread(broker.start)


async def pause(broker: LocalBroker) -> None:
    await asyncio.to_thread(broker.pause)


async def resume(broker: LocalBroker) -> None:
    await asyncio.to_thread(broker.resume)


async def test_a_worker_started_before_its_broker_waits_for_the_broker(
    own_broker: LocalBroker, application: str
) -> None:
    async with Ledger(own_broker.bootstrap, application) as ledger:
        await ledger.open("ds")
        await kill(own_broker)
        async with working(ledger, ready=False) as worker:
            await until(lambda: "does not answer" in str(worker.status.readiness()), "reported")
            await start(own_broker)
            await until(lambda: is_ready(worker), "ready")
            await ledger.settle()
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
        await ledger.judged()
