"""Delete the topics of tests that have ended.

Many clients ask for all topics as they connect: with the topics of each test of a run, every test
would take longer than the one before.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

AT_ONCE: Final = 10
"""Tests whose topics are deleted together."""

_WITHIN_S: Final = 30.0


class FinishedTopics:
    """The topics of one broker; names of applications are their prefixes."""

    def __init__(self, port: int) -> None:
        # Silent: the broker's end breaks its connection.
        self._admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        self._lock = threading.Lock()
        self._names: list[str] = []

    def add(self, application: str) -> None:
        """Note that the test of this name has ended; sometimes, delete what ended tests left."""
        with self._lock:
            self._names.append(application)
            if len(self._names) < AT_ONCE:
                return
            names, self._names = tuple(self._names), []
        # What cannot be deleted remains: it is in nobody's way.
        with suppress(KafkaException):
            topics = self._admin.list_topics(timeout=_WITHIN_S).topics
            ended = [topic for topic in topics if topic.startswith(names)]
            for deleted in self._admin.delete_topics(ended).values() if ended else ():
                with suppress(KafkaException):
                    deleted.result()
