"""Reads what used a budget from any ledger; an index is read, and never written."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from accountant.records.request_names import names_in_request
from accountant.views.why.report import RefusalsByReason
from streams.cli.reading.dataset_reader import (
    fail_unknown_dataset,
    find_dataset,
    get_dataset,
    reader,
    visible_members,
)
from streams.cli.reading.usage_rows import build_index, reads_log

if TYPE_CHECKING:
    from accountant.records.members import Member
    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import AnalystBudget, ScopeView
    from accountant.views.usage import By, UsageRow
    from accountant.views.why import UsageSums, Why
    from streams.client import Accountant
    from streams.index import UsageIndex


def read_why(
    url: str,
    dataset: str,
    analyst: str | None,
    token_file: Path | None = None,
    *,
    reasons: bool = False,
) -> tuple[Why, DatasetView]:
    """Return what used a dataset's budget, and its view; end the command if it was never opened.

    Args:
        reasons: count a caller's own refusals, where the server does not show those of others.
    Raises: AddressInvalid, Unavailable, Refused, LogDamaged.
    """
    from streams.clock import SystemClock
    from streams.service.dataset_reads import why_of_dataset

    with reader(url, token_file) as ledger:
        view = get_dataset(ledger, dataset)
        if not reads_log(url):
            found: Why | None = ledger.why(dataset, analyst=analyst)
            if found is not None and found.only is not None and reasons:
                found = replace(found, refusals=_own_refusals(ledger, dataset, found.only))
        else:
            index, _ = build_index(url, dataset)
            with contextlib.closing(index):
                source, now = _PrivateIndex(ledger, index), SystemClock().now()
                found = asyncio.run(why_of_dataset(source, dataset, now=now, analyst=analyst))
    if found is None:
        fail_unknown_dataset(dataset, ())
    return found, view


def _own_refusals(ledger: Accountant, dataset: str, name: str) -> tuple[RefusalsByReason, ...]:
    """Count the refusals among an analyst's own requests; the largest number first.

    A server sends a caller only the decisions that they may see.
    """
    counts = Counter[tuple[str, str | None]]()
    for decision in ledger.requests(dataset):
        if decision.reason is None or not decision.outcome.is_refusal:
            continue
        if names_in_request(decision.request).analyst == name:
            level = None if decision.level is None else decision.level.scope
            counts[str(decision.reason), level] += 1
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0][0]))
    return tuple(
        RefusalsByReason(reason=reason, level=level, refused=count)
        for (reason, level), count in ordered
    )


class _PrivateIndex:
    """Combines a ledger with a private index into a `UsageSource`."""

    def __init__(self, ledger: Accountant, index: UsageIndex) -> None:
        self._ledger = ledger
        self._index = index

    async def dataset(self, name: str) -> DatasetView | None:
        return find_dataset(self._ledger, name)

    async def members(self, dataset: str) -> list[Member]:
        return visible_members(self._ledger, dataset)

    async def levels(self, dataset: str) -> list[ScopeView]:
        return self._ledger.limits(dataset)

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        return self._ledger.budget(dataset, analyst)

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        with self._index.at_last() as rows:
            return rows.usage(dataset, by)

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        with self._index.at_last() as rows:
            return rows.sums(dataset, since_day=since_day)
