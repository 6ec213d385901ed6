"""The header of a decision, for readers that do not need the whole."""

from __future__ import annotations

import msgspec

from accountant.policy.in_force import StoredBudgetInForce
from accountant.records.limit_records import LimitRecord, LimitUpdate, ReachedLimit, Scope, ShareCut
from accountant.records.outcomes import Outcome, Reason
from accountant.records.records import (
    NO_REQUEST,
    Derived,
    Origin,
    PendingUpdate,
    ReservationUpdate,
)
from accountant.versions import Format, reader


class LimitScope(msgspec.Struct, gc=False):
    """The scope of the limit that has refused a request."""

    scope: Scope


class MemberName(msgspec.Struct, gc=False):
    """The member that a record names."""

    member: str = ""


class PausedName(msgspec.Struct, gc=False):
    """The person or the team that a pause is of."""

    member: str | None = None
    team: str | None = None


class PartHeader(msgspec.Struct, gc=False):
    """Fields of one dataset's part of a decision."""

    dataset: str
    generation: int
    sequence: int
    cost: dict[str, str] | None = None
    crossed: tuple[str, ...] = ()
    spent_ratio: float | None = None
    level: LimitScope | None = None
    levels: tuple[LimitUpdate, ...] = ()
    reservation: ReservationUpdate | None = None
    totals: msgspec.Raw = msgspec.Raw(b"")
    in_force: StoredBudgetInForce | None = None


class DecisionHeader(msgspec.Struct, tag_field="type", tag="decision", gc=False):
    """Fields of a decision, as `records.Decision` has them; what is seldom read stays raw.

    One struct for all readers costs a seventh more than one with few fields; several would each
    have their own idea of a decision.
    """

    version: Format
    partition_sequence: int
    previous: str
    decided_at: str
    outcome: Outcome
    dataset: str | None = None
    generation: int | None = None
    sequence: int | None = None
    reason: Reason | None = None
    cost: dict[str, str] | None = None
    budget: dict[str, str] | None = None
    crossed: tuple[str, ...] = ()
    spent_ratio: float | None = None
    level: LimitScope | None = None
    levels: tuple[LimitUpdate, ...] = ()
    reservation: ReservationUpdate | None = None
    limit: LimitRecord | None = None
    reached: tuple[ReachedLimit, ...] = ()
    shares_cut: tuple[ShareCut, ...] = ()
    member: MemberName | None = None
    pause: PausedName | None = None
    source: Origin | None = None
    request: msgspec.Raw = NO_REQUEST
    totals: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    parts: tuple[PartHeader, ...] = ()
    refused_by: str | None = None
    part_of: str | None = None
    derived: Derived | None = None
    in_force: StoredBudgetInForce | None = None
    pending: PendingUpdate | None = None
    approval: msgspec.Raw = NO_REQUEST
    answers: int | None = None


decode_header = reader(DecisionHeader)
