"""Connections that are given up soon where another broker can be asked instead.

The client waits as long for a connection as for an answer, connects to one broker at a time, and
everything else that needs a connection waits behind: one broker that hangs, or whose machine is
gone, then kept a worker from its group for up to a minute.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any, Final

from aiokafka.client import AIOKafkaClient, ConnectionGroup

_CONNECT_MS: Final = 2_000


class _Turn:
    """The lock of the one task that connects to a broker, and how often that took too long."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.failed = 0


class HurriedClient(AIOKafkaClient):  # type: ignore[misc]  # aiokafka carries no types
    """A client that waits two seconds for a connection, as long as it knows of other brokers."""

    _bootstrap_servers: Any
    _request_timeout_ms: int

    async def bootstrap(self) -> None:
        """Learn who the brokers are from the first address that answers.

        Raises: KafkaConnectionError: no address answers.
        """
        given, timeout_ms = self._bootstrap_servers, self._request_timeout_ms
        servers = given.split(",") if isinstance(given, str) else given
        if len(servers) > 1:
            # This limit applies to the bootstrap connections only, and closes them on expiry;
            # a cancelled task would leave them open.
            self._request_timeout_ms = min(timeout_ms, _CONNECT_MS)
        try:
            await super().bootstrap()
        finally:
            self._request_timeout_ms = timeout_ms

    @property
    def _get_conn_lock(self) -> Any:
        """Replaces the client's lock, which lets one slow connection delay all others."""
        return nullcontext() if len(self.cluster.brokers()) > 1 else super()._get_conn_lock

    # Private, and the only way to it; tests/kafka/test_connecting.py.
    async def _get_conn(
        self, node_id: Any, *, group: Any = ConnectionGroup.DEFAULT, no_hint: bool = False
    ) -> Any:
        if len(self.cluster.brokers()) < 2:
            return await super()._get_conn(node_id, group=group, no_hint=no_hint)
        turns: dict[Any, _Turn] = self.__dict__.setdefault("_turns", {})
        turn = turns.setdefault((node_id, group), _Turn())
        failed = turn.failed
        async with turn.lock:
            if turn.failed != failed:
                return None  # as for whom it waited: it would only take the next one's time
            try:
                async with asyncio.timeout(_CONNECT_MS / 1000):
                    return await super()._get_conn(node_id, group=group, no_hint=no_hint)
            except TimeoutError:
                turn.failed += 1
                self.force_metadata_update()  # perhaps its partitions are another's by now
                return None


def with_short_connect(client: Any) -> Any:
    """Have a consumer, producer or admin client that was not started connect so; return it."""
    inner = client.client if hasattr(client, "client") else client._client
    inner.__class__ = HurriedClient
    return client
