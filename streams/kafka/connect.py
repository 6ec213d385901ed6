"""From settings to the service of a ledger on Kafka."""

from __future__ import annotations

from typing import Final

from streams.service import Service
from streams.settings import Settings

_LEAST_S: Final = 2.0
"""Connecting to a broker that is well takes about a second, whatever the caller's patience."""


async def connect_kafka(settings: Settings, *, wait: float = 30.0) -> Service:
    """Return the service of a ledger on Kafka, connected within `wait` seconds, at least 2.

    Raises: Unavailable: the broker does not answer.
    """
    # The Kafka client takes a third of a second to import, which the others need not pay.
    from streams.kafka.deployment import deployment_of
    from streams.kafka.service import KafkaService

    return await KafkaService.start(deployment_of(settings), wait=max(wait, _LEAST_S))
