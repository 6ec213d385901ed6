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


OPERATED: Final = frozenset(
    {Outcome.CLOCK_RESET, Outcome.SEALED, Outcome.ROLLED_BACK, Outcome.KEY_CHANGED}
)
"""Outcomes of decisions that a command writes which owns the partition: no input asks for them, and
they belong to no dataset."""

SETS_MEMBERS: Final = frozenset({Outcome.OPENED, Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED})
"""Outcomes of decisions about members."""

SETS_LIMITS: Final = frozenset({Outcome.LIMIT_SET, Outcome.LIMIT_REMOVED})
"""Outcomes of decisions that say how a dataset's budget is divided."""


class Reason(StrEnum):
    """The reason of an outcome, in the order in which a partition checks them."""

    UNDECODABLE = "undecodable"
    OVERSIZE = "oversize"
    INVALID_FIELD = "invalid_field"
    WRONG_PARTITION = "wrong_partition"
    ISSUED_IN_FUTURE = "issued_in_future"
    OVERLOADED = "overloaded"
    UNKNOWN_DATASET = "unknown_dataset"
    ALREADY_OPENED = "already_opened"
    NOT_PERMITTED = "not_permitted"
    CLOSED = "closed"
    OUT_OF_DATE = "out_of_date"
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
    UNIT_MISMATCH = "unit_mismatch"
    CLAIM_NOT_ACCEPTED = "claim_not_accepted"
    ABOVE_CAP = "above_cap"
    EXHAUSTED = "exhausted"
    INTERNAL_ERROR = "internal_error"
