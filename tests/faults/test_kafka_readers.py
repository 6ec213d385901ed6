"""Stopped readers leave no connections and tasks, under every fault."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import aiokafka
import pytest
from aiokafka import TopicPartition

from streams.kafka.wire.reader import StableReader, consumer, stop
from streams.kafka.wire.security import Cluster
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, until

OPENS = ()

pytestmark = pytest.mark.faults

_CLIENT = str(Path(aiokafka.__file__).parent)
READERS = 12


def left_behind() -> list[str]:
    """Return the tasks of the client library that still run."""
    names = []
    for task in asyncio.all_tasks():
        coroutine = task.get_coro()
        if inspect.iscoroutine(coroutine) and coroutine.cr_code.co_filename.startswith(_CLIENT):
            names.append(coroutine.__qualname__)
    return names


async def test_readers_that_are_stopped_while_the_broker_is_away_do_not_come_back(
    own_broker: LocalBroker, application: str
) -> None:
    async with Ledger(own_broker.bootstrap, application, partitions=1) as ledger:
        tp = TopicPartition(ledger.topic("requests"), 0)  # empty: what is not taken ends fetching
    await until(lambda: not left_behind(), "the ledger's own clients are gone")
    readers = []
    for _ in range(READERS):
        reader = consumer(Cluster(own_broker.bootstrap), committed=True)
        await reader.start()
        reader.assign([tp])
        reader.seek(tp, 0)
        readers.append(reader)
    await asyncio.sleep(0.5)  # all of them are fetching
    own_broker.kill()  # in this thread: the first is stopped before it has noticed
    for reader in readers:
        await asyncio.sleep(0.037)  # each at another moment of its pauses
        await stop(reader)
    await until(lambda: not left_behind(), f"{left_behind()} end")
    await asyncio.to_thread(own_broker.start)


async def test_a_reader_with_a_cancelled_close_still_closes(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        tps = [TopicPartition(ledger.topic(name), 0) for name in ("decisions", "state")]
    await until(lambda: not left_behind(), "the ledger's own clients are gone")
    for _ in range(5):
        reader = await StableReader(Cluster(broker.bootstrap), tps).__aenter__()
        closing = asyncio.create_task(reader.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    await until(lambda: not left_behind(), f"{left_behind()} end")
