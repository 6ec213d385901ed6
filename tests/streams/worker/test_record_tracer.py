"""The worker's lines on records that carry ids: bounded, and of this process's commits alone."""

from __future__ import annotations

import logging

import pytest

from accountant.partition import Partition
from accountant.records.inputs import Input
from streams.processing.observers import Committed
from streams.worker.record_tracer import MAX_WAITING, RecordTracer
from tests.accountant.world import World


def commit(follower: RecordTracer, world: World, *offsets: int) -> None:
    records = [(Input("requests", at, None, None, 0), world.encoded[0]) for at in offsets]
    follower.committed(Committed(Partition(world.genesis), records, 0.0))


def headers(value: str) -> list[tuple[str, bytes]]:
    return [("x-request-id", value.encode())]


def test_the_oldest_of_too_many_undecided_records_is_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    follower, world = RecordTracer(logs=True), World()
    for offset in range(MAX_WAITING + 1):
        follower.received(0, "requests", offset, headers(f"id-{offset}"))
    commit(follower, world, 0, 1, MAX_WAITING)
    lines = [line for line in caplog.messages if "record_decided" in line]
    assert len(lines) == 2
    assert "'id-1'" in lines[0]
    assert f"'id-{MAX_WAITING}'" in lines[1]


def test_records_of_a_dropped_partition_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    follower, world = RecordTracer(logs=True), World()
    follower.received(0, "requests", 5, headers("dropped"))
    follower.received(1, "requests", 5, headers("other"))
    follower.dropped(0, None)
    commit(follower, world, 5)
    assert not [line for line in caplog.messages if "record_decided" in line]


def test_headers_beyond_the_first_twenty_are_not_read(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    follower, world = RecordTracer(logs=True), World()
    follower.received(0, "requests", 1, [("a", b"")] * 19 + headers("last"))
    follower.received(0, "requests", 2, [("a", b"")] * 20 + headers("late"))
    commit(follower, world, 1, 2)
    (line,) = [line for line in caplog.messages if "record_decided" in line]
    assert "'last'" in line
