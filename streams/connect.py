"""From an address to a service: in process, over HTTP, or on Kafka."""

from __future__ import annotations

from pathlib import Path

from streams.clock import Clock
from streams.embedded import EmbeddedService
from streams.http_service import HttpService
from streams.journal.sqlite_file import FileLock
from streams.service import Service
from streams.settings import Settings


def connect_here(settings: Settings, clock: Clock | None) -> EmbeddedService | HttpService | None:
    """Return the service of a file or a gateway, None where the ledger is on Kafka.

    A file that another process holds is reached through the address that it published.

    Raises: Refused, LogDamaged: as `EmbeddedService.open`.
    """
    kind, target = settings.ledger
    if kind == "http":
        return HttpService(target)
    if kind == "kafka":
        return None
    path = Path(target)
    owner = FileLock(path).owner()
    if owner is not None and owner.address is not None:
        return HttpService(owner.address)
    return EmbeddedService.open(path, settings, clock=clock)


async def connect_kafka(settings: Settings) -> Service:
    """Return the service of a ledger on Kafka.

    Raises: Unavailable: the broker does not answer.
    """
    # The Kafka client takes a third of a second to import, which the others need not pay.
    from streams.kafka_service import KafkaService
    from streams.topics import deployment_of

    return await KafkaService.start(deployment_of(settings))
