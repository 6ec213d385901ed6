"""The page with the list of datasets."""

from __future__ import annotations

import asyncio
from heapq import nsmallest
from typing import Final, NamedTuple

from litestar import Response, get

from accountant.display.datasets import present_guarantee
from accountant.display.numbers import Amount, counting_amounts, remaining_amounts
from accountant.display.odometers import odometers_of
from accountant.views.datasets import DatasetView
from accountant.views.generations import with_lifetimes
from accountant.views.ledgers import held_ratio_of
from accountant.views.population import joint_guarantees
from streams.auth.authorization import may_open
from streams.auth.principal import optional_principal
from streams.auth.visibility import visibility_of
from streams.http.context import HttpRequest, context_of
from streams.pages.dataset.bars import Bar, bar_of
from streams.pages.paths import HOME, OPENING
from streams.pages.render import render_page
from streams.service.visibility import Visibility

_MOST: Final = 500


class _DatasetRow(NamedTuple):
    """One dataset in the list."""

    dataset: str
    guarantee: str
    unit: str
    spent: Bar
    left: tuple[Amount, ...]
    odometers: tuple[Amount, ...]
    state: str


@get(HOME, include_in_schema=False)
async def overview(request: HttpRequest) -> Response[str]:
    """Return the page with the datasets; of too many, those closest to exhaustion."""
    service = context_of(request).service
    views = await service.datasets()
    ordered = service.ordered_before()
    # In a thread: very many datasets would delay decisions.
    return await asyncio.to_thread(_page, request, visibility_of(request), views, ordered)


def _page(
    request: HttpRequest, visibility: Visibility, known: list[DatasetView], ordered: int | None
) -> Response[str]:
    views = visibility.among(known)
    opens = may_open(context_of(request).settings, optional_principal(request))
    more = len(views) - _MOST
    shown = views if more <= 0 else nsmallest(_MOST, views, urgency)
    return render_page(
        request,
        "overview.html",
        opening=OPENING if opens else "",
        rows=[_row(view) for view in with_lifetimes(shown, known)],
        more=more,
        together=joint_guarantees(known, visibility.sees, ordered=ordered),
    )


def urgency(view: DatasetView) -> tuple[bool, float, str]:
    """Return a key that sorts open datasets first, the most spent of them on top."""
    return view.state != "open", -view.spent_ratio, view.dataset


def _row(view: DatasetView) -> _DatasetRow:
    left = counting_amounts(view.left, view.totals, view.budget)
    return _DatasetRow(
        view.dataset,
        present_guarantee(view),
        view.policy.unit,
        bar_of(view.spent_ratio, held_ratio_of(view)),
        remaining_amounts(left),
        odometers_of(view),
        view.state,
    )
