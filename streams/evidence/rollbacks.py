"""Rollbacks that a log has accepted: their signatures, and what a log has lost.

A rollback gives up decisions that a checkpoint has seen, so it must be signed as checkpoints are:
whoever can write the log alone must not be able to explain a loss away.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from accountant.partition import Partition
from accountant.records.operator_records import AcceptedRollback, Rollback
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.note import Checkpoint, origin_of


class Lost(NamedTuple):
    """What a log lacks of what its newest checkpoint has seen.

    Attributes:
        first: number of the first decision that is lost, or that may be another one.
        newest: the last checkpoint that the log does not go on from.
        is_shorter: the log ends before it, or is of an older branch; else it has another
            decision there.
        earliest: the least number that a person who knows better may name as the first.
        latest: the largest: from there on checkpoints show the loss.
        fork: a checkpoint of the log as it is, from there or later: both logs were signed.
    """

    first: int
    newest: Checkpoint
    is_shorter: bool
    earliest: int
    latest: int
    fork: Checkpoint | None = None


def lost_of(
    sequence: int,
    branch: int,
    kept: Sequence[Checkpoint],
    digest: Callable[[int], str | None],
) -> Lost | None:
    """Return what a log lacks, None if it goes on from each checkpoint of its branch.

    Args:
        sequence, branch: number of the log's last decision, and its branch.
        kept: checkpoints of the log, the newest last.
        digest: returns the hash of a decision of the log by its number, None where it is not
            looked at, such as in an archive.
    """
    # Of earlier branches the log has accepted the loss.
    ours = [each for each in kept if each.branch >= branch]
    if not ours:
        return None
    reached = [each for each in ours if (each.branch, each.sequence) <= (branch, sequence)]
    other = forked(reached, digest)
    newest = ours[-1]
    if newest.sequence <= sequence and newest.branch == branch:
        return other
    # No decision of a newer branch is the log's, whatever its number: the log lacks the rollback
    # that began the branch. The branches part at the first such checkpoint, or before it.
    newer = (each.sequence for each in ours if each.branch > branch)
    latest = min(sequence + 1, newest.sequence, *newer)
    first = latest
    if other is not None:
        latest, first = min(latest, other.latest), min(latest, other.first)
    earliest = 1 if newest.branch > branch else first
    return Lost(first, newest, is_shorter=True, earliest=earliest, latest=latest)


def forked(kept: Sequence[Checkpoint], digest: Callable[[int], str | None]) -> Lost | None:
    """Return the last checkpoint that a log does not have, None if it has each.

    Args:
        kept: of the log's branch, by number; none of a decision that the log has not reached.
        digest: as of `lost_of`.
    """
    has = {each: _has(each, digest) for each in kept}
    others = [each for each in kept if not has[each]]
    if not others:
        return None
    agreeing = [each for each in kept if has[each]]
    first = max((e.sequence for e in agreeing if e.sequence < others[0].sequence), default=0) + 1
    later = (each for each in agreeing if each.sequence >= others[0].sequence)
    return Lost(
        first,
        others[-1],
        is_shorter=False,
        earliest=first,
        latest=others[0].sequence,
        fork=next(later, None),
    )


def _has(checkpoint: Checkpoint, digest: Callable[[int], str | None]) -> bool:
    return digest(checkpoint.sequence) in {None, checkpoint.head}


def signed_rollback(
    ledger: str, partition: Partition, first: int, newest: Checkpoint, key: SigningKey
) -> Rollback:
    """Return the rollback that gives up what a checkpoint has seen from `first` on."""
    rollback = Rollback(
        branch=max(partition.branch, newest.branch) + 1,
        first=first,
        last=newest.sequence,
        head=newest.head,
        key=key.verifier.text,
        signature="",
    )
    number = partition.genesis.partition
    text = text_of(ledger, number, partition.head, rollback)
    signature = base64.b64encode(key.sign(text)).decode()
    return msgspec.structs.replace(rollback, signature=signature)


def is_signed(
    ledger: str, partition: int, accepted: AcceptedRollback, verifiers: Iterable[Verifier]
) -> bool:
    """Return whether one of these keys has signed a rollback."""
    rollback = accepted.rollback
    try:
        signature = base64.b64decode(rollback.signature, validate=True)
    except (ValueError, binascii.Error):
        return False
    text = text_of(ledger, partition, accepted.previous, rollback)
    named = (each for each in verifiers if each.text == rollback.key)
    return any(each.verifies(signature, text) for each in named)


def text_of(ledger: str, partition: int, previous: str, rollback: Rollback) -> bytes:
    """Return the text that is signed; no checkpoint has such a second line.

    Args:
        previous: hash of the decision that the rollback follows.
    """
    return (
        f"{origin_of(ledger, partition)}\n"
        "rollback\n"
        f"branch {rollback.branch}\n"
        f"lost {rollback.first}-{rollback.last}\n"
        f"head {rollback.head}\n"
        f"after {previous}\n"
        f"key {rollback.key}\n"
    ).encode()
