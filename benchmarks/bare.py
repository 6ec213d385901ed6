"""The client library's own transactional producer: the baseline of all benchmarks on a broker."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.producer import sender

from streams.kafka.wire.producer import RETRY_BACKOFF_MS

# While the last transaction's markers are written it waits for 20 ms, whatever the setting: it is
# to be as fast as it can be.
sender.BACKOFF_OVERRIDE = RETRY_BACKOFF_MS / 1000


def bare_producer(bootstrap: str, transactional_id: str, **options: Any) -> AIOKafkaProducer:
    """Return a producer that retries as soon as ours does.

    Args:
        options: further ones of `AIOKafkaProducer`.
    """
    return AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=transactional_id,
        linger_ms=0,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        **options,
    )
