"""Tables of `Why`, one by one, for CSV and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from accountant.views.why.forecast import Forecast
from accountant.views.why.told import (
    AnalystSpending,
    LargestGrant,
    PurposeSpending,
    Refusals,
    TeamSpending,
    WeekSpending,
    Why,
)

WhyBy = Literal["analyst", "team", "purpose", "week", "reason", "grants", "forecast"]
WHY_BYS: Final[tuple[WhyBy, ...]] = get_args(WhyBy)

_KINDS: Final[dict[WhyBy, type[msgspec.Struct]]] = {
    "analyst": AnalystSpending,
    "team": TeamSpending,
    "purpose": PurposeSpending,
    "week": WeekSpending,
    "reason": Refusals,
    "grants": LargestGrant,
    "forecast": Forecast,
}
_FIRST: Final[dict[WhyBy, tuple[str, ...]]] = {
    "analyst": ("analyst", "team"),
    "team": ("team", "analysts"),
    "purpose": ("purpose",),
    "week": ("week", "begins"),
}


def columns(by: WhyBy) -> tuple[str, ...]:
    """Return the columns of a table, the dataset and the key first, the unit last."""
    fields = msgspec.structs.fields(_KINDS[by])
    first = _FIRST.get(by, ())
    rest = [field.name for field in fields if field.name not in first]
    return "dataset", *first, *rest, "unit"


def rows(why: Why, by: WhyBy) -> list[dict[str, Any]]:
    """Return the rows of a table, each with all of `columns`."""
    named = {"dataset": why.dataset, "unit": why.unit}
    return [named | msgspec.structs.asdict(row) for row in _rows(why, by)]


def _rows(why: Why, by: WhyBy) -> Sequence[msgspec.Struct]:
    return {
        "analyst": why.by_analyst,
        "team": why.by_team,
        "purpose": why.by_purpose,
        "week": why.by_week,
        "reason": why.refusals,
        "grants": why.largest,
        "forecast": why.forecasts,
    }[by]
