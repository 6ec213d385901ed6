"""Have another key sign a log's checkpoints, as the partition's owner."""

from __future__ import annotations

import asyncio

from accountant.partition.draft import Draft
from accountant.partition.operate import change_key
from accountant.records import Genesis
from accountant.records.decided import Encoded
from streams.clock import Clock
from streams.errors import Refused
from streams.evidence.key_changes import signed_change
from streams.evidence.keys import SigningKey, Verifier
from streams.processing.journal import Commit, Journal
from streams.processing.recovery import recovered


async def rotate(
    journal: Journal,
    genesis: Genesis,
    clock: Clock,
    ledger: str,
    *,
    new: Verifier,
    old: Verifier,
    key: SigningKey | None,
    note: str,
) -> Encoded | None:
    """Write one decision `key_changed`; return it, None if the log names the new key already.

    Until its transaction is committed the old key is the log's, from then on the new one: run
    again after a fault, it writes no second one.

    Args:
        journal: of the stopped ledger, not owned yet.
        ledger: its id.
        key: the old one, None if it is lost.
        note: why, for people.

    Raises:
        Refused: the log names another key than the old one.
        RequestInvalid: the note is empty or too long. The errors of the journal and LogDamaged.
    """
    try:
        await journal.own()
        partition = await recovered(journal, genesis, asyncio.sleep)
        if partition.key == new.text:
            return None
        if partition.key not in {None, old.text}:
            raise Refused(f"the log's key is {partition.key}, not {old.text}")
        change = signed_change(ledger, partition, new, old, key)
        draft = Draft(partition)
        made = change_key(draft, clock.now(), note, change)
        await journal.commit(Commit([made], draft.rows(), [], draft.next, draft.decided_at))
    finally:
        await journal.drop()
    return made
