"""A producer's batches are what the broker reads, each record with its number."""

from __future__ import annotations

import struct

from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.wire.batches import BATCH_BYTES, ProducerId, Record, batches
from streams.kafka.wire.record_batches import unpack_batches

TP = TopicPartition("t", 0)
PRODUCER = ProducerId(7, 3)
LARGEST = 2**31 - 1

fields = st.none() | st.binary(max_size=50)
records = st.builds(Record, key=fields, value=fields, timestamp=st.integers(0, 2**40))


def numbers(data: bytearray) -> tuple[int, int, int, int]:
    """Return producer's id, epoch, first number and count of a batch."""
    found: tuple[int, int, int, int] = struct.unpack_from(">qhii", data, 43)
    return found


@given(st.lists(records, max_size=20), st.integers(0, LARGEST))
def test_a_few_records_are_one_batch(some: list[Record], sequence: int) -> None:
    made = batches(some, PRODUCER, sequence)
    assert len(made) == min(len(some), 1)
    for batch in made:
        assert numbers(batch.data) == (*PRODUCER, sequence, len(some))
        assert batch.next_sequence == (sequence + len(some)) % 2**31
        read = unpack_batches(bytes(batch.data), TP, 0).records
        assert [(r.key, r.value, r.timestamp) for r in read] == [each[:3] for each in some]


def test_many_records_are_several_consecutive_batches() -> None:
    some = [Record(b"k", b"%06d" % i + b"." * 10_000, i) for i in range(300)]
    following = first = LARGEST - 100
    read = []
    made = batches(some, PRODUCER, first)
    assert len(made) == 4
    for batch in made:
        assert len(batch.data) <= BATCH_BYTES
        assert numbers(batch.data)[2] == following
        following = batch.next_sequence
        read += unpack_batches(bytes(batch.data), TP, 0).records
    assert following == (first + 300) % 2**31 == 199
    assert [r.value for r in read] == [each.value for each in some]


def test_a_record_above_the_limit_is_sent_for_the_broker_to_reject() -> None:
    large = Record(b"k", b"." * (BATCH_BYTES + 1), 0)
    small = Record(b"k", b".", 0)
    made = batches([small, large, small], PRODUCER, 0)
    assert [batch.next_sequence for batch in made] == [1, 2, 3]


def test_headers_are_sent_with_their_record() -> None:
    (made,) = batches([Record(b"k", b"v", 0, [("reason", b"oversize")])], PRODUCER, 0)
    assert b"\x0creason\x10oversize" in made.data
