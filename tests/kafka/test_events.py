"""Events of a ledger on a real broker: two partitions, two servers, streams that are cut."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from accountant.partition.key_hash import partition_of
from accountant.records.http_bodies import served_decision
from streams.gateway.events.position import Position
from streams.kafka.service.kafka_service import KafkaService
from streams.server.gateway_server import GatewayServer, run_gateway
from streams.settings import load
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, request, working
from tests.kafka.test_decision_reader import abort_some, logs
from tests.patience import PATIENCE_S
from tests.streams.gateway.cut_streams import Event, Refusal, read_until, read_with_cuts

# One dataset of each partition.
NAMES = ["d0", "d1"]
OPTIONS: dict[str, Any] = {"partitions": 2}


@asynccontextmanager
async def server(ledger: Ledger, *, window_ms: int = 2_000) -> AsyncIterator[str]:
    """Yield the address of a gateway in this loop, which reads back no further than a window."""
    service = await KafkaService.start(replace(ledger.deployment, window_ms=window_ms, skew_ms=0))
    urls: asyncio.Queue[str] = asyncio.Queue()
    servers: list[GatewayServer] = []
    serving = asyncio.create_task(
        run_gateway(service, load(port=0), listening=urls.put_nowait, made=servers.append)
    )
    try:
        yield await asyncio.wait_for(urls.get(), PATIENCE_S)
    finally:
        if servers:
            servers[0].stop()
        await serving
        await service.close()


async def now(url: str) -> str:
    (event,) = await asyncio.to_thread(read_until, url, bool)
    return event.id


def expected(values: list[bytes]) -> list[tuple[str, Any]]:
    """Return the events of one partition's decisions."""
    found: list[tuple[str, Any]] = []
    for value in values:
        decision = json.loads(value)
        found.append(("decision", json.loads(served_decision(value))))
        found += [
            ("alert", f"{decision['dataset']}/1/{each}") for each in decision.get("crossed", ())
        ]
    return found


def events_of(events: list[Event], partition: int) -> list[tuple[str, Any]]:
    return [
        (each.kind, each.json if each.kind == "decision" else each.json["alert_id"])
        for each in events
        if each.kind and partition_of(each.json["dataset"].encode(), 2) == partition
    ]


def are_all(events: list[Event]) -> bool:
    return sum('"purpose": "last"' in each.data for each in events) == 2


async def ask_some(ledger: Ledger, rounds: int) -> None:
    """Have requests decided on both datasets, in many transactions, some of others aborted."""
    for number in range(rounds):
        await ledger.send_all([request(name, epsilon="0.02") for name in NAMES for _ in range(4)])
        if number % 3 == 0:
            forged = request(NAMES[0], purpose="never committed")
            await asyncio.to_thread(abort_some, ledger, *[forged] * 7, partition=number % 2)
    await ledger.settle()
    await ledger.send_all([request(name, epsilon="0.02", purpose="last") for name in NAMES])
    await ledger.settle()


async def test_a_stream_resumes_at_any_server_of_the_ledger(
    broker: LocalBroker, application: str
) -> None:
    async with (
        Ledger(broker.bootstrap, application, **OPTIONS) as ledger,
        working(ledger, batch=3),
        server(ledger) as here,
        server(ledger) as there,
    ):
        await ledger.open(*NAMES, filter="basic", epsilon="1", alert_at=["0.1", "0.2", "0.5"])
        await ledger.settle()
        begin = await now(here)
        position = Position.parse(begin)
        assert position is not None
        asking = asyncio.create_task(ask_some(ledger, 12))
        events, cuts = await asyncio.to_thread(
            read_with_cuts, [here, there], begin, are_all, chance=random.Random(1), most=6_000
        )
        await asking
        assert cuts > 10
        parts = await asyncio.to_thread(logs, ledger)
        for partition, (log, number) in enumerate(zip(parts, position.numbers, strict=True)):
            wanted = expected(log[number + 1 :])
            assert events_of(events, partition) == wanted
            assert [kind for kind, _ in wanted].count("alert") == 3
        # Resume at some ids, also at one within a decision: the rest follows.
        within = [n for n, each in enumerate(events) if each.id.count("-") == 3]
        assert {events[n].id.rpartition("-")[2][0] for n in within} == {"0", "1"}
        for number in [*within, *random.Random(2).sample(range(len(events) - 1), 10)]:
            count = len(events) - number - 1
            rest = await asyncio.to_thread(read_until, there, has(count), last=events[number].id)
            for partition in (0, 1):
                assert events_of(rest, partition) == events_of(events[number + 1 :], partition)


def has(count: int) -> Callable[[list[Event]], bool]:
    """Return whether so many events came; positions alone are none."""
    return lambda found: sum(bool(each.kind) for each in found) >= count


async def test_an_idle_partition_has_a_position_too(broker: LocalBroker, application: str) -> None:
    async with Ledger(broker.bootstrap, application, **OPTIONS) as ledger, working(ledger):
        await ledger.open(*NAMES, filter="basic", epsilon="1")
        await ledger.send_all([request("d0") for _ in range(5)])
        await ledger.settle()
        for _ in range(2):
            async with server(ledger, window_ms=1) as url:
                position = Position.parse(await now(url))
                parts = await asyncio.to_thread(logs, ledger)
                assert position == Position.of([(len(part) - 1, part[-1]) for part in parts])
                await ledger.send_all([request("d1")])
                await ledger.settle()
                (event,) = (
                    each
                    for each in await asyncio.to_thread(
                        read_until, url, lambda found: len(found) == 2, last=str(position)
                    )
                    if each.kind
                )
                after = Position.parse(event.id)
                assert after is not None
                assert after.numbers == (position.numbers[0], position.numbers[1] + 1)


async def test_an_unknown_position_or_one_of_another_ledger_is_refused(
    broker: LocalBroker, application: str
) -> None:
    async with (
        Ledger(broker.bootstrap, application, **OPTIONS) as ledger,
        Ledger(broker.bootstrap, f"{application}x", **OPTIONS) as other,
        working(ledger),
        server(ledger) as url,
        server(other) as foreign,
    ):
        last = await now(foreign)
        await ledger.open(*NAMES, filter="basic", epsilon="1")
        await ledger.settle()
        with pytest.raises(Refusal, match="other decisions there") as refused:
            await asyncio.to_thread(read_until, url, bool, last=last)
        assert refused.value.status == 400
        position = Position.parse(await now(url))
        assert position is not None
        for beyond in (position._replace(numbers=(1, 2)), position.within(1, 1)):
            with pytest.raises(Refusal, match="partition 1 has no decision 2 yet"):
                await asyncio.to_thread(read_until, url, bool, last=str(beyond))
