"""What is left for whom: the limits of a dataset, and the budgets of one analyst."""

from __future__ import annotations

import asyncio
from typing import Final

from litestar import Response, get
from litestar.params import FromPath

from accountant.records import encode
from accountant.records.names import check_name
from accountant.views.limit_views import AnalystBudget
from accountant.views.visibility import DatasetAccess
from streams.auth.decision_pages import note_reading
from streams.auth.principal import principal_of
from streams.auth.visibility import sight_of
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, list_of, never_opened
from streams.http.refusal import forbidden
from streams.visibility import Sight

_AT_A_TIME: Final = 50  # each some 5 microseconds, with limits 50


@get("/datasets/{dataset:str}/limits", tags=["access"])
async def list_limits(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
    """Return a dataset's limits that are in force, by scope and name, with what is used.

    Owners, auditors and administrators see all of them, everybody else those that their own
    requests are checked at.
    """
    found = await sight_of(request).dataset(dataset)
    if found is None:
        return never_opened(dataset)
    _, standing = found
    service = context_of(request).service
    if standing.sees_all:
        note_reading(request, dataset, sees_all=True)
        return list_of(dataset, "limits", encode(await service.levels(dataset)))
    own = await service.budget_for(dataset, standing.name)
    return list_of(dataset, "limits", encode(() if own is None else own.levels))


@get("/datasets/{dataset:str}/budgets/{analyst:str}", tags=["access"])
async def show_budget(
    request: HttpRequest, dataset: FromPath[str], analyst: FromPath[str]
) -> Response[bytes]:
    """Return what an analyst may still use of a dataset: its rest, and each limit that applies.

    Owners, auditors and administrators may ask of anybody, everybody else of themselves.
    """
    check_name("analyst", analyst)
    found = await sight_of(request).dataset(dataset)
    if found is None:
        return never_opened(dataset)
    _, standing = found
    check_sees_budget(request, dataset, standing, analyst)
    budget = await context_of(request).service.budget_for(dataset, analyst)
    if budget is None:
        return never_opened(dataset)
    return Response(encode(budget), media_type=JSON)


def check_sees_budget(
    request: HttpRequest, dataset: str, standing: DatasetAccess, analyst: str
) -> None:
    """Check that the one who asks may know what an analyst has left; note who looks at another's.

    Raises: HTTPProblem: they may not.
    """
    who = principal_of(request)
    if who is None or who.name == analyst:
        return
    if not standing.sees_all:
        what = "what others have left is for owners, auditors and administrators"
        raise forbidden(request, "read", what, field="analyst", value=analyst)
    note_reading(request, dataset, sees_all=True)


@get("/me/budgets", tags=["access"])
async def show_own_budgets(request: HttpRequest) -> Response[bytes]:
    """Return what the one who asks may still use, by dataset: of each on which they may ask.

    Closed ones are left out. Without authentication a door knows nobody, and answers with none.
    """
    budgets = await own_budgets(request)
    return Response(await asyncio.to_thread(encode, budgets), media_type=JSON)


async def own_budgets(request: HttpRequest) -> list[AnalystBudget]:
    """Return the budgets of the one who asks; none of whom the door does not know."""
    who = principal_of(request)
    if who is None:
        return []
    context, sight = context_of(request), sight_of(request)
    found: list[AnalystBudget] = []
    for number, view in enumerate(await context.service.datasets()):
        if number % _AT_A_TIME == 0:
            await asyncio.sleep(0)  # with very many datasets, others' turns are in between
        is_open = view.policy.access != "members"
        if view.closed or not (is_open or _may_ask(sight, view.dataset)):
            continue
        budget = await context.service.budget_for(view.dataset, who.name)
        if budget is not None:
            found.append(budget)
    return found


def _may_ask(sight: Sight, dataset: str) -> bool:
    return "analyst" in sight.roles(dataset)
