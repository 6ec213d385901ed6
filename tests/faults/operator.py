"""What an operator, or an accident, does to topics: settings, partitions, deletions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from streams.kafka.log import topics
from tests.faults.ledger import Ledger
from tests.patience import PATIENCE_S


class Operator:
    """Changes the topics of one ledger, as an operator can."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._admin = AdminClient({"bootstrap.servers": ledger.bootstrap})

    def alter(self, topic: str, name: str, value: str) -> None:
        """Set one setting of a topic, and return once the broker says that it holds."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        where = ConfigResource(
            ResourceType.TOPIC, self._ledger.topic(topic), incremental_configs=[entry]
        )
        _wait(self._admin.incremental_alter_configs([where]).values())
        deadline = time.monotonic() + PATIENCE_S
        while self._setting(where, name) != value:
            assert time.monotonic() < deadline, f"{topic}: {name} is not {value}"
            time.sleep(0.05)

    def _setting(self, where: ConfigResource, name: str) -> str | None:
        (answer,) = self._admin.describe_configs([where]).values()
        found: str | None = answer.result(PATIENCE_S)[name].value
        return found

    def grow(self, topic: str, partitions: int) -> None:
        """Raise the number of a topic's partitions."""
        more = NewPartitions(self._ledger.topic(topic), partitions)
        _wait(self._admin.create_partitions([more]).values())

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the first records of a partition."""
        tp = TopicPartition(self._ledger.topic(topic), partition, offset)
        _wait(self._admin.delete_records([tp]).values())

    def delete(self, *names: str) -> None:
        """Delete topics, and return once they are gone."""
        full = [self._ledger.topic(name) for name in names]
        _wait(self._admin.delete_topics(full).values())
        deadline = time.monotonic() + PATIENCE_S
        while self._admin.list_topics(timeout=PATIENCE_S).topics.keys() & set(full):
            assert time.monotonic() < deadline, f"{full} are still there"
            time.sleep(0.1)

    def create_bare(self, *names: str) -> None:
        """Create topics with the right settings and nothing in them, not even a genesis."""
        for name in names:
            new = NewTopic(
                self._ledger.topic(name),
                self._ledger.deployment.partitions,
                1,
                config=topics.SETTINGS[name],
            )
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    _wait(self._admin.create_topics([new]).values())
                    break
                except KafkaException:  # its deletion is not finished everywhere
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)


def _wait(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.result(PATIENCE_S)
