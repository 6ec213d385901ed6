"""Short connection timeouts, for clients that can ask another broker instead.

The client library waits as long for a connection as for an answer, and connects to one broker at a
time while all other tasks wait. So one broker that hangs, or whose machine is gone, could keep a
worker from its group for up to a minute.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient, ConnectionGroup

from streams.kafka.wire.denied import why_denied

_CONNECT_MS: Final = 2_000


class _Turn:
    """The lock for connecting to one broker, and the number of attempts that took too long."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.failed = 0


class HurriedClient(AIOKafkaClient):  # type: ignore[misc]  # aiokafka carries no types
    """A client that waits only two seconds for a connection while it knows other brokers."""

    _bootstrap_servers: Any
    _request_timeout_ms: int

    async def bootstrap(self) -> None:
        """Get the list of brokers from the first address that answers.

        Raises: KafkaConnectionError: no address answers; ConnectionDenied: one does, and lets us
            not in.
        """
        given, timeout_ms = self._bootstrap_servers, self._request_timeout_ms
        servers = given.split(",") if isinstance(given, str) else given
        if len(servers) > 1:
            # This limit applies to the bootstrap connections only, and closes them on expiry;
            # a cancelled task would leave them open.
            self._request_timeout_ms = min(timeout_ms, _CONNECT_MS)
        try:
            await super().bootstrap()
        # Of SCRAM: what the broker says is not what only a knower of the password can say.
        except (ValueError, kafka.KafkaConnectionError) as error:
            denied = await why_denied(self)
            if denied is None and isinstance(error, kafka.KafkaConnectionError):
                raise
            raise denied or kafka.KafkaConnectionError(str(error)) from None
        finally:
            self._request_timeout_ms = timeout_ms

    @property
    def _get_conn_lock(self) -> Any:
        """Replaces aiokafka's lock, with which one slow connection delays all others."""
        return nullcontext() if len(self.cluster.brokers()) > 1 else super()._get_conn_lock

    # aiokafka's private method, the only place to limit this wait. A test,
    # tests/kafka/test_connecting.py, notices a change of it.
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
                return None  # the task before has just failed: a new try would delay the next task
            try:
                async with asyncio.timeout(_CONNECT_MS / 1000):
                    return await super()._get_conn(node_id, group=group, no_hint=no_hint)
            except TimeoutError:
                turn.failed += 1
                self.force_metadata_update()  # another broker may lead its partitions by now
                return None


def with_short_connect(client: Any) -> Any:
    """Return a consumer, producer or admin client, not started yet, with short connect timeouts."""
    inner = client.client if hasattr(client, "client") else client._client
    inner.__class__ = HurriedClient
    return client
