"""GET /pages/owned: an owner's datasets: what runs out first, what waits, who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from litestar import Response, get

from accountant.display.forecasts import runs_out
from accountant.display.limits import near_limits, scope_words, used_ratio
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import held_ratio_of
from accountant.views.limit_views import ScopeView
from accountant.views.why import Why
from accountant.views.why.forecast import Forecast
from streams.auth.decision_pages import log_reading
from streams.auth.visibility import visibility_of
from streams.errors import Unavailable
from streams.http.context import HttpRequest, context_of
from streams.pages.dataset.bars import Bar, bar_of
from streams.pages.overview import urgency
from streams.pages.paths import OWNED
from streams.pages.render import render_page
from streams.service.ledger_service import LedgerService
from streams.service.visibility import Visibility

_MOST: Final = 200
_MOST_NAMES: Final = 3
_NEVER: Final = "9999"


class OwnedRow(NamedTuple):
    """A dataset of an owner.

    Attributes:
        runs_out: when its budget is used up at the rate of the last weeks, in words.
        runs_out_at: the same to sort by.
        waits: how many requests wait for approval. `asks`: how many asks for more are open.
        refused: how many requests were refused; `who`: whose most, each with its number.
        near: how many limits are nearly or wholly used; `whose`: the most used, each in percent.
    """

    dataset: str
    state: str
    spent: Bar
    spent_ratio: float
    runs_out: str
    runs_out_at: str
    waits: int
    asks: int
    refused: int
    who: str
    near: int
    whose: str


_ORDERS: Final[Mapping[str, Callable[[OwnedRow], tuple[Any, ...]]]] = MappingProxyType(
    {
        "runs-out": lambda row: (row.state != "open", row.runs_out_at, -row.spent_ratio),
        "waits": lambda row: (-row.waits - row.asks, row.runs_out_at),
        "refused": lambda row: (-row.refused, row.runs_out_at),
        "near": lambda row: (-row.near, row.runs_out_at),
    }
)
"""The orders of the rows, by the name in the query; the first one is the usual."""


@get(OWNED, include_in_schema=False)
async def owned_datasets(request: HttpRequest) -> Response[str]:
    """Return the page with the caller's own datasets; without authentication all of them.

    Query parameter: `sort`, one of `runs-out`, `waits`, `refused` and `near`.
    """
    service, visibility = context_of(request).service, visibility_of(request)
    known = await service.datasets()
    views = await asyncio.to_thread(_owned, visibility, known)
    more = max(0, len(views) - _MOST)
    rows = []
    for view in nsmallest(_MOST, views, urgency):
        log_reading(request, view.dataset, reads_others=True)
        rows.append(await _row(service, view))
    sort = str(request.query_params.get("sort", ""))
    sort = sort if sort in _ORDERS else next(iter(_ORDERS))
    return render_page(
        request,
        "owned.html",
        page_url=OWNED,
        rows=sorted(rows, key=_ORDERS[sort]),
        more=more,
        sort=sort,
        waiting=sum(row.waits + row.asks > 0 for row in rows),
    )


def _owned(visibility: Visibility, known: list[DatasetView]) -> list[DatasetView]:
    views = visibility.among(known)
    if visibility.caller is None:
        return views
    return [view for view in views if "owner" in visibility.roles(view.dataset)]


async def _row(service: LedgerService, view: DatasetView) -> OwnedRow:
    try:
        why = await service.why(view.dataset)
    except Unavailable:  # an index that is behind leaves out these columns alone
        why = None
    pending = await service.pending(view.dataset)
    forecast = None if why is None else _forecast(why)
    at = None if forecast is None else forecast.runs_out_at
    refused, who = (0, "") if why is None else _refused(why)
    levels = await service.levels(view.dataset)
    if any(each.scope == "each" for each in levels):
        levels += await service.default_levels(view.dataset)
    near = near_limits(levels)
    return OwnedRow(
        dataset=view.dataset,
        state=view.state,
        spent=bar_of(view.spent_ratio, held_ratio_of(view)),
        spent_ratio=view.spent_ratio,
        runs_out="not known" if forecast is None else runs_out(forecast),
        runs_out_at=at or _NEVER,
        waits=len(pending),
        asks=sum(each.is_open for each in await service.asks(view.dataset)),
        refused=refused,
        who=who,
        near=len(near),
        whose=_first_of([_near_words(each) for each in near[:_MOST_NAMES]], len(near)),
    )


def _forecast(why: Why) -> Forecast | None:
    """Return the dataset's own forecast that runs out first, None without any."""
    own = [each for each in why.forecasts if each.scope == "all"]
    return min(own, key=lambda each: each.runs_out_at or _NEVER, default=None)


def _refused(why: Why) -> tuple[int, str]:
    rows = sorted(why.by_analyst, key=lambda row: (-row.refused, row.analyst))
    named = [f"{row.analyst} {row.refused:,}" for row in rows if row.refused]
    return sum(row.refused for row in rows), _first_of(named[:_MOST_NAMES], len(named))


def _near_words(limit: ScopeView) -> str:
    whose = scope_words(limit.scope, limit.name)
    if limit.analyst is not None:
        whose = f"{scope_words('analyst', limit.analyst)} (default of team {limit.name})"
    return f"{whose} {bar_of(used_ratio(limit)).used}"


def _first_of(shown: Sequence[str], number: int) -> str:
    """Return the first names of a list, and how many more it has."""
    more = [f"{number - len(shown):,} more"] if number > len(shown) else []
    return ", ".join([*shown, *more])
