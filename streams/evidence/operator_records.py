"""Records that commands write to a stopped ledger's log, as the owner of its partition.

Each is one decision in one transaction, so a command repeated after a fault writes no second one.
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
from streams.evidence.copies import find_any_lost
from streams.evidence.key_changes import signed_change
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.rollbacks import LostDecisions, signed_rollback
from streams.evidence.store import CheckpointStore
from streams.processing.journal import Commit, Journal
from streams.processing.recovery import Compare, recover_partition

_RANGE: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


async def reset_clock(
    journal: Journal, genesis: Genesis, clock: Clock, note: str, *, compare: Compare
) -> EncodedDecision | None:
    """Set a log's clock back after the machine's was ahead; None if it is not ahead.

    Args:
        journal: the stopped ledger's, not owned yet.
        compare: called with the state before anything is written.
        note: the reason, for people.

    Returns: the decision `clock_reset`.
    Raises: RequestInvalid: the note is empty or too long. The errors of `compare`, of the journal,
        and LogDamaged.
    """
    async with _owned(journal, genesis, compare) as partition:
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
    compare: Compare,
) -> EncodedDecision | None:
    """Change the key of a log's checkpoints; None if the log already names the new key.

    The new key is the log's from the commit of this transaction on.

    Args:
        journal, note, compare: as for `reset_clock`.
        ledger: its id.
        key: the old signing key, None if it is lost.

    Returns: the decision `key_changed`.

    Raises:
        Refused: the log names another key than the old one.
        RequestInvalid, and others: as `reset_clock`.
    """
    async with _owned(journal, genesis, compare) as partition:
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
    store: CheckpointStore,
    digest: Callable[[int], str | None],
    *,
    lost: str,
    note: str,
    check_name: Compare,
) -> EncodedDecision | None:
    """Accept that a log has lost decisions; None if it has lost none.

    Args:
        journal, note: as for `reset_clock`.
        digest: as for `rollbacks.find_lost`; called in a thread, so it may block.
        lost: the decisions to give up, as `FIRST-LAST`.
        check_name: checks that the log is the ledger's that had this name before.

    Returns: the decision `rolled_back`.

    Raises:
        RequestInvalid: these are not the decisions that the log has lost.
        Refused: the log names another key than the checkpoints'.
        Unavailable: the checkpoints cannot be read. The errors of the journal and LogDamaged.
    """
    async with _owned(journal, genesis, check_name) as partition:
        stored = store.load(partition.key)
        # In a thread: `digest` may need an event loop of its own.
        found = await asyncio.to_thread(
            find_any_lost,
            partition.sequence,
            partition.branch,
            stored.checkpoints,
            stored.elsewhere,
            digest,
        )
        if found is None:
            return None
        if stored.log_key is not None:
            raise Refused(
                f"the log's key is {stored.log_key}, not {store.key.verifier.text}: an auditor "
                "would not trust this one. Set ACCOUNTANT_CHECKPOINT_KEY to the log's; if that "
                "is lost, `accountant key rotate --lost` first"
            )
        first = _first(lost, found)
        rollback = signed_rollback(store.ledger, partition, first, found.newest, store.key)
        draft = Draft(partition)
        made = operate.accept_rollback(draft, clock.now(), note, rollback)
        await _commit(journal, draft, made)
        # This checkpoint shows where the branch begins, should an older copy be restored.
        with suppress(Unavailable):  # the ledger's own process stores one at its next start
            store.put(made.partition_sequence, hash_of(made.value), rollback.branch, clock.now())
        return made


def _first(lost: str, found: LostDecisions) -> int:
    """Return the first decision to give up.

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
async def _owned(journal: Journal, genesis: Genesis, compare: Compare) -> AsyncIterator[Partition]:
    """Take ownership of a partition, compare its log, and yield its state."""
    try:
        await journal.own()
        partition = await recover_partition(journal, genesis, asyncio.sleep)
        await compare(partition)
        yield partition
    finally:
        await journal.drop()


async def _commit(journal: Journal, draft: Draft, made: EncodedDecision) -> EncodedDecision:
    await journal.commit(Commit([made], draft.rows(), [], draft.next, draft.decided_at))
    return made
