"""What is wrong with a log's checkpoints, and what to do next, in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from accountant.times import iso
from streams.evidence.log_end import LogEnd
from streams.evidence.rollbacks import LostDecisions
from streams.evidence.store import CheckpointStore, StoredCheckpoints


def copies_beside(stored: StoredCheckpoints) -> list[str]:
    """Return a note on each other file of the same ledger."""
    return [
        f"this file is a copy of {other.file}, or that is one of this: neither knows what the "
        "other grants, and both halt once both have decided. Stop one of them. To try a copy, set "
        "ACCOUNTANT_CHECKPOINTS to another directory for it"
        for other in stored.elsewhere
        if other.is_there
    ]


def other_troubles(stored: StoredCheckpoints, store: CheckpointStore) -> list[str]:
    """Return what keeps a log from being compared with all of its checkpoints."""
    found = copies_beside(stored)
    found += [
        f"{folder} cannot be read: the log was not compared with the checkpoints that are in it"
        for folder in store.closed
    ]
    if store.unread:
        unread = (
            f"{store.unread} checkpoints of this ledger cannot be read, or are signed by another "
        )
        found.append(
            f"{unread}key than {store.key.verifier.text}: the log was not compared with them"
        )
    return found


def other_key(stored: StoredCheckpoints, store: CheckpointStore) -> Iterator[tuple[str, str]]:
    """Yield an event of the log, and why, if the signing key is not the log's."""
    if stored.log_key is not None:
        why = (
            f"the log's key is {stored.log_key}, the key file has {store.key.verifier.text}: "
            "auditors trust no checkpoint that this key signs. Set ACCOUNTANT_CHECKPOINT_KEY to "
            "the file of the log's key, or change the key: `accountant key rotate`"
        )
        yield "checkpoint_key_differs", why


def other_ledgers(stored: StoredCheckpoints, store: CheckpointStore) -> Iterator[tuple[str, str]]:
    """Yield an event of the log, and why, for each other ledger that was at this one's path."""
    for newest, folder in stored.others:
        why = (
            f"this is ledger {store.ledger}, but checkpoints of ledger {newest.ledger}, up to its "
            f"decision {newest.sequence} at {iso(newest.at)}, are in {folder}: it was here, too, "
            "and what it has granted is not charged in this one. Restore it if it is the right "
            "one; or, to give it up for ever, remove that folder"
        )
        yield "ledger_replaced", why


def no_checkpoint(directory: Path, *, required: bool, new_key: bool) -> str:
    """Return the words for a log with decisions of which no checkpoint is in its place.

    Args:
        required: such a log is refused.
        new_key: no signing key is there either.
    """
    here = f"no checkpoint of this ledger is in {directory}"
    risk = "is it mounted? An older copy of the ledger would not be noticed"
    if required:
        return (
            f"{here}, and ACCOUNTANT_CHECKPOINTS_REQUIRED is set: {risk}. To begin checkpoints for "
            "a ledger that never had any, start once without the setting"
        )
    if not new_key:
        return f"{here}: {risk}"
    return (
        f"{here}: {risk}. No signing key was there either: a new one is made, and auditors who "
        "have an earlier one reject what it signs"
    )


def describe_lost(lost: LostDecisions, head: LogEnd, options: str) -> str:
    """Return what a log has lost, and what to do next.

    Args:
        head: the log's end.
        options: of the command that accepts the loss.
    """
    newest = lost.newest
    command = (
        f"accountant accept-rollback --lost {lost.first}-{newest.sequence} --reason TEXT{options}"
    )
    if lost.copy is not None:
        here = f"this log ends at decision {head.sequence}"
        if not lost.is_shorter:
            here = "this log has another one"
        elif newest.branch > head.branch:
            here = f"this log lacks the rollback that began branch {newest.branch}"
        return (
            f"fork: {lost.copy} is a file of this ledger, too. Its decision {newest.sequence} was "
            f"{newest.head} at {iso(newest.at)}, and {here}: one of the two files is a copy, and "
            "neither knows what the other grants. Stop both. On the one that stays (the head here "
            f"is {head.head}), accept for ever that the other's decisions are not charged: "
            f"`{command}`, or name an earlier first decision if you know of one. To try a copy, "
            "set ACCOUNTANT_CHECKPOINTS to another directory for it"
        )
    if lost.fork is not None:
        return (
            f"fork: two logs of this ledger were signed. Decision {newest.sequence} was "
            f"{newest.head} at {iso(newest.at)}, and is another one in this log, of which decision "
            f"{lost.fork.sequence} was signed at {iso(lost.fork.at)}: two processes decide on "
            "copies of one ledger, or somebody else has its key. Stop the other process. On the "
            f"log that should continue, with head {head.head}, accept for ever that the other's "
            f"decisions are not charged: `{command}`"
        )
    if newest.branch > head.branch:
        return (
            f"the log is of branch {head.branch} and ends at decision {head.sequence}, but "
            f"decision {newest.sequence} of branch {newest.branch} was there at "
            f"{iso(newest.at)}: this copy lacks the rollback that began branch {newest.branch}. "
            f"What was granted there from decision {lost.first} on, or from an earlier one, is not "
            f"charged in it. Only if no newer file exists, accept the loss for ever: `{command}`, "
            "or name an earlier first decision if you know of one. First look for the newest "
            "file, and restore it"
        )
    if lost.is_shorter:
        since = "" if lost.latest > head.sequence else " and continued differently"
        return (
            f"the log ends at decision {head.sequence}, but decision {newest.sequence} was there "
            f"at {iso(newest.at)}: an older copy was restored{since}, or the end was lost. What "
            "was granted since is not charged in it. Only if no newer file exists, accept the loss "
            f"for ever: `{command}`. First look for the newest file, and restore it"
        )
    return (
        f"decision {newest.sequence} of the log is another one than at {iso(newest.at)}: the log "
        "was changed, or an older copy was restored and continued. Restore the right file; or "
        f"accept for ever that the decisions from {lost.first} on may be others: `{command}`"
    )
