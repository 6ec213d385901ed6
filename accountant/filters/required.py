"""Checks on a budget that several filters share."""

from __future__ import annotations

from decimal import Decimal

from accountant.errors import RequestInvalid
from accountant.filters.base import Budget, required

__all__ = ["own_delta", "required"]


def own_delta(budget: Budget) -> Decimal:
    """Return delta' = delta - delta'', which must be greater than 0.

    Raises: RequestInvalid: the claims' share leaves the filter none.
    """
    if not budget.delta_for_claims and budget.delta_for_filter <= 0:
        raise RequestInvalid("delta", "must be greater than 0 for this filter", "0")
    if budget.delta_for_filter <= 0:
        raise RequestInvalid(
            "delta", "must exceed delta_for_claims for this filter", str(budget.delta_for_filter)
        )
    return budget.delta_for_filter
