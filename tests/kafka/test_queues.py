"""Queues of inputs: limits on the records and bytes of one batch."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from aiokafka import TopicPartition

from streams.kafka.log.queues import MAX_TAKEN_BYTES, Queue, Queues
from streams.kafka.wire.fetch import FetchedRecord


class WaitingRecord(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(start: int, *sizes: int) -> list[FetchedRecord]:
    return [WaitingRecord(start + i, None, b"." * size) for i, size in enumerate(sizes)]


ADMIN, REQUESTS = TopicPartition("admin", 0), TopicPartition("requests", 0)


@pytest.mark.parametrize(
    ("most", "most_bytes", "taken", "left"),
    [(2, 1_000, 2, 30), (9, 1_000, 3, 0), (9, 30, 2, 30), (9, 29, 1, 50), (9, 5, 1, 50)],
)
def test_a_batch_ends_at_its_records_or_its_bytes(
    most: int, most_bytes: int, taken: int, left: int
) -> None:
    queue = Queue(5)
    queue.put(records(5, 10, 20, 30), 8)
    got, size = queue.take(most, most_bytes, least=1)
    assert [record.offset for record in got] == [5, 6, 7][:taken]
    assert (queue.bytes, size) == (left, 60 - left)
    assert queue.take(0, 10, least=1) == queue.take(10, 0, least=0) == ([], 0)


def test_keys_and_headers_count_and_tombstones_have_no_size() -> None:
    queue = Queue(0)
    waiting: list[FetchedRecord] = [
        WaitingRecord(0, b"key", None, 0, (("name", b"text"), ("n", None)))
    ]
    queue.put(waiting, 1)
    assert queue.bytes == len("keynametextn")
    assert queue.take(1, 1, least=1) == (waiting, 12)
    assert queue.bytes == 0


async def test_both_inputs_together_keep_to_the_bytes_of_a_batch() -> None:
    queues = Queues()
    for tp in (ADMIN, REQUESTS):
        queues.begin(tp, 0)
    half = MAX_TAKEN_BYTES // 2
    queues.put(ADMIN, queues.of[ADMIN], records(0, half), 1)
    queues.put(REQUESTS, queues.of[REQUESTS], records(0, half - 1, 1, half), 3)
    got = await queues.getmany(ADMIN, REQUESTS)
    assert [len(got[tp]) for tp in (ADMIN, REQUESTS)] == [1, 2]
    got = await queues.getmany(ADMIN, REQUESTS)
    assert [record.offset for record in got[REQUESTS]] == [2]


async def test_a_record_larger_than_a_batch_is_taken_alone() -> None:
    queues = Queues()
    for tp in (ADMIN, REQUESTS):
        queues.begin(tp, 0)
    queues.put(ADMIN, queues.of[ADMIN], records(0, 1), 1)
    queues.put(REQUESTS, queues.of[REQUESTS], records(0, MAX_TAKEN_BYTES + 1), 1)
    assert list(await queues.getmany(ADMIN, REQUESTS)) == [ADMIN]
    assert list(await queues.getmany(ADMIN, REQUESTS)) == [REQUESTS]
