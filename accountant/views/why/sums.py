"""What an index says of one dataset at one moment: all that `why` is made of."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from accountant.amounts import Units
from accountant.views.tallies import LargeGrant


class Used(NamedTuple):
    """The requests with one key; `spent` in units of 1e-40."""

    key: str
    granted: int
    refused: int
    spent: Units


class UsedSums(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one dataset.

    Attributes:
        unit: the additive sum of the dataset's budget.
        analysts, purposes: in the order in which they came.
        days: by day, `2026-11-23`.
        reasons: of refusals; see `tallies.Tallies`.
        largest: the largest first.
        analyst_days: what grants cost, by analyst, then by day, of the last days.
        since, since_at: number and time of the first decision that `reasons`, `largest` and
            `analyst_days` have, where the log's beginning was archived; 0 and "" where they have
            all.
    """

    unit: str
    analysts: list[Used] = []
    purposes: list[Used] = []
    days: list[Used] = []
    reasons: list[Used] = []
    largest: list[LargeGrant] = []
    analyst_days: dict[str, dict[str, Units]] = {}
    since: int = 0
    since_at: str = ""
