"""The admin client for topics and groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient

from streams.kafka.wire.connect_timeouts import with_short_connect
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.security import Cluster


@asynccontextmanager
async def admin_of(cluster: Cluster) -> AsyncIterator[Any]:
    """Connect for the length of a block. The block must translate the errors of its own calls.

    Raises: JournalFault, Refused: the broker cannot be reached.
    """
    admin = with_short_connect(
        AIOKafkaAdminClient(**cluster.options(), request_timeout_ms=10_000, retry_backoff_ms=50)
    )
    try:
        with translate_errors():
            await admin.start()
        yield admin
    finally:
        await admin.close()


async def members_of(admin: Any, group: str) -> list[str]:
    """Return the ids of a group's members.

    Raises: JournalFault, Refused: the broker does not answer, or answers with an error.
    """
    with translate_errors():
        (described,) = await admin.describe_consumer_groups([group])
        ((code, _, _, _, _, members, *_),) = described.groups
        if code:
            raise kafka.for_code(code)(group)
    return [member[0] for member in members]
