"""Compares a clock with a broker's: no pause of the ledger makes that one older."""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka import TopicPartition
from aiokafka.errors import IncompatibleBrokerVersion

from streams.clock import Clock, check_broker_clock
from streams.errors import Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.wire.producer import TransactionalProducer

_WITHIN_S: Final = 5.0


async def compare_clock(deployment: Deployment, clock: Clock, name: str) -> bool:
    """Compare a clock with that of a broker. This leaves a marker in the topic of dead letters.

    Args:
        name: of this process among those of the application; a part of its transactional id,
            which begins as the ACLs of workers and operators allow.

    Raises:
        ClockOutOfRange: the clock is more than 2 days ahead.
        JournalFault, Refused: the broker's time is not known.
    """
    producer = TransactionalProducer(deployment.cluster, f"{deployment.application}-clock-{name}")
    try:
        async with asyncio.timeout(_WITHIN_S):
            await producer.start()
            now = clock.now()  # before the broker's: a slow answer must not look like a fast clock
            broker = await producer.broker_time(TopicPartition(deployment.topics.dead_letters, 0))
    except TimeoutError as error:
        raise Unavailable("the broker did not answer in time") from error
    except Refused as error:
        if isinstance(error.__cause__, IncompatibleBrokerVersion):
            return False
        raise
    finally:
        producer.drop()
    check_broker_clock(now, broker)
    return True
