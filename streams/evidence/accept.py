"""Accept that a log has lost decisions, as the partition's owner."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from accountant.errors import RequestInvalid
from accountant.partition import hash_of
from accountant.partition.draft import Draft
from accountant.partition.operate import accept_rollback
from accountant.records import Genesis
from accountant.records.decided import Encoded
from streams.clock import Clock
from streams.errors import Refused, Unavailable
from streams.evidence.rollbacks import Lost, lost_of, signed_rollback
from streams.evidence.store import Kept
from streams.processing.journal import Commit, Journal
from streams.processing.recovery import recovered

_RANGE: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


async def accept(
    journal: Journal,
    genesis: Genesis,
    clock: Clock,
    kept: Kept,
    digest: Callable[[int], str | None],
    *,
    lost: str,
    note: str,
) -> Encoded | None:
    """Write one decision `rolled_back`; return it, None if the log has lost nothing.

    Run again after a fault, it writes no second one.

    Args:
        journal: of the stopped ledger, not owned yet.
        digest: as of `lost_of`; called in a thread that may wait.
        lost: the decisions that are given up, as `FIRST-LAST`.
        note: why, for people.

    Raises:
        RequestInvalid: these are not the decisions that the log has lost.
        Refused: the log names another key than that of the checkpoints.
        Unavailable: the checkpoints cannot be read. The errors of the journal and LogDamaged.
    """
    try:
        await journal.own()
        partition = await recovered(journal, genesis, asyncio.sleep)
        there = kept.seen(partition.key)
        seen = there.kept
        # In a thread of its own: what it reads may need an event loop.
        found = await asyncio.to_thread(lost_of, partition.sequence, partition.branch, seen, digest)
        if found is None:
            return None
        if there.key_before is not None:
            raise Refused(
                f"the log's key is {there.key_before}, not {kept.key.verifier.text}: an auditor "
                "would not believe this one. Set ACCOUNTANT_CHECKPOINT_KEY to the log's; if that "
                "is lost, `accountant key rotate --lost` first"
            )
        first = _first(lost, found)
        rollback = signed_rollback(kept.ledger, partition, first, found.newest, kept.key)
        draft = Draft(partition)
        made = accept_rollback(draft, clock.now(), note, rollback)
        await journal.commit(Commit([made], draft.rows(), [], draft.next, draft.decided_at))
        # It shows where the branch begins, should a copy of an older one be put back.
        with suppress(Unavailable):  # the ledger's own process keeps one at its next start
            kept.put(made.partition_sequence, hash_of(made.value), rollback.branch, clock.now())
    finally:
        await journal.drop()
    return made


def _first(lost: str, found: Lost) -> int:
    """Return the first decision that is given up.

    Raises: RequestInvalid.
    """
    parts = _RANGE.fullmatch(lost)
    last = found.newest.sequence
    # A person may know better where the logs begin to differ; never past a known loss.
    is_known = parts is not None and int(parts[2]) == last
    if parts is None or not is_known or not found.earliest <= int(parts[1]) <= found.latest:
        which = f", or an earlier first one from {found.earliest}"
        which = which if found.earliest < found.first else ""
        if found.first < found.latest:
            which += f", or a later first one up to {found.latest}"
        raise RequestInvalid("--lost", f"must be {found.first}-{last}{which}", lost)
    return int(parts[1])
