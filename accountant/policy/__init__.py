"""Policies: the terms that an owner fixes when opening a dataset."""

from __future__ import annotations

from accountant.policy.policy import (
    DEFAULT_ALERTS,
    MAX_ALERTS,
    MAX_ODOMETERS,
    MAX_OPEN,
    PARAMETERS,
    Access,
    Neighbours,
    ParsedBudget,
    Policy,
    Visibility,
    check_alerts,
    check_horizon,
    check_open_per_holder,
    check_ratio,
    filter_of,
    guarantee_of,
    horizon_seconds,
    parse_budget,
    resolve,
    sees_only_own,
)

__all__ = [
    "DEFAULT_ALERTS",
    "MAX_ALERTS",
    "MAX_ODOMETERS",
    "MAX_OPEN",
    "PARAMETERS",
    "Access",
    "Neighbours",
    "ParsedBudget",
    "Policy",
    "Visibility",
    "check_alerts",
    "check_horizon",
    "check_open_per_holder",
    "check_ratio",
    "filter_of",
    "guarantee_of",
    "horizon_seconds",
    "parse_budget",
    "resolve",
    "sees_only_own",
]
