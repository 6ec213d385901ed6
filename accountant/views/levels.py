"""What people look at of limits: what each comes to, what was used of it, when more comes."""

from __future__ import annotations

import msgspec

from accountant.records.limits.limits import LimitPolicy, Scope, Texts


class PaceView(msgspec.Struct, frozen=True, kw_only=True):
    """A pace in the period that it is in.

    Attributes:
        part, period: as the owner has said.
        budget, used, left: in each sum of the dataset's filter, in this period.
        begins_at, ends_at: of the period; the next one begins with nothing used.
    """

    part: str
    period: str
    budget: Texts
    used: Texts
    left: Texts
    begins_at: str
    ends_at: str


class ShareView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A share that nobody else may use.

    Attributes:
        budget, left: what it comes to in each sum, and what of it is still kept.
        team: within whose share an analyst's lies.
    """

    part: str
    budget: Texts
    left: Texts
    team: str | None = None


class LevelView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit as it stands.

    Attributes:
        scope, name: whom it holds for; `each` is the default for each analyst of team `name`.
        analyst: whose use of a default it is; without it, the default itself, which nobody uses.
        version: of this scope and name, one more with every record.
        part, policy: a part of the dataset's budget, or a budget of its own.
        budget, used, left: of part or policy, in each sum of its filter, rounded outward.
        spent_ratio: part of the additive budget that is used, rounded up, in [0, 1].
    """

    scope: Scope
    name: str | None = None
    analyst: str | None = None
    version: int
    part: str | None = None
    policy: LimitPolicy | None = None
    budget: Texts | None = None
    used: Texts | None = None
    left: Texts | None = None
    spent_ratio: float | None = None
    pace: PaceView | None = None
    reserved: ShareView | None = None


class AnalystBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one analyst may still use of one dataset.

    Attributes:
        team: the analyst's now.
        budget: what the filter's sums may reach, the additive one first.
        left: of the dataset, where what is reserved for others is kept back.
        spent_ratio: part of the dataset's additive budget that all have spent, rounded up.
        levels: the limits that the analyst's requests are checked at, in that order.
    """

    dataset: str
    analyst: str
    team: str | None = None
    budget: Texts
    left: Texts
    spent_ratio: float
    levels: tuple[LevelView, ...] = ()


decode_level_views = msgspec.json.Decoder(list[LevelView]).decode
decode_analyst_budget = msgspec.json.Decoder(AnalystBudget).decode
decode_analyst_budgets = msgspec.json.Decoder(list[AnalystBudget]).decode
