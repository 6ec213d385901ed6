"""What a log lacks of what its file has decided at other paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.evidence.copies import OtherPath, find_any_lost, find_copied
from streams.evidence.signed_checkpoint import Checkpoint
from tests.streams.evidence.test_rollbacks import END, of_log, other, own

COPY = Path("/copy.db")


def copy(*checkpoints: Checkpoint, there: bool = True) -> OtherPath:
    return OtherPath(COPY, there, checkpoints)


@pytest.mark.parametrize(
    ("end", "here", "there", "earliest", "first", "latest", "newest"),
    [
        # The copy began at 10, and this log went on, too.
        ((END, 0), [of_log(0), of_log(12)], [of_log(10), other(12)], 11, 11, 12, 12),
        ((END, 0), [of_log(0), of_log(12)], [of_log(10), other(25)], 11, 11, 21, 25),
        # This is the copy; it began at 10.
        ((END, 0), [of_log(10), of_log(12)], [of_log(0), other(12)], 1, 11, 12, 12),
        ((END, 0), [of_log(10), of_log(12)], [other(25), other(26)], 1, 11, 21, 26),
        # This copy has decided nothing yet.
        ((10, 0), [], [of_log(0), other(13)], 1, 11, 11, 13),
        # What the log shows is older than where this path began.
        ((END, 0), [of_log(15)], [of_log(4), other(7), other(9)], 5, 7, 7, 9),
        # The other log has accepted a loss, of which this one knows nothing.
        ((END, 0), [of_log(10)], [of_log(4), other(9, 1)], 1, 9, 9, 9),
        ((END, 1), [of_log(10, 1)], [other(15, 0), of_log(8, 1), other(18, 1)], 9, 11, 18, 18),
    ],
)
def test_what_another_path_has_decided_is_missed(
    end, here, there, earliest, first, latest, newest
) -> None:
    lost = find_copied(*end, here, [copy(*there)], own)
    assert lost is not None
    assert (lost.earliest, lost.first, lost.latest) == (earliest, first, latest)
    assert (lost.newest.sequence, lost.copy) == (newest, COPY)
    moved = find_copied(*end, here, [copy(*there, there=False)], own)
    assert moved == lost._replace(copy=None)


@pytest.mark.parametrize(
    ("branch", "there"),
    [(0, []), (0, [of_log(0), of_log(END)]), (1, [other(9), other(END + 3), of_log(8, 1)])],
)
def test_what_the_log_has_or_has_given_up_is_not_missed(branch, there) -> None:
    assert find_copied(END, branch, [of_log(3)], [copy(*there)], own) is None


def test_a_loss_here_and_at_a_copy_are_one_range() -> None:
    here = [of_log(5), other(9)]
    there = copy(of_log(12), other(14), other(25))
    lost = find_any_lost(END, 0, here, [there], own)
    assert lost is not None
    assert (lost.earliest, lost.first, lost.latest) == (6, 6, 9)
    assert (lost.newest.sequence, lost.copy) == (25, COPY)
    alone = find_any_lost(END, 0, here, [], own)
    assert alone is not None
    assert (alone.first, alone.newest.sequence, alone.copy) == (6, 9, None)


@pytest.mark.parametrize("there_first", [True, False])
def test_of_two_copies_with_one_head_the_one_that_is_there_is_named(there_first: bool) -> None:
    gone = OtherPath(Path("/gone.db"), False, (other(25),))
    others = [copy(other(25)), gone] if there_first else [gone, copy(other(25))]
    lost = find_copied(END, 0, [], others, own)
    assert lost is not None
    assert lost.copy == COPY
