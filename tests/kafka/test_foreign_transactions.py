"""Inputs in another client's transaction are decided, whether it commits or aborts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from confluent_kafka import Message, Producer

from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, request, working
from tests.faults.oracle import Place
from tests.patience import PATIENCE_S

DATASET: Final = "ds"
LONG_MS: Final = 600_000  # no test waits for the broker to end a transaction
# More than the first fetch of a partition takes, in batches smaller than that: a partition is
# read by two parsers, one after the other.
MANY: Final = 1_000


class Analyst:
    """A producer of transactions, which no part of the product knows of."""

    def __init__(self, ledger: Ledger) -> None:
        self._topic = ledger.topic("requests")
        self._producer = Producer(
            {
                "bootstrap.servers": ledger.bootstrap,
                "transactional.id": f"{self._topic}-analyst",
                "transaction.timeout.ms": LONG_MS,
                "batch.num.messages": 50,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    def write(self, *bodies: bytes) -> list[Place]:
        """Append requests within the transaction; return their offsets."""
        places: list[Place] = []

        def on_delivery(error: object, message: Message) -> None:
            assert error is None, error
            places.append(("requests", message.partition() or 0, message.offset() or 0))

        for body in bodies:
            self._producer.produce(
                self._topic, body, key=DATASET.encode(), partition=0, on_delivery=on_delivery
            )
        assert self._producer.flush(PATIENCE_S) == 0
        return places

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have a transaction open, and abort it in the end."""
        self._producer.begin_transaction()
        try:
            yield
        finally:
            self._producer.abort_transaction(PATIENCE_S)


@asynccontextmanager
async def opened(broker: LocalBroker, application: str) -> AsyncIterator[Ledger]:
    """Yield a ledger with a dataset, and no worker."""
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with working(ledger):
            await ledger.open(DATASET)
            await ledger.settle()
        yield ledger


def small() -> bytes:
    return request(DATASET, epsilon="0.0001", purpose="x" * 200)


async def granted(ledger: Ledger, *places: Place) -> None:
    for place in places:
        assert (await ledger.decision(place))["outcome"] == "granted", place


async def test_an_open_transaction_does_not_delay_a_running_worker(
    broker: LocalBroker, application: str
) -> None:
    async with opened(broker, application) as ledger, working(ledger):
        analyst = Analyst(ledger)
        with analyst.open():
            within = analyst.write(small())
            behind = await ledger.ask(DATASET)
            await granted(ledger, *within, behind)
        await granted(ledger, await ledger.ask(DATASET))
        assert (await ledger.judged()).outcomes == {"opened": 1, "granted": 3}


async def test_an_open_transaction_does_not_stop_a_starting_worker(
    broker: LocalBroker, application: str
) -> None:
    async with opened(broker, application) as ledger:
        analyst = Analyst(ledger)
        with analyst.open():
            within = analyst.write(small())
            behind = await ledger.ask(DATASET)
            async with working(ledger, settle=False):
                await granted(ledger, *within, behind)
        assert (await ledger.judged()).outcomes == {"opened": 1, "granted": 2}


async def test_aborted_inputs_are_decided_all_the_same(
    broker: LocalBroker, application: str
) -> None:
    async with opened(broker, application) as ledger:
        analyst = Analyst(ledger)
        with analyst.open():
            aborted = analyst.write(*(small() for _ in range(MANY)))
        async with working(ledger, settle=False):
            await granted(ledger, *aborted)
        assert (await ledger.judged()).outcomes == {"opened": 1, "granted": MANY}
