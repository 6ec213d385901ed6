"""The brokers of a client: the leaders of its topics, the coordinator of its transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.metadata import MetadataRequest

from streams.kafka.wire.connect_timeouts import QuickConnectClient
from streams.kafka.wire.security import Cluster

AWAY_S: Final = 0.1
"""Pause in seconds before the next try, if a needed broker is unknown or does not answer."""

NOBODY: Final = -1
"""The leader's number of a partition that has no leader now."""


class Brokers:
    """Sends each request once, to the right broker, and returns the answer.

    Args:
        cluster: the brokers' addresses and security.
        name: name of this client; also the transactional id whose coordinator it asks.
        timeout_ms: longest wait for an answer.
    """

    def __init__(self, cluster: Cluster, name: str, timeout_ms: int) -> None:
        self._name = name
        self._client = QuickConnectClient(
            **cluster.options(), client_id=name, request_timeout_ms=timeout_ms
        )
        self._coordinator: int | None = None
        self._of_groups: dict[str, int] = {}
        self._topics: set[str] = set()
        self._closed = False

    async def connect(self) -> None:
        """Get the list of brokers.

        Raises: KafkaError: no broker answers.
        """
        await self._client.bootstrap()

    def learn(self, topics: Set[str]) -> None:
        """Add these topics to those whose leaders the client looks up."""
        if not topics <= self._topics:
            self._topics |= topics
            self._client.set_topics(self._topics)

    async def refresh(self) -> bool:
        """Ask again for the leaders of the topics; return whether a broker answered."""
        return bool(await self._client.force_metadata_update())

    def leads(self, tp: TopicPartition) -> int | None:
        """Return the known leader of a partition, -1 if it has none, None if it is not known."""
        node: int | None = self._client.cluster.leader_for_partition(tp)
        return node

    async def partitions_of(self, topic: str) -> list[int]:
        """Return the partitions of a topic; an empty list if it is missing.

        This never creates the topic. After `learn`, a broker with automatic creation might.

        Raises: KafkaError, TimeoutError, OSError.
        """
        answer = await self.ask_any(MetadataRequest([topic], False))
        ((code, _, _, partitions),) = answer.topics
        error = kafka.for_code(code)
        if error is kafka.UnknownTopicOrPartitionError:
            return []
        if error is not kafka.NoError:
            raise error(topic)
        return sorted(number for _, number, *_ in partitions)

    async def leader(self, tp: TopicPartition) -> int:
        """Return the leader of a partition; wait until it is known.

        Raises: TopicAuthorizationFailedError: the broker denies us the topic.
        """
        cluster = self._client.cluster
        pause = 0.0
        while True:
            node = self.leads(tp)
            if node is not None and node != NOBODY:
                return node
            await asyncio.sleep(pause)
            pause = AWAY_S
            await self.refresh()
            if tp.topic in cluster.unauthorized_topics:
                raise kafka.TopicAuthorizationFailedError(tp.topic)

    def forget_coordinator(self) -> None:
        """Look for the coordinator again before the next request to it."""
        self._coordinator = None

    async def ask_coordinator(self, request: Any) -> Any:
        """Return the coordinator's answer.

        Raises: KafkaError: there is no coordinator, or the request may not have arrived.
        """
        if self._coordinator is None:
            self._coordinator = await self._find(CoordinationType.TRANSACTION, self._name)
        return await self.ask(self._coordinator, request, ConnectionGroup.COORDINATION)

    def forget_group(self, group: str) -> None:
        """Look for the coordinator of a consumer group again before the next request to it."""
        self._of_groups.pop(group, None)

    async def ask_group(self, group: str, request: Any) -> Any:
        """Return the answer of a consumer group's coordinator, as `ask_coordinator`."""
        if group not in self._of_groups:
            self._of_groups[group] = await self._find(CoordinationType.GROUP, group)
        return await self.ask(self._of_groups[group], request, ConnectionGroup.COORDINATION)

    async def _find(self, kind: CoordinationType, key: str) -> int:
        lookup = self._client.coordinator_lookup
        while True:
            try:
                if self._client.get_random_node() is None:
                    raise kafka.NodeNotReadyError("no broker is known yet")
                return int(await lookup(kind, key))
            except kafka.KafkaError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(AWAY_S)

    async def ask_any(self, request: Any) -> Any:
        """Return the answer of any broker, as `ask`."""
        node = self._client.get_random_node()
        if node is None:
            raise kafka.NodeNotReadyError("no broker is known yet")
        return await self.ask(node, request)

    async def ask(
        self, node: int, request: Any, group: ConnectionGroup = ConnectionGroup.DEFAULT
    ) -> Any:
        """Return a broker's answer.

        Args:
            group: the connection to use.
        Raises: KafkaError: the request may not have arrived, or `close` was called.
        """
        if self._closed:
            raise kafka.KafkaConnectionError("closed by ourselves")
        try:
            return await self._client.send(node, request, group=group)
        except (kafka.KafkaError, TimeoutError, OSError):
            raise
        except Exception as error:  # an error of the client library, not of a record
            raise kafka.KafkaError from error

    def close(self) -> None:
        """Close the sockets; later requests fail."""
        self._closed = True
        closing = asyncio.ensure_future(self._client.close())
        closing.add_done_callback(_forget)


def _forget(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
