"""Batches appended by a producer that is made up: the broker's answers are the test's."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from aiokafka.errors import KafkaTimeoutError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import RecordMetadata, TopicPartition

from accountant.errors import BudgetError
from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log import appender
from streams.kafka.log.appender import Appender, KeyedBody

PARTITIONS = 4


class _Client:
    async def close(self) -> None:
        pass


class _Producer:
    """Answers each batch with the next of some offsets.

    Attributes:
        sizes: of the batches, in records.
        goes_on: cleared, it holds batches up.
        made: every one; the last is the one to use.
    """

    made: ClassVar[list[_Producer]] = []

    def __init__(self, offsets: list[int | Exception]) -> None:
        self._offsets = offsets
        self.sizes: list[int] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.made.append(self)

    async def start(self) -> None:
        pass

    async def partitions_for(self, _topic: str) -> range:
        return range(PARTITIONS)

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(65_536, 0)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> Any:
        self.sizes.append(batch.record_count())
        await self.goes_on.wait()
        offset = self._offsets.pop(0)
        if isinstance(offset, Exception):
            raise offset
        place = TopicPartition(topic, partition)
        sent = asyncio.get_running_loop().create_future()
        sent.set_result(RecordMetadata(topic, partition, place, offset, -1, 0, 0))
        return sent

    async def stop(self) -> None:
        pass

    client = _Client()


async def append(producer: _Producer, bodies: list[bytes]) -> tuple[Any, dict[int, BudgetError]]:
    """Return the offsets of bodies by their places, and the errors."""
    appending, offsets = Appender(Deployment(bootstrap="127.0.0.1:9")), dict[int, int]()
    await appending.start()
    records = [KeyedBody(body, b"d", 0) for body in bodies]
    failed = await appending.append_many("requests", records, offsets.__setitem__)
    return offsets, failed


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender, "AIOKafkaProducer", lambda **_: _Producer.made[-1])
    monkeypatch.setattr(appender, "with_short_connect", lambda client: client)


def test_a_batch_of_unknown_offset_is_given_no_offset() -> None:
    # So a broker answers a batch that it already has, and whose offset it has forgotten. Counted
    # on from -1, the second record would have the decision on the partition's first one.
    producer = _Producer([5, -1])
    bodies = [b"%d" % i + b"." * 30_000 for i in range(4)]
    offsets, failed = asyncio.run(append(producer, bodies))
    assert producer.sizes == [2, 2]
    assert offsets == {0: 5, 1: 6}
    assert set(failed) == {2, 3}
    for error in failed.values():
        assert isinstance(error, Unavailable)
        assert "same bytes" in str(error)


class _Singles:
    """Appends bodies one by one, and notes what each gets.

    Attributes:
        results: by body, every call of its `on_done`.
    """

    def __init__(self) -> None:
        self.appender = Appender(Deployment(bootstrap="127.0.0.1:9"))
        self.results: dict[bytes, list[int | BudgetError]] = {}

    def append(self, *bodies: bytes, partition: int = 0) -> None:
        for body in bodies:
            on_done = self.results.setdefault(body, []).append
            self.appender.append("requests", KeyedBody(body, b"d", partition), on_done)

    async def settled(self) -> None:
        while not all(self.results.values()):  # noqa: ASYNC110 (`on_done` is a plain call)
            await asyncio.sleep(0)


async def test_single_bodies_of_a_turn_are_one_batch_of_their_partition() -> None:
    producer, singles = _Producer([5, 90]), _Singles()
    await singles.appender.start()
    singles.append(b"a", b"b")
    singles.append(b"x", partition=1)
    singles.append(b"c")
    await singles.settled()
    assert producer.sizes == [3, 1]
    assert singles.results == {b"a": [5], b"b": [6], b"c": [7], b"x": [90]}


async def test_single_bodies_gather_while_a_batch_is_under_way() -> None:
    producer, singles = _Producer([0, 1]), _Singles()
    await singles.appender.start()
    producer.goes_on.clear()
    singles.append(b"a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for body in (b"b", b"c", b"d"):
        singles.append(body)
        await asyncio.sleep(0)
    producer.goes_on.set()
    await singles.settled()
    assert producer.sizes == [1, 3]
    assert singles.results == {b"a": [0], b"b": [1], b"c": [2], b"d": [3]}


async def test_an_error_fails_each_body_of_its_batch_alone() -> None:
    producer, singles = _Producer([KafkaTimeoutError(), -1, 7]), _Singles()
    await singles.appender.start()
    singles.append(b"a", b"b")
    await singles.settled()
    singles.append(b"c")  # of an offset that the broker has forgotten
    await singles.settled()
    singles.append(b"d")
    await singles.settled()
    assert [len(each) for each in singles.results.values()] == [1] * 4
    assert [isinstance(each[0], Unavailable) for each in singles.results.values()] == [
        *(True, True, True),
        False,
    ]
    assert singles.results[b"d"] == [7]
    assert producer.sizes == [2, 1, 1]


async def test_bodies_too_long_for_one_batch_keep_their_order() -> None:
    producer, singles = _Producer([5, 7]), _Singles()
    await singles.appender.start()
    bodies = [b"%d" % i + b"." * 30_000 for i in range(4)]
    singles.append(*bodies)
    await singles.settled()
    assert producer.sizes == [2, 2]
    assert list(singles.results.values()) == [[5], [6], [7], [8]]


async def test_no_body_waits_for_ever_whatever_goes_wrong() -> None:
    producer, singles = _Producer([RuntimeError("a bug")]), _Singles()
    await singles.appender.start()
    singles.append(b"a")
    with pytest.raises(RuntimeError):
        await singles.appender._lanes["requests", 0].task  # type: ignore[misc]
    (error,) = singles.results[b"a"]
    assert isinstance(error, Unavailable)
    assert "same bytes" in str(error)
    producer._offsets.append(3)
    singles.append(b"a2")
    await singles.settled()
    assert singles.results[b"a2"] == [3]


async def test_after_the_stop_a_body_fails_at_once() -> None:
    _Producer([]), (singles := _Singles())
    await singles.appender.start()
    await singles.appender.stop()
    singles.append(b"a")
    await singles.settled()
    assert isinstance(singles.results[b"a"][0], Unavailable)
