"""Workers join and leave: partitions move, and nothing is lost or decided twice."""

from __future__ import annotations

import asyncio
import contextlib
import random

from streams.metrics.live_ledgers import LiveLedgers
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, Watch, is_ready, request, rounds_pass, until, working


async def test_partitions_move_as_workers_join_and_leave(
    broker: LocalBroker, application: str
) -> None:
    names = [f"ds-{number}" for number in range(40)]
    watches = {name: Watch() for name in ("w1", "w2", "w3")}
    gauges = {name: LiveLedgers() for name in watches}

    def owned(name: str) -> set[int]:
        return set(gauges[name].snapshot().partitions)

    async with Ledger(broker.bootstrap, application) as ledger, contextlib.AsyncExitStack() as rest:

        def work(name: str):  # type: ignore[no-untyped-def]
            seeing = [watches[name], gauges[name]]
            # The backlog never ends while requests keep coming.
            return working(ledger, instance_id=name, observers=seeing, settle=False)

        await ledger.open(*names)
        stop = asyncio.Event()
        asking = asyncio.create_task(keep_asking(ledger, names, stop))
        async with contextlib.AsyncExitStack() as first_stack:
            first = await first_stack.enter_async_context(work("w1"))
            await until(lambda: first.status.serving == {0, 1, 2, 3}, "alone")
            second = await rest.enter_async_context(work("w2"))
            await until(
                lambda: (
                    len(first.status.serving) == 2
                    and first.status.serving | second.status.serving == {0, 1, 2, 3}
                ),
                "two each",
            )
            await until(lambda: is_ready(first) and is_ready(second), "both ready")
            assert owned("w1") == set(first.status.serving)
            assert owned("w2") == set(second.status.serving)
        await until(lambda: second.status.serving == {0, 1, 2, 3}, "all at the second")
        assert owned("w1") == set()
        third = await rest.enter_async_context(work("w3"))
        await until(lambda: len(third.status.serving) == 2, "two at the third")
        await until(lambda: is_ready(second) and is_ready(third), "both ready again")
        stop.set()
        await asking
        await ledger.settle()
        verdict = await ledger.judged()
        assert verdict.outcomes["granted"] + verdict.outcomes["refused"] == len(
            acknowledged_requests(ledger)
        )
        reported = [place for watch in watches.values() for place in watch.reported]
        assert len(reported) == len(set(reported))
        assert set(reported) <= verdict.by_place.keys()


def acknowledged_requests(ledger: Ledger) -> list[tuple[str, int, int]]:
    return [place for place in ledger.acked if place[0] == "requests"]


async def keep_asking(ledger: Ledger, names: list[str], stop: asyncio.Event) -> None:
    draw = random.Random(3)
    while not stop.is_set():
        await ledger.send_all([request(draw.choice(names), epsilon="0.01") for _ in range(10)])
        await asyncio.sleep(0.05)


async def test_a_worker_without_partitions_waits_for_one(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        await ledger.open("ds")
        async with (
            working(ledger, instance_id="w1") as first,
            working(ledger, instance_id="w2", ready=False) as second,
        ):
            await rounds_pass(second, 2)  # it checks the broker meanwhile
            await ledger.settle()
            idle, busy = (first, second) if second.status.serving else (second, first)
            assert not idle.status.serving
            await busy.stop()
            await until(lambda: idle.status.serving == {0}, "taken over")
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
        await ledger.judged()
