"""Outcomes and reason codes. Both lists only ever grow: the log is for ever."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What became of one input record."""

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


class Reason(StrEnum):
    """Why, in the order in which the reasons are looked for."""

    UNDECODABLE = "undecodable"
    OVERSIZE = "oversize"
    INVALID_FIELD = "invalid_field"
    WRONG_PARTITION = "wrong_partition"
    ISSUED_IN_FUTURE = "issued_in_future"
    OVERLOADED = "overloaded"
    UNKNOWN_DATASET = "unknown_dataset"
    ALREADY_OPENED = "already_opened"
    CLOSED = "closed"
    HALTED = "halted"
    UNIT_MISMATCH = "unit_mismatch"
    CLAIM_NOT_ACCEPTED = "claim_not_accepted"
    EXHAUSTED = "exhausted"
    INTERNAL_ERROR = "internal_error"
