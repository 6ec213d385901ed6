from __future__ import annotations

import msgspec
import pytest

from accountant.records import Genesis, encode
from accountant.records.placement import record_key

KEYS = [
    ("census", "census"),
    ("survey::2026", "survey"),
    ("survey::2026::raw", "survey"),
    ("survey:::raw", "survey"),
    ("survey:2026", "survey:2026"),
    ("survey::", "survey"),
]


@pytest.mark.parametrize(("name", "group"), KEYS)
def test_a_group_ends_before_the_first_two_colons(name: str, group: str) -> None:
    assert record_key(name, "group") == group
    assert record_key(name, "name") == name


def test_a_genesis_of_placement_by_name_has_the_bytes_that_it_had() -> None:
    genesis = Genesis("accountant", 1, 4, 3_600_000, 300_000, "id")
    before = (
        b'{"application":"accountant","partition":1,"partitions":4,"window_ms":3600000,'
        b'"skew_ms":300000,"ledger":"id"}'
    )
    assert encode(genesis) == before
    assert msgspec.json.decode(before, type=Genesis) == genesis
    without = Genesis("accountant", 1, 4, 3_600_000, 300_000)
    assert encode(without) == before.replace(b',"ledger":"id"', b"")
    grouped = msgspec.structs.replace(genesis, placement="group")
    assert encode(grouped) == before.replace(b"}", b',"placement":"group"}')


def test_a_group_is_decided_together_and_other_names_on_one_partition_alone() -> None:
    for partitions, placement, together in (
        (1, "name", True),
        (1, "group", True),
        (4, "name", False),
        (4, "group", True),
    ):
        genesis = Genesis("test", 0, partitions, 3_600_000, 300_000, placement=placement)
        assert genesis.decides_together("a::b", "a::c") is together
        assert genesis.decides_together("a", "a::c") is together
        assert genesis.decides_together("a::b", "b::b") is (partitions == 1)
