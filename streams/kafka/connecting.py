"""Connections that are given up soon where another broker can be asked instead.

The client waits as long for a connection as for an answer, connects to one broker at a time, and
everything else that needs a connection waits behind: one broker that hangs, or whose machine is
gone, then kept a worker from its group for up to a minute.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient

_CONNECT_S: Final = 2.0


class HurriedClient(AIOKafkaClient):  # type: ignore[misc]  # aiokafka carries no types
    """A client that waits two seconds for a connection, as long as it knows of other brokers."""

    _bootstrap_servers: Any

    async def bootstrap(self) -> None:
        """Learn who the brokers are from the first address that answers.

        Raises: KafkaConnectionError: none does.
        """
        given = self._bootstrap_servers
        servers = [each.strip() for each in given.split(",")] if isinstance(given, str) else given
        if len(servers) < 2:
            await super().bootstrap()
            return
        try:
            for server in random.sample(servers, len(servers)):
                self._bootstrap_servers = [server]
                try:
                    async with asyncio.timeout(_CONNECT_S):
                        await super().bootstrap()
                except (TimeoutError, kafka.KafkaConnectionError):
                    continue
                return
        finally:
            self._bootstrap_servers = given
        raise kafka.KafkaConnectionError(f"Unable to bootstrap from {', '.join(servers)}")

    # Private, and the only way to it; tests/kafka/test_connecting.py.
    async def _get_conn(self, *args: Any, **kwargs: Any) -> Any:
        if len(self.cluster.brokers()) < 2:
            return await super()._get_conn(*args, **kwargs)
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await super()._get_conn(*args, **kwargs)
        except TimeoutError:
            self.force_metadata_update()  # perhaps its partitions are another's by now
            return None


def hurried(client: Any) -> Any:
    """Have a consumer, producer or admin client that was not started connect so; return it."""
    inner = client.client if hasattr(client, "client") else client._client
    inner.__class__ = HurriedClient
    return client
