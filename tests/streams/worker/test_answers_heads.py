"""What a worker says that cannot read the answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from streams.kafka.deployment import Deployment, TopicNames
from streams.settings import Settings
from streams.worker.answers_heads import PartitionAnswersHeads
from tests.streams.curator.curated import comes_true


async def test_a_worker_without_partitions_says_that_no_head_is_signed(tmp_path: Path) -> None:
    """As at its start, before it has replayed any."""
    nobody = Deployment(
        bootstrap="127.0.0.1:1", application="app", topics=TopicNames("app."), partitions=4
    )
    heads = PartitionAnswersHeads(nobody, Settings(), tmp_path, None)
    running = asyncio.create_task(heads.run())

    async def noted() -> bool:
        return bool(heads.notes)

    try:
        assert await comes_true(noted)
        (note,) = heads.notes
        assert note.startswith("no head of the answers is signed: ")
    finally:
        running.cancel()
        await asyncio.wait({running})
