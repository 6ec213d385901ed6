"""Who used a budget, for what and when, and how much longer it lasts."""

from accountant.views.why.forecast import Forecast, RemainingAmount, SpenderKey
from accountant.views.why.remaining import remaining_by_scope, remaining_of_dataset
from accountant.views.why.report import (
    MAX_SHOWN,
    WHY_BYS,
    Why,
    WhyBy,
    columns,
    decode_why,
    own_rows,
    rows,
    rows_of_team,
    without_members,
)
from accountant.views.why.why import UsageByKey, UsageSums, first_day, spenders, why_of

__all__ = [
    "MAX_SHOWN",
    "WHY_BYS",
    "Forecast",
    "RemainingAmount",
    "SpenderKey",
    "UsageByKey",
    "UsageSums",
    "Why",
    "WhyBy",
    "columns",
    "decode_why",
    "first_day",
    "own_rows",
    "remaining_by_scope",
    "remaining_of_dataset",
    "rows",
    "rows_of_team",
    "spenders",
    "why_of",
    "without_members",
]
