"""Why a budget is as it is, wherever the ledger is; an index is read, and never written."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from streams.cli.reading.dataset_reader import fail_unopened

if TYPE_CHECKING:
    from accountant.views.why import Why


def why_at(url: str, dataset: str, analyst: str | None, token_file: Path | None = None) -> Why:
    """Return why a dataset's budget is as it is; end the command if it was never opened.

    Raises: AddressInvalid, Unavailable, Refused, LogDamaged.
    """
    from streams.address import ledger_url

    if ledger_url(url).kind == "http":
        from streams.cli.reading.connected import connected

        with connected(url, token_file) as ledger:
            found = ledger.why(dataset, analyst=analyst)
    else:
        found = _counted(url, dataset, analyst, token_file)
    if found is None:
        fail_unopened(dataset)
    return found


def _counted(url: str, dataset: str, analyst: str | None, token_file: Path | None) -> Why | None:
    """Return what the log and an index of this process alone say."""
    from accountant.views.why import lefts, since_day, spenders, why_of
    from streams.cli.reading.dataset_reader import open_views
    from streams.cli.reading.usage_rows import indexed
    from streams.clock import SystemClock

    now = SystemClock().now()
    with open_views(url, token_file) as views:
        view = views.one(dataset)
        if view is None:
            return None
        members = views.members(dataset)
        index, _ = indexed(url, dataset)
        with contextlib.closing(index), index.at_last() as rows:
            sums = rows.sums(dataset, since_day=since_day(now))
        if sums is None:
            return None
        levels = views.levels(dataset)
        analysts = spenders(sums, members, analyst)[1] if levels else []
        budgets = views.budgets_in(view, analysts) if analysts else {}
        left = lefts(view, levels, budgets, {each.team for each in members if each.team})
    return why_of(view, sums, members, now=now, analyst=analyst, left=left)
