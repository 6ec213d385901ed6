from __future__ import annotations

import pytest

from accountant.partition.key_hash import home_of, murmur2, partition_of

# From Kafka's own UtilsTest.testMurmur2, as signed 32-bit integers.
KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KAFKA)
def test_murmur2_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == KAFKA[key] % 2**32


def test_a_partition_is_the_positive_hash_modulo_their_number() -> None:
    for key, signed in KAFKA.items():
        assert partition_of(key, 7) == (signed & 0x7FFFFFFF) % 7
        assert partition_of(key, 1) == 0


def test_a_dataset_is_where_its_name_or_its_group_is_hashed() -> None:
    names = [f"survey::{i}" for i in range(20)]
    assert {home_of(name, "group", 4) for name in names} == {partition_of(b"survey", 4)}
    assert [home_of(name, "name", 4) for name in names] == [
        partition_of(name.encode(), 4) for name in names
    ]
    assert len({home_of(name, "name", 4) for name in names}) == 4
