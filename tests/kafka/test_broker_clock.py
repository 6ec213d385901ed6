"""A worker's clock is compared with the broker's, which no pause of the ledger makes older."""

from __future__ import annotations

import asyncio
import re

from aiokafka import TopicPartition

from accountant.times import from_iso
from streams.clock import DAY_MS
from streams.errors import ClockOutOfRange
from streams.kafka.wire.producer import TransactionalProducer
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.frames import Action, Api
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.faults.proxy import FaultProxy
from tests.kafka.test_repeats import ShiftedClock, now

TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
TIME = r"\d{4}-\d\d-\d\dT[\d:.]+Z"


async def test_a_clock_ten_days_ahead_decides_nothing_until_it_is_set(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        async with working(ledger):
            await ledger.open("ds")
            await ledger.settle()
        clock = ShiftedClock(10 * DAY_MS)
        async with working(ledger, clock=clock, ready=False, check_every=0.5) as worker:
            status = worker.status
            await until(lambda: "clock" in str(status.readiness()) or is_ready(worker), "either")
            assert not is_ready(worker)
            place = await ledger.send(request("ds"))
            before, reported = ledger.visible(), status.readiness().reasons
            await until(
                # Each check writes the times that it has compared.
                lambda: status.readiness().reasons != reported or ledger.visible() > before,
                "the next check of the clock",
            )
            assert ledger.visible() == before
            assert not is_ready(worker)
            assert not worker.status.serving
            (reason,) = worker.status.readiness().reasons
            assert reason.startswith("clock_out_of_range: this machine's clock is 10.0 days ahead")
            assert "Set the one that is wrong" in reason
            here, there = map(from_iso, re.findall(TIME, reason))
            assert abs(here - there - 10 * DAY_MS) < 60_000
            assert abs(there - now()) < 120_000

            clock.by = 0  # an operator sets the clock; nobody restarts the worker
            assert (await ledger.decision(place))["outcome"] == "granted"
            await until(lambda: is_ready(worker), "ready again")
        await ledger.judged()


async def test_a_clock_less_than_two_days_ahead_decides(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with working(ledger, clock=ShiftedClock(2 * DAY_MS - 120_000)) as worker:
            await ledger.open("ds")
            await ledger.settle()
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
            assert worker.notes == []
        await ledger.judged()


async def test_a_running_worker_whose_clock_jumps_stops(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        clock, watch = ShiftedClock(), Watch()
        async with working(ledger, clock=clock, observers=[watch]) as worker:
            await ledger.open("ds")
            await ledger.settle()
            clock.by = 3 * DAY_MS
            await until(
                lambda: "the clock jumped by 259200 s" in str(worker.status.readiness()), "stop"
            )
            place = await ledger.send(request("ds"))
            before, stops = ledger.visible(), watch.saw(ClockOutOfRange)
            await until(
                lambda: watch.saw(ClockOutOfRange) > stops + 1 or ledger.visible() > before,
                "stopped twice by the request",
            )
            assert ledger.visible() == before
            clock.by = 0
            assert (await ledger.decision(place))["outcome"] == "granted"
        await ledger.judged()


async def test_a_partition_that_is_assigned_after_the_jump_is_not_decided_either(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=2) as ledger:
        clock = ShiftedClock()
        async with working(ledger, clock=clock) as worker:
            async with working(ledger, instance_id="w2") as other:
                await until(lambda: len(worker.status.serving) == 1, "one partition each")
                (number,) = other.status.serving
                clock.by = 3 * DAY_MS
            reason = f"partition {number}: the clock jumped by 259200 s"
            before = ledger.visible()
            place = await ledger.send(request("ds"), partition=number)
            await until(
                lambda: reason in str(worker.status.readiness()) or ledger.visible() > before,
                "either",
            )
            assert ledger.visible() == before
            clock.by = 0
            assert await ledger.decision(place)
        await ledger.judged()


async def test_a_broker_that_does_not_say_its_time_stops_no_partition(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap, partitions=1) as ledger:
        proxy.inject(
            Api.ADD_PARTITIONS_TO_TXN,
            Action.ANSWER_ERROR,
            code=TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            client_id=f"{application}-clock-w1",
        )
        async with working(ledger, check_every=0.5) as worker:
            (note,) = worker.notes
            assert note.startswith("the clock was not compared with a broker's: the broker denies")
            await until(lambda: not worker.notes, "compared at the next check")
            await ledger.open("ds")
            await ledger.settle()
            assert (await ledger.decided(request("ds")))["outcome"] == "granted"
        await ledger.judged()


async def test_asking_a_broker_for_its_time_writes_no_record(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        deployment = ledger.deployment
        producer = TransactionalProducer(deployment.cluster, f"{application}-clock-test")
        await producer.start()
        place = TopicPartition(deployment.topics.dead_letters, 0)
        for _ in range(3):
            before = now()
            at = await producer.broker_time(place)
            assert before - 1_000 <= at <= now() + 1_000
        producer.drop()
        (records,) = await asyncio.to_thread(
            oracle.read, broker.bootstrap, deployment.topics.dead_letters, 1
        )
        assert records == []
