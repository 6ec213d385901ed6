"""Limits on the wire: in owners' records, in decisions, and as rows of `state`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.field_rules import (
    Amounts,
    Count,
    Excess,
    Name,
    PartOfOne,
    Period,
    Ratio,
    Rule,
    Time,
)
from accountant.versions import Format, reader

Scope = Literal["dataset", "team", "analyst", "each"]
"""The scope of a limit; `each` is the default for each analyst of a team."""
What = Literal["limit", "pace", "reserved"]
"""What refuses a request at a scope: its limit, its period limit, or the shares of others."""

MAX_LIMITS: Final = 1_000
"""In force on one dataset at a time."""
MAX_DAYS: Final = 36_500
DAY_MS: Final = 86_400_000

_BEGIN: Final = b'{"dataset":"'
_SCOPED: Final = b'","scope":"'

Texts = dict[str, str]
"""Amounts by the name of the sum."""
LimitPolicy = Annotated[dict[str, str | tuple[str, ...]], Rule("LimitPolicy")]
"""A budget of a level's own: fields of a policy that say filter and budget, and nothing else."""


class PeriodLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """At most a part of the dataset's budget in each period.

    Attributes:
        part: a ratio in (0, 1].
        period: a number of days such as `P30D`.
    """

    part: Ratio
    period: Period


def days_of(period: str) -> int:
    """Return the days of a valid period."""
    return int(period[1:-1])


def length_of(period: str) -> int:
    """Return the length of a valid period, in milliseconds."""
    return days_of(period) * DAY_MS


class PeriodLimitRecord(PeriodLimit, frozen=True):
    """A period limit as a decision stores it, with what it comes to in each sum."""

    budget: Amounts


class ReservedRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reserved share as a decision stores it.

    Attributes:
        budget: what it comes to in each sum.
        team: the team whose share contains an analyst's; None for none.
    """

    part: Ratio
    budget: Amounts
    team: Name | None = None


class LimitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit as a decision has set it; with neither of the four, it was removed.

    Attributes:
        name: the team or the analyst; None for the dataset.
        version: of this scope and name, one more with every record.
        part, policy: a part of the dataset's budget, or a budget of its own, resolved.
        budget: of part or policy: what each sum of its filter may reach.
        until: when it ends, by the log's clock; None for never.
    """

    scope: Scope
    name: Name | None = None
    version: Count = 0
    part: Ratio | None = None
    policy: LimitPolicy | None = None
    budget: Amounts | None = None
    pace: PeriodLimitRecord | None = None
    reserved: ReservedRecord | None = None
    until: Time | None = None

    @property
    def is_in_force(self) -> bool:
        """Whether anything is limited or promised by it."""
        return self.limits or self.pace is not None or self.reserved is not None

    @property
    def limits(self) -> bool:
        """Whether it has a budget, by part or policy."""
        return self.budget is not None


