from __future__ import annotations

from accountant.partition.key_hash import partition_of
from streams.kafka.deployment import Deployment, deployment_of
from streams.settings import Settings

NAMES = [f"survey::{i}" for i in range(20)]


def test_records_of_a_group_have_its_key_and_its_partition() -> None:
    grouped = Deployment(bootstrap="broker:9092", placement="group")
    assert {grouped.key_of(name) for name in NAMES} == {b"survey"}
    assert {grouped.partition_of(name) for name in NAMES} == {partition_of(b"survey", 4)}


def test_records_have_their_datasets_key_by_default() -> None:
    by_name = Deployment(bootstrap="broker:9092")
    assert [by_name.key_of(name) for name in NAMES] == [name.encode() for name in NAMES]
    assert [by_name.partition_of(name) for name in NAMES] == [
        partition_of(name.encode(), 4) for name in NAMES
    ]


def test_the_setting_of_the_placement_is_in_the_genesis() -> None:
    for placement in ("name", "group"):
        made = deployment_of(Settings(url="kafka://broker:9092", placement=placement))
        assert made.genesis(1).placement == made.placement == placement
