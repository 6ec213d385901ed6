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

from streams.kafka.wire.diagnose_auth import diagnose_auth

_CONNECT_MS: Final = 2_000


class _ConnectLock:
    """The lock for connecting to one broker, and the number of attempts that timed out."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.failed = 0


class QuickConnectClient(AIOKafkaClient):  # type: ignore[misc]  # aiokafka carries no types
    """A client that waits only two seconds for a connection while it knows other brokers."""

    _bootstrap_servers: Any
    _request_timeout_ms: int

    async def bootstrap(self) -> None:
        """Get the list of brokers from the first address that answers.

        Raises: KafkaConnectionError: no address answers; ConnectionDenied: a broker answers and
            rejects this client.
        """
        addresses, timeout_ms = self._bootstrap_servers, self._request_timeout_ms
        servers = addresses.split(",") if isinstance(addresses, str) else addresses
        if len(servers) > 1:
            # This limit applies to the bootstrap connections only, and closes them on expiry;
            # a cancelled task would leave them open.
            self._request_timeout_ms = min(timeout_ms, _CONNECT_MS)
        try:
            await super().bootstrap()
        # ValueError comes from SCRAM: the broker could not prove that it knows the password.
        except (ValueError, kafka.KafkaConnectionError) as error:
            denied = await diagnose_auth(self)
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
        locks: dict[Any, _ConnectLock] = self.__dict__.setdefault("_turns", {})
        lock_of_broker = locks.setdefault((node_id, group), _ConnectLock())
        failed = lock_of_broker.failed
        async with lock_of_broker.lock:
            if lock_of_broker.failed != failed:
                return None  # the task before has just failed: a new try would delay the next task
            try:
                async with asyncio.timeout(_CONNECT_MS / 1000):
                    return await super()._get_conn(node_id, group=group, no_hint=no_hint)
            except TimeoutError:
                lock_of_broker.failed += 1
                self.force_metadata_update()  # another broker may lead its partitions by now
                return None


def with_short_connect(client: Any) -> Any:
    """Return a consumer, producer or admin client, not started yet, with short connect timeouts."""
    inner = client.client if hasattr(client, "client") else client._client
    inner.__class__ = QuickConnectClient
    return client
