"""A worker's membership in its consumer group: its assigned partitions, and their inputs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from streams.errors import JournalFault, Refused
from streams.kafka.deployment import Deployment
from streams.kafka.log.inbox import Inbox
from streams.kafka.wire.admin import admin_of, members_of
from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.reader import stop
from streams.processing.observers import Lag
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_PATIENCE_S: Final = 3.0
SESSION_S: Final = 6.0
"""Seconds without a heartbeat after which the group drops a member."""

_LEAVE_S: Final = 1.0
_UUID_LENGTH: Final = 36


class GroupMembership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka carries no types
    """One static member of the group of a deployment's workers.

    Args:
        deployment: names the group and the inputs.
        instance_id: the member's name.
        on_revoked: awaited with the partitions to release, before another member may own them.
        on_assigned: called with the assigned partitions; their inputs are paused.

    Attributes:
        inbox: the inputs of all assigned partitions.
    """

    def __init__(
        self,
        deployment: Deployment,
        instance_id: str,
        *,
        on_revoked: Callable[[set[int]], Awaitable[None]],
        on_assigned: Callable[[set[int]], None],
    ) -> None:
        self._deployment = deployment
        self._instance_id = instance_id
        self._on_revoked = on_revoked
        self._on_assigned = on_assigned
        self._client: Any = with_short_connect(
            AIOKafkaConsumer(
                **deployment.cluster.options(),
                group_id=deployment.application,
                group_instance_id=instance_id,
                partition_assignment_strategy=(RangePartitionAssignor,),
                # A client's open transaction must not stall the partition.
                isolation_level="read_uncommitted",
                auto_offset_reset="none",
                enable_auto_commit=False,
                session_timeout_ms=int(SESSION_S * 1000),
                heartbeat_interval_ms=1_000,
                rebalance_timeout_ms=8_000,
                # The client declares a member dead that polls no records. A member without
                # partitions, or in a long replay, would otherwise leave the group for good.
                max_poll_interval_ms=2**31 - 1,
                request_timeout_ms=10_000,
                retry_backoff_ms=100,
                fetch_max_wait_ms=20,
                max_partition_fetch_bytes=1 << 20,
            )
        )
        self.inbox = Inbox(self._client)
        self._reading: asyncio.Task[None] | None = None
        self._hinting: asyncio.Task[None] | None = None
        self._member = ""  # this member's id in the group, from the last assignment
        self._left = False
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def join(self) -> None:
        """Connect and start to read ahead. The group may assign partitions before this returns.

        Raises: JournalFault, Refused.
        """
        names = self._deployment.topics
        self._client.subscribe([names.requests, names.admin], listener=self)
        try:
            with translate_errors():
                await self._client.start()
        except BaseException:
            await self.leave()
            raise
        self._reading = asyncio.create_task(self.inbox.run(), name="inbox")
        _log.info("worker_joined", group=self._deployment.application, instance=self._instance_id)

    async def leave(self) -> None:
        """Disconnect. The group keeps the member's place for as long as a session lasts.

        From now on the listeners do nothing: the client may be in a rebalance, and a join now
        would displace this member's own successor.
        """
        self._left = True
        if self._reading is not None:
            self._reading.cancel()
        coordinator = self._client._coordinator
        if coordinator is not None:
            coordinator._coordination_task.cancel()
            await asyncio.wait({coordinator._coordination_task}, timeout=_LEAVE_S)
        await stop(self._client)
        if self._hinting is not None:
            self._hinting.cancel()

    async def wait(self, seconds: float) -> bool:
        """Wait, or return at once if the client fails; return whether the client still runs.

        Raises: Refused: another client has joined under this name; the error of a listener.
        """
        assert self._reading is not None
        await asyncio.wait(
            {self._reading, self._ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if self._ended.done():
            self._ended.result()
        if not self._reading.done():
            return True
        error = None if self._reading.cancelled() else self._reading.exception()
        _log.error("group_client_failed", why=repr(error), then="joins again with another")
        return False

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Release partitions before another member may own them."""
        if self._left:
            raise asyncio.CancelledError
        tps = set(revoked)
        await self._on_revoked({tp.partition for tp in tps})
        self.inbox.forget(tps)
        if self._member and await self._is_displaced():
            self._end(
                Refused(
                    f"another worker has joined as {self._instance_id!r}, so this one stops: "
                    "give each an ACCOUNTANT_INSTANCE_ID (--instance-id) of its own"
                )
            )
            # Cancelling ends the client's coordination task. If it joined again, the two
            # workers would displace each other for ever.
            raise asyncio.CancelledError

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Hand over the assigned partitions."""
        if self._left:
            return
        tps = set(assigned)
        # A private attribute, and the only way to the member's id; tests/kafka/test_membership.py.
        self._member = self._client._coordinator.member_id
        for tp in tps:
            # With a position set, the client does not look one up in the group's offsets,
            # which are only a hint. While paused, it fetches nothing before the replay.
            self._client.seek(tp, 0)
            self._client.pause(tp)
        partitions = {tp.partition for tp in tps}
        try:
            self._on_assigned(partitions)
        except Exception as error:
            self._end(error)  # the client would only log it and keep the partitions
            raise
        _log.info("partitions_assigned", partitions=sorted(partitions))

    def _end(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
            self._ended.exception()  # marks it as retrieved, also when no caller waits any more

    async def _is_displaced(self) -> bool:
        """Return whether another client has joined under this name since the last assignment."""
        try:
            if not await self._has_other_member():
                return False
            # A late duplicate of our own join request looks the same, but sends no heartbeat:
            # the group drops it after one session.
            await asyncio.sleep(SESSION_S + 1)
            return await self._has_other_member()
        except (JournalFault, Refused) as error:
            _log.warning("membership_unknown", why=str(error))
            return False

    async def _has_other_member(self) -> bool:
        member = await _member_of(self._deployment, self._instance_id)
        return member not in {None, self._member}

    async def hint(self, serving: Collection[int]) -> list[Lag]:
        """Commit offsets of the served partitions, for displays; return their lags.

        Best effort: this module never relies on the group's offsets.
        """
        positions, lags = {}, []
        for tp in self._client.assignment():
            if tp.partition in serving:
                with contextlib.suppress(Exception):
                    positions[tp] = await self.inbox.position(tp)
                    behind = (self._client.highwater(tp) or positions[tp]) - positions[tp]
                    lags.append(Lag(tp.topic, tp.partition, max(0, behind)))
        if positions and (self._hinting is None or self._hinting.done()):
            # On timeout leave the task running: cancelling makes aiokafka log an error.
            self._hinting = asyncio.create_task(self._commit(positions), name="hint")
            await asyncio.wait({self._hinting}, timeout=_PATIENCE_S)
        return lags

    async def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        with contextlib.suppress(Exception):
            await self._client.commit(positions)


async def _member_of(deployment: Deployment, instance_id: str) -> str | None:
    """Return an instance's current member id in the group, None if it is no member.

    The broker makes the id from the instance's name and a UUID. The UUID is new whenever a client
    joins under that name without sending the last id.

    Raises: JournalFault, Refused: the broker did not answer.
    """
    with translate_errors():
        async with asyncio.timeout(_PATIENCE_S), admin_of(deployment.cluster) as admin:
            ids = await members_of(admin, deployment.application)
    return next((each for each in ids if each[:-_UUID_LENGTH] == f"{instance_id}-"), None)
