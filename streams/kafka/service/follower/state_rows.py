"""Read the rows of `state` in processes that follow a ledger without owning it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiokafka import TopicPartition

from streams.errors import JournalFault
from streams.kafka.deployment import Deployment
from streams.kafka.wire.reader import StableReader
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds; the last one repeats

OnRows = Callable[[int, Mapping[bytes, bytes]], Awaitable[bool]]
"""Called with a partition and all its rows by key; returns whether they are complete."""


class StateRowsReader:
    """Hands over the rows of each partition, and reads incomplete ones again.

    An owner that finds `state` lost or wrong rewrites it in several transactions, the partition's
    row last. Meanwhile a reader gets only some of the rows.
    """

    def __init__(self, deployment: Deployment, on_rows: OnRows) -> None:
        self._cluster = deployment.cluster
        self._topic = deployment.topics.state
        self._on_rows = on_rows
        self._missing = set(range(deployment.partitions))
        self._wanted = asyncio.Event()
        self._wanted.set()

    def want(self, partition: int) -> None:
        """Read a partition's rows again."""
        self._missing.add(partition)
        self._wanted.set()

    async def read(self) -> None:
        """Hand over the rows of the partitions that are still incomplete.

        Raises: JournalFault.
        """
        missing = [TopicPartition(self._topic, number) for number in sorted(self._missing)]
        async with StableReader(self._cluster, missing) as reader:
            for tp in missing:
                rows: dict[bytes, bytes] = {}
                async for record in reader.read(tp, reader.spans[tp].begin):
                    if record.value is None:
                        rows.pop(record.key, None)
                    else:
                        rows[record.key] = record.value
                if await self._on_rows(tp.partition, rows):
                    self._missing.discard(tp.partition)

    async def complete(self) -> None:
        """Read again at growing intervals, whenever a partition is incomplete, without end."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            reads = 0
            while self._missing:
                await asyncio.sleep(_PAUSES[min(reads, len(_PAUSES) - 1)])
                reads += 1
                try:
                    await self.read()
                except JournalFault as error:
                    _log.info("state_not_read", why=str(error), then="retry")
                except Exception:
                    _log.exception("state_not_read")
