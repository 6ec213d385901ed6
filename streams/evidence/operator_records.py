"""Records that commands write into a stopped ledger's log, as its partition's owner.

Each is one decision in one transaction: a command that is run again after a fault writes no
second one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from accountant.errors import RequestInvalid
from accountant.partition import Partition, hash_of, operate
from accountant.partition.draft import Draft
from accountant.records import Genesis
from accountant.records.encoded_decision import EncodedDecision
from streams.clock import JUMP_MS, Clock
from streams.errors import Refused, Unavailable
from streams.evidence.key_changes import signed_change
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.rollbacks import Lost, lost_of, signed_rollback
from streams.evidence.store import Kept
from streams.processing.journal import Commit, Journal
from streams.processing.recovery import recovered

_RANGE: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


async def reset_clock(
    journal: Journal, genesis: Genesis, clock: Clock, note: str
) -> EncodedDecision | None:
    """Set a log's clock back after a machine's was ahead; None if the log's clock is not ahead.

    Args:
        journal: of the stopped ledger, not owned yet.
        note: why, for people.

    Returns: the decision `clock_reset`.
    Raises: RequestInvalid: the note is empty or too long. The errors of the journal and LogDamaged.
    """
    async with _owned(journal, genesis) as partition:
        now = clock.now()
        if now >= partition.decided_at - JUMP_MS:
            return None
        draft = Draft(partition)
        return await _commit(journal, draft, operate.reset_clock(draft, now, note))


async def rotate_key(
    journal: Journal,
    genesis: Genesis,
    clock: Clock,
    ledger: str,
    *,
    new: Verifier,
    old: Verifier,
    key: SigningKey | None,
    note: str,
) -> EncodedDecision | None:
    """Have another key sign a log's checkpoints; None if the log names the new key already.

    Until its transaction is committed the old key is the log's, from then on the new one.

    Args:
        journal, note: as of `reset_clock`.
        ledger: its id.
        key: the old one, None if it is lost.

    Returns: the decision `key_changed`.

    Raises:
        Refused: the log names another key than the old one.
        RequestInvalid, and others: as `reset_clock`.
    """
    async with _owned(journal, genesis) as partition:
        if partition.key == new.text:
            return None
        if partition.key not in {None, old.text}:
            raise Refused(f"the log's key is {partition.key}, not {old.text}")
        change = signed_change(ledger, partition, new, old, key)
        draft = Draft(partition)
        made = operate.change_key(draft, clock.now(), note, change)
        return await _commit(journal, draft, made)


async def accept_rollback(
    journal: Journal,
    genesis: Genesis,
    clock: Clock,
    kept: Kept,
    digest: Callable[[int], str | None],
    *,
    lost: str,
    note: str,
) -> EncodedDecision | None:
    """Accept that a log has lost decisions; None if it has lost nothing.

    Args:
        journal, note: as of `reset_clock`.
        digest: as of `lost_of`; called in a thread that may wait.
        lost: the decisions that are given up, as `FIRST-LAST`.

    Returns: the decision `rolled_back`.

    Raises:
        RequestInvalid: these are not the decisions that the log has lost.
        Refused: the log names another key than that of the checkpoints.
        Unavailable: the checkpoints cannot be read. The errors of the journal and LogDamaged.
    """
    async with _owned(journal, genesis) as partition:
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
        made = operate.accept_rollback(draft, clock.now(), note, rollback)
        await _commit(journal, draft, made)
        # It shows where the branch begins, should a copy of an older one be put back.
        with suppress(Unavailable):  # the ledger's own process keeps one at its next start
            kept.put(made.partition_sequence, hash_of(made.value), rollback.branch, clock.now())
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


@asynccontextmanager
async def _owned(journal: Journal, genesis: Genesis) -> AsyncIterator[Partition]:
    """Own a partition, and yield its state."""
    try:
        await journal.own()
        yield await recovered(journal, genesis, asyncio.sleep)
    finally:
        await journal.drop()


async def _commit(journal: Journal, draft: Draft, made: EncodedDecision) -> EncodedDecision:
    await journal.commit(Commit([made], draft.rows(), [], draft.next, draft.decided_at))
    return made
