"""A broker that accepts connections and does not answer causes only a short delay.

`with_short_connect` rests on private names of the client: a newer client that lacks one fails
here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import aiokafka.client
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import BrokerMetadata

from streams.kafka.wire.connect_timeouts import QuickConnectClient, with_short_connect
from streams.kafka.wire.reader import stop
from streams.testing import LocalBroker
from tests.patience import PATIENCE_S

_FOREVER_MS = 600_000


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """Addresses where connections are taken, and nothing is ever said."""
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        yield [f"127.0.0.1:{each.getsockname()[1]}" for each in listening]


@pytest.mark.parametrize("make", [AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient])
async def test_the_only_answering_address_of_five_is_found(
    broker: LocalBroker, silent: list[str], make: Callable[..., Any]
) -> None:
    servers = [*silent, broker.bootstrap]
    orders = (servers, servers, ",".join(servers))  # each in a random order
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*[started(make, each) for each in orders])


async def started(make: Callable[..., Any], servers: list[str] | str) -> None:
    """Start a client and stop it; a broker may be too slow for one attempt."""
    while True:
        client = with_short_connect(make(bootstrap_servers=servers, request_timeout_ms=_FOREVER_MS))
        try:
            await client.start()
        except kafka.KafkaConnectionError:
            continue
        else:
            inner = client.client if make is AIOKafkaProducer else client._client
            assert inner._request_timeout_ms == _FOREVER_MS, "of all but the first question"
            return
        finally:
            await (client.close() if make is AIOKafkaAdminClient else stop(client))


async def test_all_addresses_are_named_if_none_answers(silent: list[str]) -> None:
    client = QuickConnectClient(bootstrap_servers=silent[:2], request_timeout_ms=_FOREVER_MS)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(kafka.KafkaConnectionError) as raised:
            await client.bootstrap()
    assert all(each.split(":")[1] in str(raised.value) for each in silent[:2])


async def test_a_hanging_broker_of_the_cluster_causes_no_wait(
    broker: LocalBroker, silent: list[str]
) -> None:
    client = QuickConnectClient(bootstrap_servers=broker.bootstrap, request_timeout_ms=_FOREVER_MS)
    await client.bootstrap()
    try:
        host, port = silent[0].split(":")
        client.cluster._brokers[99] = BrokerMetadata(99, host, int(port), None)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(kafka.NodeNotReadyError):
                await client.send(99, MetadataRequest([]))
            assert (await client.send(1, MetadataRequest([]))).brokers
    finally:
        await client.close()


async def test_a_hanging_broker_does_not_delay_connections_to_others(
    broker: LocalBroker, silent: list[str]
) -> None:
    client = QuickConnectClient(bootstrap_servers=broker.bootstrap, request_timeout_ms=_FOREVER_MS)
    await client.bootstrap()
    try:
        for number, address in enumerate(silent, 90):
            host, port = address.split(":")
            client.cluster._brokers[number] = BrokerMetadata(number, host, int(port), None)
        hanging = [asyncio.create_task(client.ready(number)) for number in range(90, 94)]
        await asyncio.sleep(0)
        assert await client.ready(1)
        assert not any(each.done() for each in hanging)
        assert await asyncio.gather(*hanging) == [False] * 4
    finally:
        await client.close()


async def test_each_connection_attempt_has_its_own_time_limit(
    broker: LocalBroker, silent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, attempts = aiokafka.client.create_conn, list[int]()

    async def slow(host: str, port: int, **options: Any) -> Any:
        if broker.bootstrap.endswith(f":{port}"):
            attempts.append(port)
            # Hangs at first, then takes longer than the time that a later task has left.
            await asyncio.sleep(30 if len(attempts) == 1 else 0.6)
        return await connect(host, port, **options)

    client = QuickConnectClient(bootstrap_servers=broker.bootstrap, request_timeout_ms=_FOREVER_MS)
    await client.bootstrap()
    host, port = silent[0].split(":")
    client.cluster._brokers[99] = BrokerMetadata(99, host, int(port), None)
    monkeypatch.setattr(aiokafka.client, "create_conn", slow)

    async def ask(after: float) -> None:
        await asyncio.sleep(after)
        while True:
            if await client.ready(1):
                return
            await asyncio.sleep(0.1)

    try:
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*[ask(i / 4) for i in range(8)])
        assert len(attempts) == 2
    finally:
        await client.close()


async def test_the_only_broker_there_is_gets_all_the_time_of_a_request(silent: list[str]) -> None:
    client = QuickConnectClient(bootstrap_servers=silent[0], request_timeout_ms=_FOREVER_MS)
    starting = asyncio.create_task(client.bootstrap())
    done, _ = await asyncio.wait({starting}, timeout=4)
    assert not done
    starting.cancel()
    await asyncio.wait({starting})
