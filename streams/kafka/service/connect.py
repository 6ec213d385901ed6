"""Connect to a ledger on Kafka, from settings to its service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.errors import name_missing_extra
from streams.files.private_files import ensure_private
from streams.settings import Settings

if TYPE_CHECKING:
    from streams.kafka.service.kafka_service import KafkaService

_LEAST_S: Final = 2.0
"""Connecting to a healthy broker takes about a second, so a `wait` below that would always fail."""


async def connect_kafka(settings: Settings, *, wait: float = 30.0) -> KafkaService:
    """Return the service of a ledger on Kafka, connected within `wait` seconds, at least 2.

    Raises: Unavailable: the broker does not answer; NotInstalled: the extra `kafka` is not there.
    """
    # Importing the Kafka client takes a third of a second, so other ledgers do not import it.
    with name_missing_extra():
        from streams.kafka.deployment import deployment_of
        from streams.kafka.service.kafka_service import KafkaService

    index = None if settings.index is None else settings.index.absolute()
    if index is not None and settings.authenticates:
        ensure_private(index)
    return await KafkaService.start(deployment_of(settings), wait=max(wait, _LEAST_S), index=index)
