"""Limits of a dataset, and remaining budgets of one analyst."""

from __future__ import annotations

import asyncio
from typing import Final

from litestar import Response, get
from litestar.params import FromPath

from accountant.records import encode
from accountant.records.names import check_name
from accountant.views.limit_views import AnalystBudget
from accountant.views.visibility import DatasetAccess, visible_limits
from streams.auth.authorization import signed_in_as
from streams.auth.decision_pages import log_reading
from streams.auth.principal import principal_of
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, list_response
from streams.http.refusal import forbidden

# Datasets between two yields to the event loop: 5 microseconds each, 50 with limits.
_BATCH: Final = 50


@get("/datasets/{dataset:str}/limits", tags=["access"])
async def list_limits(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return a dataset's limits in force, by scope and name, with their use.

    Owners, auditors and administrators see all limits, a lead those of the team and its analysts;
    everybody else sees the limits of their own requests.
    """
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    service = context_of(request).service
    if access.reads_others:
        log_reading(request, dataset, reads_others=access.reads_others)
        shown = visible_limits(access, await service.levels(dataset))
        return list_response(dataset, "limits", encode(shown))
    own = await service.budget_for(dataset, access.name)
    return list_response(dataset, "limits", encode(() if own is None else own.levels))


@get("/datasets/{dataset:str}/budgets/{analyst:str}", tags=["access"])
async def show_budget(
    request: HttpRequest, dataset: FromPath[str], analyst: FromPath[str]
) -> Response[bytes]:
    """Return an analyst's remaining budget: the dataset's, and that of each applicable limit.

    Owners, auditors and administrators may ask about anybody, a lead about the team; everybody else
    about themselves.
    """
    check_name("analyst", analyst)
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    check_sees_budget(request, dataset, access, analyst)
    budget = await context_of(request).service.budget_for(dataset, analyst)
    if budget is None:
        return await unknown_dataset(request, dataset)
    return Response(encode(budget), media_type=JSON)


def check_sees_budget(
    request: HttpRequest, dataset: str, access: DatasetAccess, analyst: str
) -> None:
    """Check that the caller may see an analyst's remaining budget; log a look at another's.

    Raises: HTTPProblem: not allowed.
    """
    caller = principal_of(request)
    if caller is None or caller.name == analyst:
        return
    if not access.is_shown(analyst):
        roles = visibility_of(request).roles(dataset)
        what = (
            f"only owners and auditors of dataset {dataset}, the lead of their team, and "
            f"administrators, may see what others have left; {signed_in_as(caller, roles)}"
        )
        raise forbidden(request, "read", what, field="analyst", value=analyst)
    log_reading(request, dataset, reads_others=access.reads_others)


@get("/me/budgets", tags=["access"])
async def show_own_budgets(request: HttpRequest) -> Response[bytes]:
    """Return the caller's remaining budget on each dataset that they may ask.

    Closed datasets are left out. Without authentication the list is empty.
    """
    budgets = await own_budgets(request)
    return Response(await asyncio.to_thread(encode, budgets), media_type=JSON)


async def own_budgets(request: HttpRequest) -> list[AnalystBudget]:
    """Return the caller's remaining budgets; none without authentication."""
    caller = principal_of(request)
    if caller is None:
        return []
    context, visibility = context_of(request), visibility_of(request)
    found: list[AnalystBudget] = []
    for number, view in enumerate(await context.service.datasets()):
        if number % _BATCH == 0:
            await asyncio.sleep(0)  # very many datasets must not delay other requests
        if view.closed or not visibility.asks(view):
            continue
        budget = await context.service.budget_for(view.dataset, caller.name)
        if budget is not None:
            found.append(budget)
    return found
