"""Accepted rollbacks: their signatures, and the decisions that a log has lost.

A rollback gives up decisions that a checkpoint covers, so it must be signed like a checkpoint.
An attacker who can only write the log must not be able to explain a loss away.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from accountant.partition import Partition
from accountant.records.operator_records import AcceptedRollback, Rollback
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.signed_checkpoint import Checkpoint, origin_of


class LostDecisions(NamedTuple):
    """The decisions that checkpoints cover and a log lacks.

    Attributes:
        first: the number of the first decision that is lost, or may differ.
        newest: the last checkpoint that the log does not continue from.
        is_shorter: the log ends before it, or has an older branch; else its decision there differs.
        earliest: the smallest first decision that a person may name instead.
        latest: the largest one, from which on checkpoints prove the loss.
        fork: a checkpoint of this log from there on, which proves that both logs were signed.
        copy: another file of this ledger that has decided them, if it is still there.
    """

    first: int
    newest: Checkpoint
    is_shorter: bool
    earliest: int
    latest: int
    fork: Checkpoint | None = None
    copy: Path | None = None


def find_lost(
    sequence: int,
    branch: int,
    checkpoints: Sequence[Checkpoint],
    digest: Callable[[int], str | None],
) -> LostDecisions | None:
    """Return the decisions that a log lacks, None if it continues from all checkpoints.

    Args:
        sequence, branch: the log's last decision and its branch.
        checkpoints: those of the log, the newest last.
        digest: returns the hash of a decision by its number, None if it is not checked, such as
            in an archive.
    """
    # The log has accepted the loss of earlier branches.
    ours = [each for each in checkpoints if each.branch >= branch]
    if not ours:
        return None
    reached = [each for each in ours if (each.branch, each.sequence) <= (branch, sequence)]
    other = find_fork(reached, digest)
    newest = ours[-1]
    if newest.sequence <= sequence and newest.branch == branch:
        return other
    # The log lacks the rollback that began a newer branch, so it has no decision of that branch,
    # whatever the number. The branches part at the first such checkpoint, or before it.
    newer = (each.sequence for each in ours if each.branch > branch)
    latest = min(sequence + 1, newest.sequence, *newer)
    first = latest
    if other is not None:
        latest, first = min(latest, other.latest), min(latest, other.first)
    earliest = 1 if newest.branch > branch else first
    return LostDecisions(first, newest, is_shorter=True, earliest=earliest, latest=latest)


def find_fork(
    checkpoints: Sequence[Checkpoint], digest: Callable[[int], str | None]
) -> LostDecisions | None:
    """Return the last checkpoint that contradicts a log, None if all agree.

    Args:
        checkpoints: those of the log's branch, by number, up to the log's end.
        digest: as for `find_lost`.
    """
    has = {each: _has(each, digest) for each in checkpoints}
    others = [each for each in checkpoints if not has[each]]
    if not others:
        return None
    agreeing = [each for each in checkpoints if has[each]]
    first = max((e.sequence for e in agreeing if e.sequence < others[0].sequence), default=0) + 1
    later = (each for each in agreeing if each.sequence >= others[0].sequence)
    return LostDecisions(
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
    """Return the rollback that gives up the decisions from `first` to a checkpoint's."""
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
    """Return the text to sign. Its second line tells it from every checkpoint's.

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
