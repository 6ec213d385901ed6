"""Who used a budget, for what and when, and how much longer it lasts."""

from accountant.views.why.forecast import Forecast, Left, Whose
from accountant.views.why.remaining import left_of_dataset, lefts
from accountant.views.why.report import (
    MOST_SHOWN,
    WHY_BYS,
    Why,
    WhyBy,
    columns,
    decode_why,
    own_alone,
    rows,
    without_members,
)
from accountant.views.why.why import Used, UsedSums, since_day, spenders, why_of

__all__ = [
    "MOST_SHOWN",
    "WHY_BYS",
    "Forecast",
    "Left",
    "Used",
    "UsedSums",
    "Whose",
    "Why",
    "WhyBy",
    "columns",
    "decode_why",
    "left_of_dataset",
    "lefts",
    "own_alone",
    "rows",
    "since_day",
    "spenders",
    "why_of",
    "without_members",
]
