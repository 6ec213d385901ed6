"""Raw bytes of a topic, unpacked as the broker unpacks them."""

from __future__ import annotations

import pytest
from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.wire.record_batches import unpack_batches
from tests.kafka.raw_batches import GZIP, Raw, batch

TP = TopicPartition("t", 0)
CONTROL, LOG_APPEND_TIME = 0x20, 0x08

fields = st.none() | st.binary(max_size=300)
names = st.text(max_size=20).map(str.encode)
plain = st.builds(
    Raw,
    key=fields,
    value=fields,
    headers=st.lists(st.tuples(names, fields), max_size=3),
    timestamp=st.integers(-(2**62), 2**62),
    offset=st.none(),
    attributes=st.integers(0, 0x7F),
    key_size=st.none(),
)


@given(
    st.lists(st.lists(plain, min_size=1, max_size=5), max_size=4),
    st.sampled_from([0, GZIP]),
    st.sampled_from([0, LOG_APPEND_TIME]),
    st.integers(0, 2**40),
)
def test_records_equal_those_of_the_client(
    batches: list[list[Raw]], codec: int, attributes: int, first: int
) -> None:
    data = b"".join(
        batch(records, codec=codec, attributes=attributes, first=first) for records in batches
    )
    theirs, reader = [], MemoryRecords(data)
    while reader.has_next():
        theirs += [
            (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers))
            for r in reader.next_batch()
        ]
    found = unpack_batches(data, TP, 0)
    ours = [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers))
        for r in found.records
    ]
    assert ours == theirs
    assert found.next == (len(batches[-1]) if batches else None)
    for record in found.records:
        assert record.serialized_key_size == (-1 if record.key is None else len(record.key))
        assert record.serialized_value_size == (-1 if record.value is None else len(record.value))


@given(st.lists(plain, min_size=1, max_size=5), st.data())
def test_a_byte_changed_under_the_checksum_is_an_error(
    records: list[Raw], data: st.DataObject
) -> None:
    sound = bytearray(batch(records))
    place = data.draw(st.integers(21, len(sound) - 1))
    sound[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(kafka.CorruptRecordException, match="invalid CRC at offset 0"):
        unpack_batches(bytes(sound), TP, 0)


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    whole = batch([Raw(b"k", b"v")])
    for cut in range(1, len(whole)):
        assert unpack_batches(whole[:cut], TP, 0) == ([], None)
        found = unpack_batches(whole + whole[:cut], TP, 0)
        assert (len(found.records), found.next) == (1, 1)


def test_earlier_records_and_control_batches_are_skipped() -> None:
    data = batch([Raw(b"k", b"%d" % i, offset=9 - i) for i in range(5)])
    found = unpack_batches(data, TP, 3)
    assert [(r.offset, r.value) for r in found.records] == [(3, b"3"), (4, b"4")]
    marker = batch([Raw(b"\0\0\0\1", b"")], attributes=CONTROL)
    assert unpack_batches(marker, TP, 0) == ([], 1)


def test_an_unreadable_batch_is_never_skipped() -> None:
    with pytest.raises(kafka.UnsupportedCodecError, match="compression 5"):
        unpack_batches(batch([Raw(b"k", b"v")], attributes=5), TP, 0)
    beyond = batch([Raw(b"", b"v", key_size=b"\xfe\x01")])
    with pytest.raises(kafka.CorruptRecordException, match="no records at 0"):
        unpack_batches(beyond, TP, 0)
    old = bytearray(batch([Raw(b"k", b"v")]))
    old[16] = 1
    with pytest.raises(kafka.CorruptRecordException, match="format 1"):
        unpack_batches(bytes(old), TP, 0)
