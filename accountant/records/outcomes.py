"""Outcomes and reason codes. Both lists only grow, because old logs must stay readable."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """The outcome of one input record."""

    GENESIS = "genesis"
    OPENED = "opened"
    AMENDED = "amended"
    CLOSED = "closed"
    GRANTED = "granted"
    REFUSED = "refused"
    REPEATED = "repeated"
    CONFLICT = "conflict"
    EXPIRED = "expired"
    INVALID = "invalid"
    CLOCK_RESET = "clock_reset"
    SEALED = "sealed"
    ROLLED_BACK = "rolled_back"
    KEY_CHANGED = "key_changed"
    MEMBER_SET = "member_set"
    MEMBER_REMOVED = "member_removed"
    LIMIT_SET = "limit_set"
    LIMIT_REMOVED = "limit_removed"
    PAUSED = "paused"
    RESUMED = "resumed"
    RESERVED = "reserved"
    BEGUN = "begun"
    SETTLED = "settled"
    VOIDED = "voided"
    RESOLVED = "resolved"


OPERATED: Final = frozenset(
    {Outcome.CLOCK_RESET, Outcome.SEALED, Outcome.ROLLED_BACK, Outcome.KEY_CHANGED}
)
"""Outcomes of decisions that a command writes which owns the partition: no input asks for them, and
they belong to no dataset."""

SETS_MEMBERS: Final = frozenset({Outcome.OPENED, Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED})
"""Outcomes of decisions about members."""

SETS_LIMITS: Final = frozenset({Outcome.LIMIT_SET, Outcome.LIMIT_REMOVED})
"""Outcomes of decisions that say how a dataset's budget is divided."""

GRANTS: Final = frozenset({Outcome.GRANTED, Outcome.RESERVED})
"""Outcomes of decisions that charge a request."""

STEPS: Final = frozenset({Outcome.BEGUN, Outcome.SETTLED, Outcome.VOIDED})
"""Outcomes of the steps of a reservation after its grant."""

PAUSES: Final = frozenset({Outcome.PAUSED, Outcome.RESUMED})
"""Outcomes of decisions that stop a dataset's grants for a time, or let them continue."""


class Reason(StrEnum):
    """The reason of an outcome, in the order in which a partition checks them."""

    UNDECODABLE = "undecodable"
    OVERSIZE = "oversize"
    INVALID_FIELD = "invalid_field"
    WRONG_PARTITION = "wrong_partition"
    ISSUED_IN_FUTURE = "issued_in_future"
    OVERLOADED = "overloaded"
    NOT_TOGETHER = "not_together"
    UNKNOWN_DATASET = "unknown_dataset"
    ALREADY_OPENED = "already_opened"
    NOT_PERMITTED = "not_permitted"
    NOT_OPEN = "not_open"
    NOT_FIRST_DATASET = "not_first_dataset"
    ALREADY_BEGUN = "already_begun"
    NOT_BEGUN = "not_begun"
    NOT_BROKEN = "not_broken"
    LAPSED = "lapsed"
    BEYOND_MAXIMUM = "beyond_maximum"
    ABOVE_FIRST = "above_first"
    SETTLES_IN_FULL = "settles_in_full"
    NOT_SETTLED = "not_settled"
    CLOSED = "closed"
    SUSPENDED = "suspended"
    PAUSED = "paused"
    OUT_OF_DATE = "out_of_date"
    ALREADY_PAUSED = "already_paused"
    NOT_PAUSED = "not_paused"
    UNKNOWN_MEMBER = "unknown_member"
    LAST_OWNER = "last_owner"
    TOO_MANY_MEMBERS = "too_many_members"
    UNKNOWN_LIMIT = "unknown_limit"
    LIMIT_NOT_POSSIBLE = "limit_not_possible"
    OVER_RESERVED = "over_reserved"
    TOO_MANY_LIMITS = "too_many_limits"
    ALREADY_GRANTED = "already_granted"
    HAS_LIMITS = "has_limits"
    NOT_LOWER = "not_lower"
    HALTED = "halted"
    TOO_MANY_OPEN = "too_many_open"
    TOO_MANY_OF_HOLDER = "too_many_of_holder"
    NO_SCHEMA = "no_schema"
    QUESTION_NOT_ALLOWED = "question_not_allowed"
    UNIT_MISMATCH = "unit_mismatch"
    CLAIM_NOT_ACCEPTED = "claim_not_accepted"
    ABOVE_CAP = "above_cap"
    EXHAUSTED = "exhausted"
    OTHER_DATASET = "other_dataset"
    INTERNAL_ERROR = "internal_error"


_PAUSED_BY_REASON: Final = {
    **dict.fromkeys((Reason.PAUSED, Reason.ALREADY_PAUSED), True),
    **dict.fromkeys(
        (
            *(Reason.CLOSED, Reason.NOT_PAUSED, Reason.HALTED, Reason.UNIT_MISMATCH),
            *(Reason.TOO_MANY_OPEN, Reason.TOO_MANY_OF_HOLDER),
            *(Reason.NO_SCHEMA, Reason.QUESTION_NOT_ALLOWED),
            *(Reason.CLAIM_NOT_ACCEPTED, Reason.ABOVE_CAP, Reason.EXHAUSTED),
        ),
        False,
    ),
}


_NOT_PAUSED: Final = frozenset({*GRANTS, Outcome.RESUMED, Outcome.CLOSED, Outcome.BEGUN})


def paused_by(outcome: Outcome, reason: Reason | None) -> bool | None:
    """Tell whether a decision leaves its dataset paused; None where the decision does not say.

    A reason that is checked after `paused` says that the dataset is not, and closing ends a pause.
    """
    if outcome in _NOT_PAUSED:
        return False
    if outcome is Outcome.PAUSED:
        return True
    return None if reason is None else _PAUSED_BY_REASON.get(reason)
