"""The consumer of a group whose committed offsets mark the alerts that were passed on."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from streams.alerts.alerts_topic import FETCH_WAIT_MS
from streams.kafka.deployment import Deployment
from streams.kafka.wire.connect_timeouts import with_short_connect


def group_consumer(deployment: Deployment, group: str, member: str) -> Any:
    """Return a consumer that is not started.

    A group that is new, or was away for long, begins at the first record.

    Args:
        member: its static id in the group.
    """
    return with_short_connect(
        AIOKafkaConsumer(
            **deployment.cluster.options(),
            group_id=group,
            group_instance_id=member,
            partition_assignment_strategy=(RangePartitionAssignor,),
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
            request_timeout_ms=15_000,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            retry_backoff_ms=100,
        )
    )
