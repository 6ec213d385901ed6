"""A commit that fails, loses its answer or is cancelled is never reported nor half-visible."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.errors import CommitRejected, CommitUnknown, Fenced
from streams.kafka.log.inbox import Inbox
from streams.kafka.log.journal import KafkaJournal
from streams.kafka.wire.batches import Record
from streams.kafka.wire.producer import TransactionalProducer
from streams.kafka.wire.security import Cluster
from streams.processing.journal import Commit
from streams.processing.processor import Processor
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.frames import Action, Api
from tests.faults.ledger import Ledger, Watch, is_ready, request, until, working
from tests.faults.operator import Operator
from tests.faults.proxy import FaultProxy
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.faults

FAULTS = [
    (Api.END_TXN, Action.LOSE_RESPONSE, 0.0),
    (Api.END_TXN, Action.DELAY_RESPONSE, 5.0),
    (Api.END_TXN, Action.RESET_AFTER, 0.0),
    (Api.END_TXN, Action.RESET_BEFORE, 0.0),
    (Api.END_TXN, Action.FORWARD_LATE, 0.5),
    (Api.ADD_PARTITIONS_TO_TXN, Action.LOSE_RESPONSE, 0.0),
    (Api.ADD_PARTITIONS_TO_TXN, Action.RESET_AFTER, 0.0),
    (Api.ADD_PARTITIONS_TO_TXN, Action.FORWARD_LATE, 0.5),
]
HARMLESS = [(Api.PRODUCE, Action.LOSE_RESPONSE, 0.0), (Api.PRODUCE, Action.RESET_BEFORE, 0.0)]
DATASETS = [f"ds-{number}" for number in range(8)]


def batch(count: int = 20) -> list[bytes]:
    return [request(DATASETS[i % len(DATASETS)], epsilon="0.0001") for i in range(count)]


async def test_a_lost_response_is_no_commit_and_charges_nothing_twice(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    draw = random.Random(11)
    watch = Watch()
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap, partitions=2) as ledger:
        await ledger.open(*DATASETS)
        edges = ledger.edges(*DATASETS)
        async with working(ledger, observers=[watch]) as worker:
            for api, action, seconds in [*FAULTS, *HARMLESS]:
                await until(lambda: is_ready(worker), f"ready for {action.name} of {api.name}")
                before = watch.saw(CommitUnknown)
                fault = proxy.inject(api, action, nth=draw.randrange(1, 4), seconds=seconds)
                while not fault.struck.is_set():
                    await ledger.send_all(batch() + edges.take(3))
                    await asyncio.sleep(0.05)
                await ledger.settle()
                if api is not Api.PRODUCE:
                    await until(
                        lambda n=before: watch.saw(CommitUnknown) > n, f"{action} of {api}: unknown"
                    )
        verdict = await ledger.judged()
    assert verdict.plain.keys() == {"opened", "granted"}
    assert len(watch.reported) == len(set(watch.reported))
    assert set(watch.reported) <= verdict.by_place.keys()
    # What was committed without our knowing was found in the log, and not reported.
    assert len(watch.reported) < len(verdict.decisions)


async def test_a_commit_with_a_lost_response_is_not_sent_again(
    broker: LocalBroker, proxy: FaultProxy, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, via=proxy.bootstrap, partitions=1) as ledger:
        producer = TransactionalProducer(Cluster(proxy.bootstrap), f"{application}-x")
        await producer.start()
        before = proxy.count(Api.END_TXN)
        fault = proxy.inject(Api.END_TXN, Action.RESET_AFTER)
        with pytest.raises(CommitUnknown):
            await producer.transact(0, {ledger.topic("dead_letters"): [Record(b"k", b"v")]})
        fault.wait()
        await asyncio.sleep(1)
        assert proxy.count(Api.END_TXN) == before + 1
        producer.drop()


async def test_a_failed_send_aborts_the_whole_transaction(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        limit(ledger, "state", 1_000)
        small = {ledger.topic("dead_letters"): [Record(b"k", b"small")]}
        producer = TransactionalProducer(Cluster(broker.bootstrap), f"{application}-x")
        await producer.start()
        with pytest.raises(CommitRejected):
            await producer.transact(
                0, {**small, ledger.topic("state"): [Record(b"k", b"x" * 5_000)]}
            )
        producer.drop()
        successor = TransactionalProducer(Cluster(broker.bootstrap), f"{application}-x")
        await successor.start()
        await successor.transact(0, small)
        successor.drop()
        (letters,) = oracle.read(broker.bootstrap, ledger.topic("dead_letters"), 1)
        assert len(letters) == 1
        (rows,) = oracle.read(broker.bootstrap, ledger.topic("state"), 1)
        assert rows == []


async def test_the_one_record_that_the_broker_rejects_becomes_a_dead_letter(
    broker: LocalBroker, application: str
) -> None:
    fat = {"type": "all_of", "claims": [{"type": "pure", "epsilon": "0.00001"}] * 90}
    watch = Watch()
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        await ledger.open("ds")
        async with working(ledger, observers=[watch]) as worker:
            limit(ledger, "decisions", 3_500)
            bodies = [request("ds", epsilon="0.0001", claim=fat if i == 17 else None)
                      for i in range(40)]  # fmt: skip
            places = await ledger.send_all(bodies + ledger.edges("ds").take(10))
            await ledger.settle()
            for number, place in enumerate(places[:40]):
                decision = await ledger.decision(place)
                expected = ("invalid", "internal_error") if number == 17 else ("granted", None)
                assert (decision["outcome"], decision.get("reason")) == expected, number
            assert watch.saw(CommitRejected) >= 2
            assert worker.status.readiness().ready
        limit(ledger, "decisions", 1_048_588)
        await ledger.judged(internal_errors=[places[17]])


def limit(ledger: Ledger, topic: str, size: int) -> None:
    """Set the largest batch that a topic takes."""
    Operator(ledger).alter(topic, "max.message.bytes", str(size))


class CancelledAt:
    """Awaits some work and has the task cancelled when it waits for the nth time."""

    def __init__(self, work: Awaitable[None], nth: int) -> None:
        self._work = work
        self._nth = nth
        self.reached = False

    def __await__(self) -> Generator[Any, Any, None]:
        steps, waits = self._work.__await__(), 0
        sent: Any = None
        error: BaseException | None = None
        while True:
            try:
                future = steps.send(sent) if error is None else steps.throw(error)
            except StopIteration:
                return
            waits += 1
            if waits == self._nth:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()  # takes effect at the current await, like a cancellation from outside
                self.reached = True
            sent, error = None, None
            try:
                sent = yield future
            except BaseException as raised:
                error = raised


class CancellableJournal(KafkaJournal):
    """The journal on Kafka, with a commit that can be cancelled at its nth await."""

    nth = 0
    reached = False

    async def commit(self, commit: Commit) -> None:
        work = CancelledAt(super().commit(commit), self.nth)
        try:
            await work
        finally:
            self.reached = self.reached or work.reached


async def nowhere(_point: str) -> None:
    pass


@asynccontextmanager
async def processing(
    ledger: Ledger, watch: Watch, *, nth: int = 0, reach: Callable[[str], Awaitable[None]] = nowhere
) -> AsyncIterator[tuple[asyncio.Task[None], CancellableJournal]]:
    """Run the processor of partition 0, without a group, in a task of its own."""
    deployment = ledger.deployment
    inputs = AIOKafkaConsumer(
        bootstrap_servers=deployment.bootstrap,
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=20,
    )
    await inputs.start()
    tps = [TopicPartition(ledger.topic(name), 0) for name in oracle.INPUTS]
    inputs.assign(tps)
    for tp in tps:
        inputs.seek(tp, 0)
        inputs.pause(tp)
    inbox = Inbox(inputs)
    reading = asyncio.create_task(inbox.run())
    journal = CancellableJournal(
        deployment.cluster, deployment.application, deployment.topics, 0, inbox
    )
    journal.nth = nth
    task = asyncio.create_task(Processor(journal, deployment.genesis(0), watch, reach=reach).run())
    try:
        yield task, journal
    finally:
        task.cancel()
        reading.cancel()
        await asyncio.wait([task, reading])
        await inputs.stop()


async def test_a_commit_cancelled_at_any_await_is_complete_or_absent(
    broker: LocalBroker, application: str
) -> None:
    watch = Watch()
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        await ledger.open(*DATASETS)
        async with processing(ledger, watch):
            await ledger.settle()
        nth = 0
        edges = ledger.edges(*DATASETS)
        while True:
            nth += 1
            await ledger.send_all(batch(5) + edges.take(3))
            reported = len(watch.reported)
            async with processing(ledger, watch, nth=nth) as (task, journal):
                await until(
                    lambda t=task, n=reported: t.done() or len(watch.reported) > n, "an end"
                )
                if not journal.reached:
                    break
                await asyncio.wait([task], timeout=PATIENCE_S)
                assert task.cancelled()
            assert len(watch.reported) == reported, nth  # cancelled: no commit was reported
        assert nth > 3  # to add the partitions, to write, to end
        verdict = await ledger.judged()
        print(f"awaits of a commit: {nth - 1}")
        assert verdict.plain["granted"] == 5 * nth
        assert len(watch.reported) == len(set(watch.reported))


async def test_a_processor_cancelled_at_any_moment_leaves_nothing_half_visible(
    broker: LocalBroker, application: str
) -> None:
    draw = random.Random(5)
    watch = Watch()
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        await ledger.open(*DATASETS)
        async with processing(ledger, watch):
            await ledger.settle()  # an opening may be read after a request on its dataset
        edges = ledger.edges(*DATASETS)
        for number in range(24):
            await ledger.send_all(batch(30) + edges.take(5))
            point = ("owned", "decided", "committed", "")[number % 4]

            async def reach(here: str, point: str = point) -> None:
                if here == point:
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    await asyncio.sleep(0)

            refolds = watch.refolds
            async with processing(ledger, watch, reach=reach) as (task, _):
                if point:
                    await asyncio.wait([task], timeout=PATIENCE_S)
                    assert task.cancelled(), point
                else:
                    await until(lambda n=refolds: watch.refolds > n, "refolded")
                    await asyncio.sleep(draw.uniform(0, 0.05))
        async with processing(ledger, watch):
            verdict = await ledger.judged()
        assert verdict.plain == {"opened": len(DATASETS), "granted": 24 * 30}
        assert set(watch.reported) <= verdict.by_place.keys()
        assert len(watch.reported) == len(set(watch.reported))


# Several times: the client learns of it in more than one way, and which one is a race.
@pytest.mark.parametrize("attempt", range(5))
async def test_a_fenced_owner_of_a_partition_commits_nothing_and_raises_fenced(
    broker: LocalBroker, application: str, attempt: int
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        where = {ledger.topic("dead_letters"): [Record(b"k", b"v")]}
        first = TransactionalProducer(Cluster(broker.bootstrap), f"{application}-x")
        second = TransactionalProducer(Cluster(broker.bootstrap), f"{application}-x")
        await first.start()
        await first.transact(0, where)
        await second.start()
        with pytest.raises(Fenced):
            await first.transact(0, where)
        await second.transact(0, where)
        first.drop()
        second.drop()
        (letters,) = oracle.read(broker.bootstrap, ledger.topic("dead_letters"), 1)
        assert len(letters) == 2