class LimitName(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limit that refused a request, and which of its budgets did."""

    scope: Scope
    name: Name | None = None
    what: What | None = None


class LimitUpdate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit's usage after a grant that was charged to it.

    Attributes:
        totals: the sums of its limit's filter.
        window, paced: the number of the period, and its usage in the sums of the dataset's filter.
        used: usage of its reserved share.
        rounded_up, paced_rounded_up, used_rounded_up: as `rounded_up` of a decision.
        crossed: ratios of the dataset's `alert_at` that this decision is the first to reach.
        spent_ratio: the used part of the limit, in [0, 1], rounded up; left out without `crossed`.
    """

    scope: Scope
    name: Name | None = None
    version: Count = 0
    totals: Amounts | None = None
    rounded_up: Excess | None = None
    crossed: tuple[str, ...] = ()
    spent_ratio: PartOfOne | None = None
    window: int | None = None
    paced: Amounts | None = None
    paced_rounded_up: Excess | None = None
    used: Amounts | None = None
    used_rounded_up: Excess | None = None


class ReachedLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit whose thresholds an amendment, or a new version of the limit, makes reached.

    Attributes:
        analyst: of a per-analyst default: whose usage this is.
        crossed, spent_ratio: as in `LimitUpdate`.
    """

    scope: Scope
    name: Name | None
    version: Count
    crossed: tuple[str, ...]
    spent_ratio: PartOfOne
    analyst: Name | None = None


class ShareCut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reserved share that a record of a release made elsewhere has cut.

    Attributes:
        cut: by how much, in each sum.
        left: what the share still reserves of each sum, rounded down.
    """

    scope: Scope
    name: Name | None
    version: Count
    cut: Amounts
    left: Amounts


class LimitRemaining(msgspec.Struct, frozen=True, omit_defaults=True):
    """What remains under a limit, for the analyst of a request that did not fit.

    Attributes:
        left: of the limit; for the dataset, after subtracting others' reserved shares.
        pace_left: of the period limit, until the period ends.
        more_at: the end of the period, if an unused period has room for the request.
        until: when the limit ends, of one that has an end.
    """

    scope: Scope
    name: Name | None = None
    left: Amounts | None = None
    pace_left: Amounts | None = None
    more_at: Time | None = None
    until: Time | None = None


def scope_alert_id(
    dataset: str,
    generation: int,
    level: LimitUpdate | ReachedLimit | LimitRecord | ShareCut,
    threshold: str,
    *,
    analyst: str | None = None,
) -> str:
    """Return the id of the alert that a level has crossed a threshold; names hold no `/`.

    Args:
        threshold: of a share that was cut `cut/` and the number of the dataset's decision.
        analyst: of a default: each analyst of the team has thresholds of their own.
    """
    name = level.name or ""
    place = f"{dataset}/{generation}/level/{level.scope}/{name}"
    if analyst is not None:
        place = f"{place}/{analyst}"
    return f"{place}/{level.version}/{threshold}"


class CountRow(msgspec.Struct, frozen=True, kw_only=True):
    """Some sums that are counted.

    Attributes:
        since: version of the limit from which on they are counted.
        rounded_up: as of a decision.
    """

    since: int
    totals: Texts
    rounded_up: Texts | UnsetType = UNSET


class ReportedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds that decisions have reported.

    Attributes:
        version, ratios, earlier: as of `state.Reported`.
    """

    version: int
    ratios: tuple[str, ...]
    earlier: tuple[str, ...] | UnsetType = UNSET


class PeriodRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in one period.

    Attributes:
        begins_at: when the period begins, in milliseconds since 1970.
        rounded_up: as of a decision.
        resets: how many times the clock had been set back.
    """

    begins_at: int
    totals: Texts
    rounded_up: Texts | UnsetType = UNSET
    resets: int | UnsetType = UNSET


class PeriodsRow(msgspec.Struct, frozen=True, kw_only=True):
    """The periods of a pace, in force or the last one.

    Attributes:
        length: of each, as `P1D`.
        first_at: when the first one begins, in milliseconds since 1970.
        first: how long that is, if another length.
    """

    length: str
    first_at: int
    first: str | UnsetType = UNSET


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a limit's row that is in no decision.

    Attributes:
        kind: the filter that use is counted for; left out before there was a limit.
        counted_since: version from which on.
        periods: left out before there was a pace.
        shared_since: version from which on the use of its share is counted.
        set_by: number of the dataset's decision that has set its share; left out where that is
            `sequence` of the row.
        cut: what records of releases made elsewhere took of its share; left out for nothing.
        cut_by: number of the dataset's decision that cut it last.
        over: true once the limit has ended; left out otherwise.
    """

    kind: str | UnsetType = UNSET
    counted_since: int | UnsetType = UNSET
    periods: PeriodsRow | UnsetType = UNSET
    shared_since: int | UnsetType = UNSET
    set_by: int | UnsetType = UNSET
    cut: Texts | UnsetType = UNSET
    cut_by: int | UnsetType = UNSET
    over: bool | UnsetType = UNSET


class ScopeRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="level"):
    """A level's row in `state`.

    Attributes:
        dataset, scope, team, name: as in the key.
        sequence: of the decision that has set or changed the row.
        limit: of the last record, removals included; left out in a row of usage under a default.
        rule: `kind`, the filter that is counted; `counted_since` and `shared_since`, the versions
            from which on; `periods` of the period limit, also of a removed one: `length`,
            `first_at` (start of period 0) and `first` (its length, if longer); `set_by`, the
            dataset's decision that has set its share, if that is not `sequence`; `cut`, what
            releases made elsewhere took of the share; `cut_by`, the last such decision;
            `over`, true once the limit has ended.
        counted: usage of the limit, as in `levels` of a decision.
        paced: usage in the period; `begins_at`, its start; `resets`, the number of clock resets at
            that time.
        used: usage of the reserved share.
        reported: `ratios`, the thresholds that decisions have reported under a `version`;
            `earlier`, those reported under earlier ones. Left out for none.
    """

    version: Format
    dataset: str
    scope: Scope
    team: str | UnsetType = UNSET
    name: str
    sequence: int
    limit: LimitRecord | UnsetType = UNSET
    rule: RuleRow | UnsetType = UNSET
    counted: CountRow | UnsetType = UNSET
    paced: PeriodRow | UnsetType = UNSET
    used: CountRow | UnsetType = UNSET
    reported: ReportedRow | UnsetType = UNSET


decode_scope_row = reader(ScopeRow)


def scope_row_key(dataset: str, scope: str, team: str, name: str) -> bytes:
    """Return the key of a level's row: no name of a dataset begins with a brace."""
    within = f'","team":"{team}' if team else ""
    return f'{{"dataset":"{dataset}","scope":"{scope}{within}","name":"{name}"}}'.encode()


def scope_row_keys(dataset: str) -> tuple[bytes, bytes]:
    """Return two keys between which those of a dataset's levels are, and no other."""
    first = _BEGIN + dataset.encode() + _SCOPED
    return first, first + b"\xff"


def is_scope_row_key(key: bytes) -> bool:
    """Tell a level's key from those of datasets, of members and of the partition."""
    return key.startswith(_BEGIN) and _SCOPED in key
