"""Finds a copy of a ledger's file that has decided, by the checkpoints that it has left.

Each path at which a ledger's file was served has a folder of checkpoints of its own. All of them
must be of one log: what one of them shows, and this log lacks, was granted without being charged
here. Only an accepted rollback explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from streams.evidence.rollbacks import LostDecisions, find_lost
from streams.evidence.signed_checkpoint import Checkpoint


class OtherPath(NamedTuple):
    """The checkpoints that a ledger's file has left at another path.

    Attributes:
        file: the path.
        is_there: whether the same ledger is at that path now.
        checkpoints: by branch and number.
    """

    file: Path
    is_there: bool
    checkpoints: tuple[Checkpoint, ...]


def find_any_lost(
    sequence: int,
    branch: int,
    own: Sequence[Checkpoint],
    others: Sequence[OtherPath],
    digest: Callable[[int], str | None],
) -> LostDecisions | None:
    """Return the decisions that any path's checkpoints cover and a log lacks, None without any.

    Args:
        own: the checkpoints of this path. The others are as for `find_lost`.
    """
    lost = find_lost(sequence, branch, own, digest)
    copied = find_copied(sequence, branch, own, others, digest)
    if lost is None or copied is None:
        return lost or copied
    last = max(lost, copied, key=lambda each: (each.newest.branch, each.newest.sequence))
    latest = min(lost.latest, copied.latest)
    return last._replace(
        first=min(lost.first, copied.first, latest),
        earliest=min(lost.earliest, copied.earliest),
        latest=latest,
    )


def find_copied(
    sequence: int,
    branch: int,
    own: Sequence[Checkpoint],
    others: Sequence[OtherPath],
    digest: Callable[[int], str | None],
) -> LostDecisions | None:
    """Return the decisions of the copies that a log lacks, None if it lacks none.

    Args: as for `find_any_lost`.
    """
    places = sorted(
        # The log has accepted the loss of earlier branches.
        ((each, other) for other in others for each in other.checkpoints if each.branch >= branch),
        key=lambda place: (place[0].branch, place[0].sequence, place[1].is_there),
    )
    has = {
        each: (each.branch, each.sequence) <= (branch, sequence)
        and digest(each.sequence) in {None, each.head}
        for each, _ in places
    }
    lacking = [place for place in places if not has[place[0]]]
    if not lacking:
        return None
    newest, other = lacking[-1]
    since = lacking[0][0].sequence
    newer = (each.sequence for each, _ in lacking if each.branch > branch)
    latest = min(sequence + 1, since, *newer)
    shared = (each.sequence for each, is_shared in has.items() if is_shared)
    earliest = max((each for each in shared if each < since), default=0) + 1
    if newest.branch > branch:
        earliest = 1
    # A path's first checkpoint shows where its file began; before that it was the other's.
    begun = next((each.sequence for each in own if each.branch == branch), sequence)
    return LostDecisions(
        min(max(earliest, begun + 1), latest),
        newest,
        is_shorter=newest.branch > branch or newest.sequence > sequence,
        earliest=min(earliest, latest),
        latest=latest,
        copy=other.file if other.is_there else None,
    )
