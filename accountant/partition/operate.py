"""Decisions that a command writes as the owner of a partition, without an input and a dataset.

They are on the log like every other decision, with the same effect live, in a replay and an audit.
"""

from __future__ import annotations

from typing import Final

from accountant.errors import RequestInvalid
from accountant.partition.draft import Draft
from accountant.records import FORMAT, RULES, Decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.operator_records import KeyChange, Rollback, Seal
from accountant.records.outcomes import Outcome
from accountant.records.texts import check_text
from accountant.times import iso

MAX_NOTE: Final = 200


def reset_clock(draft: Draft, at: int, note: str) -> EncodedDecision:
    """Set a partition's clock back, where a machine's clock was ahead when something was decided.

    The floor becomes that time and the skew: every id that was issued before the clock ran ahead
    has expired then, for an id's time is at most the skew ahead of the clock that decides it.
    Remembered ids stay remembered; docs/decisions/0034 has what becomes of the others.

    Args:
        draft: without any decision yet.
        at: the right time, milliseconds since 1970, before the partition's.
        note: why, for people.
    Raises: RequestInvalid: the note is empty or too long, or the time is not before the clock's.
    """
    check_note(note)
    if at >= draft.decided_at:
        rule = f"must be before the last decision's, {iso(draft.decided_at)}"
        raise RequestInvalid("time", rule, iso(at))
    draft.reset_clock(at, at + draft.partition.genesis.skew_ms)
    return _append(draft, Outcome.CLOCK_RESET, note)


def seal_log(draft: Draft, at: int, note: str, seal: Seal) -> EncodedDecision:
    """Seal a partition's log after its beginning was archived. Nothing that is spent changes.

    Args:
        draft: without any decision yet.
        at: the time, milliseconds since 1970; the partition's, if that is later.
        note: why, for people.
        seal: of the partition as it is.
    Raises: RequestInvalid: the note is empty or too long.
    """
    check_note(note)
    draft.decided_at = max(at, draft.decided_at)
    return _append(draft, Outcome.SEALED, note, seal)


def accept_rollback(draft: Draft, at: int, note: str, rollback: Rollback) -> EncodedDecision:
    """Go on with a log that lacks decisions which a checkpoint has seen, and say so for ever.

    What was granted in them is known to their analysts only, and is not charged.

    Args:
        draft: without any decision yet.
        at: the time, milliseconds since 1970; the partition's, if that is later.
        note: why, for people.
    Raises: RequestInvalid: the note is empty or too long.
    """
    check_note(note)
    draft.decided_at, draft.branch = max(at, draft.decided_at), rollback.branch
    return _append(draft, Outcome.ROLLED_BACK, note, rollback=rollback)


def change_key(draft: Draft, at: int, note: str, change: KeyChange) -> EncodedDecision:
    """Have another key sign the checkpoints of this partition's log from now on.

    Args:
        draft: without any decision yet.
        at: the time, milliseconds since 1970; the partition's, if that is later.
        note: why, for people.
    Raises: RequestInvalid: the note is empty or too long.
    """
    check_note(note)
    draft.decided_at, draft.key = max(at, draft.decided_at), change.key
    return _append(draft, Outcome.KEY_CHANGED, note, key_change=change)


def check_note(note: str) -> None:
    """Check the note of a command, which a decision repeats.

    Raises: RequestInvalid.
    """
    if not note or len(note) > MAX_NOTE:
        raise RequestInvalid("reason", f"must be 1 to {MAX_NOTE} characters", note)
    check_text("reason", note)


def _append(
    draft: Draft,
    outcome: Outcome,
    note: str,
    seal: Seal | None = None,
    rollback: Rollback | None = None,
    key_change: KeyChange | None = None,
) -> EncodedDecision:
    decision = Decision(
        version=FORMAT,
        partition_sequence=draft.sequence + 1,
        previous=draft.head,
        decided_at=iso(draft.decided_at),
        floor=iso(draft.floor),
        rules=RULES,
        outcome=outcome,
        note=note,
        seal=seal,
        rollback=rollback,
        key_change=key_change,
    )
    return draft.append(decision, None)
