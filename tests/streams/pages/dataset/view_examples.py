"""Views as a ledger would give them, for tests of what pages show."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from accountant.dataset_ledger import DatasetLedger
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.times import from_iso
from accountant.views.datasets import DatasetView, view_of_ledger
from accountant.views.limit_views import AnalystBudget, PeriodLimitView, ScopeView

NOW = from_iso("2026-11-21T12:00:00.000Z")
OPENED = "2026-11-01T09:30:00.000Z"


def dataset(**fields: Any) -> DatasetView:
    """Return a dataset as it was opened, basic with epsilon 1 where nothing else is said."""
    policy = {"filter": "basic", "epsilon": "1", **fields.pop("policy", {})}
    plan = open_plan(resolve(Policy(**policy)))
    view = view_of_ledger(DatasetLedger.new("census", plan, from_iso(OPENED)))
    return replace(view, **fields)


def pace(
    left: str, *, part: str = "0.1", ends_at: str = "2026-11-22T00:00:00.000Z"
) -> PeriodLimitView:
    """Return a pace of a day, of a budget of epsilon 1."""
    used = f"{float(part) - float(left):g}"
    return PeriodLimitView(
        part=part,
        period="P1D",
        budget={"epsilon": part},
        used={"epsilon": used},
        left={"epsilon": left},
        spent_ratio=float(used) / float(part),
        begins_at="2026-11-21T00:00:00.000Z",
        ends_at=ends_at,
    )


def level(scope: Any, name: str | None = None, still: str | None = None, **more: Any) -> ScopeView:
    """Return a limit of a fifth of epsilon 1, with so much left."""
    if still is not None:
        used = f"{0.2 - float(still):g}"
        more |= {"part": "0.2", "budget": {"epsilon": "0.2"}, "used": {"epsilon": used}}
        more |= {"left": {"epsilon": still}, "spent_ratio": float(used) / 0.2}
    return ScopeView(scope=scope, name=name, version=1, **more)


def budget(*levels: ScopeView, left: str = "0.5", team: str | None = None) -> AnalystBudget:
    """Return what ana may use of epsilon 1."""
    return AnalystBudget(
        dataset="census",
        analyst="ana",
        team=team,
        budget={"epsilon": "1"},
        left={"epsilon": left},
        spent_ratio=1 - float(left),
        levels=levels,
    )
