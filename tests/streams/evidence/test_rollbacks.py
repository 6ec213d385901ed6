"""What a log lacks of what its checkpoints have seen, by their numbers alone."""

from __future__ import annotations

import pytest

from accountant.partition import hash_of
from streams.evidence.rollbacks import find_lost
from streams.evidence.signed_checkpoint import Checkpoint

LEDGER = "0" * 32
END = 20


def own(sequence: int) -> str:
    return hash_of(b"own %d" % sequence)


def of_log(sequence: int, branch: int = 0) -> Checkpoint:
    return Checkpoint(LEDGER, 0, branch, sequence, own(sequence), 1)


def other(sequence: int, branch: int = 0) -> Checkpoint:
    return Checkpoint(LEDGER, 0, branch, sequence, hash_of(b"other %d" % sequence), 2)


@pytest.mark.parametrize(
    ("stored", "first", "newest", "fork"),
    [
        ([of_log(5), other(9)], 6, 9, None),
        ([other(9)], 1, 9, None),
        ([of_log(5), of_log(9), other(9)], 6, 9, 9),
        ([of_log(5), other(9), of_log(9)], 6, 9, 9),
        ([of_log(5), other(9), of_log(12)], 6, 9, 12),
        ([of_log(5), other(7), of_log(8), other(9), of_log(END)], 6, 9, 8),
    ],
)
def test_a_checkpoint_missing_from_the_log_is_found_at_any_position(
    stored, first, newest, fork
) -> None:
    lost = find_lost(END, 0, stored, own)
    assert lost is not None
    assert (lost.first, lost.newest.sequence, lost.is_shorter) == (first, newest, False)
    assert lost.newest.head == other(newest).head
    assert (None if lost.fork is None else lost.fork.sequence) == fork


@pytest.mark.parametrize(
    "stored", [[], [of_log(5), of_log(9)], [other(9), other(END + 3), of_log(END, branch=1)]]
)
def test_a_log_that_contains_its_checkpoints_has_lost_nothing(stored) -> None:
    assert find_lost(END, max([each.branch for each in stored], default=0), stored, own) is None


def test_a_checkpoint_of_an_unreadable_decision_counts_as_present() -> None:
    assert find_lost(END, 0, [other(5), of_log(END)], {END: own(END)}.get) is None


@pytest.mark.parametrize(
    ("end", "stored", "earliest", "first", "latest"),
    [
        # The log is of an older branch: what it lacks begins where the newer one does.
        ((8, 0), [of_log(8), other(3, 1), other(8, 1), other(11, 1)], 1, 3, 3),
        ((8, 0), [other(3, 1), other(9, 1), other(5, 2), other(11, 2)], 1, 3, 3),
        ((8, 0), [other(11, 1)], 1, 9, 9),
        ((2, 0), [other(8, 0), other(3, 1), other(11, 1)], 1, 3, 3),
        ((6, 1), [other(3, 0), of_log(6, 1), other(4, 2)], 1, 4, 4),
        ((8, 0), [of_log(4), other(6), other(7, 1), other(11, 1)], 1, 5, 6),
        # Of its own branch: not past a checkpoint that shows another decision.
        ((8, 0), [of_log(8), other(11)], 9, 9, 9),
        ((9, 0), [of_log(5), other(7), other(8), other(11)], 6, 6, 7),
        ((9, 0), [of_log(5), other(7), other(9)], 6, 6, 7),
    ],
)
def test_the_lost_range_begins_no_later_than_its_checkpoints_show(
    end, stored, earliest, first, latest
) -> None:
    lost = find_lost(*end, stored, own)
    assert lost is not None
    assert (lost.earliest, lost.first, lost.latest) == (earliest, first, latest)
    assert lost.newest == stored[-1]


def test_a_missing_newer_branch_is_lost_even_if_no_decision_can_be_read() -> None:
    lost = find_lost(8, 0, [other(3, 1), other(11, 1)], lambda _: None)
    assert lost is not None
    assert (lost.first, lost.newest.sequence) == (3, 11)
