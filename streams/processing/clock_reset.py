"""Set a partition's clock back after a machine's clock was ahead, as the partition's owner."""

from __future__ import annotations

import asyncio

from accountant.partition.draft import Draft
from accountant.partition.operate import reset_clock
from accountant.records import Genesis
from accountant.records.decided import Encoded
from streams.clock import JUMP_MS, Clock
from streams.processing.journal import Commit, Journal
from streams.processing.recovery import recovered


async def reset(journal: Journal, genesis: Genesis, clock: Clock, note: str) -> Encoded | None:
    """Write one decision `clock_reset`; return it, None if the log's clock is not ahead.

    Run again after a fault, it writes no second one.

    Raises: RequestInvalid: the note is empty or too long. The errors of the journal and LogDamaged.
    """
    try:
        await journal.own()
        partition = await recovered(journal, genesis, asyncio.sleep)
        now = clock.now()
        if now >= partition.decided_at - JUMP_MS:
            return None
        draft = Draft(partition)
        decision = reset_clock(draft, now, note)
        await journal.commit(Commit([decision], draft.rows(), [], draft.next, draft.decided_at))
    finally:
        await journal.drop()
    return decision
