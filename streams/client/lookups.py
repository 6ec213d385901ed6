"""What takes a client several calls of a service, or another call for each kind of service."""

from __future__ import annotations

import asyncio
import contextlib

from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from accountant.records.http_bodies import Me
from accountant.views.limit_views import AnalystBudget
from streams.client.http.service import HttpService
from streams.client.requests import ANALYST_VARIABLE, RequestDraft
from streams.client.retry import GRACE_S
from streams.embedded.service import EmbeddedService
from streams.errors import Gone, NotPermitted, Refused, Unavailable
from streams.service import Service

UnitAndNeighbours = tuple[str, Neighbours]
"""The unit of a dataset's policy, and its neighbouring relation."""


async def get_me(service: Service) -> Me:
    """Return who the client is to the ledger; nobody in a file and on Kafka.

    Raises: Unauthenticated: the server does not know the token.
    """
    return await service.me() if isinstance(service, HttpService) else Me()


async def own_name(service: Service, field: str) -> str:
    """Return the name in requests and records that give none.

    Args:
        field: the field that wants it.
    Raises: RequestInvalid: the server knows nobody.
    """
    name = await service.own_name() if isinstance(service, HttpService) else None
    if name is None:
        rule = "must be given: authentication is off at this door, so that a token names nobody"
        raise RequestInvalid(field, rule, None)
    return name


async def missing_fields(
    service: Service, draft: RequestDraft, known: UnitAndNeighbours | None
) -> tuple[str, UnitAndNeighbours | None]:
    """Return a request's analyst, and the statement of its dataset's policy.

    Args:
        known: the statement, if it is known. None is returned for a dataset that is not open.
    """
    analyst = await own_name(service, "analyst") if draft.analyst is None else draft.analyst
    if known is None and (view := await service.dataset(draft.dataset)) is not None:
        known = view.policy.unit, view.policy.neighbours
    return analyst, known


async def get_budget(service: Service, dataset: str, analyst: str | None) -> AnalystBudget:
    """Return what an analyst may still use of a dataset.

    Raises: RequestInvalid: no name is known, or the dataset was never opened.
    """
    if analyst is None:
        if not isinstance(service, HttpService):
            raise _analyst_missing()
        analyst = await own_name(service, "analyst")
    found = await service.budget_for(dataset, analyst)
    if found is None:
        raise RequestInvalid("dataset", "must have been opened", dataset)
    return found


async def get_budgets(service: Service, analyst: str | None) -> list[AnalystBudget]:
    """Return what an analyst may still use, dataset by dataset; closed ones are left out.

    Raises: RequestInvalid: no name is known. NotPermitted: the token sees all of no dataset.
    """
    if isinstance(service, HttpService) and analyst in {None, await service.own_name()}:
        await own_name(service, "analyst")  # a server that knows nobody would have none for them
        return await service.own_budgets()
    if analyst is None:
        raise _analyst_missing()
    found, refused = [], None
    for view in await service.datasets():
        try:
            if not view.closed:
                found.append(await service.budget_for(view.dataset, analyst))
        except NotPermitted as error:  # a dataset of which a server does not show all
            refused = error
    if refused is not None and not found:
        raise refused
    return [budget for budget in found if budget is not None]


async def get_ordered_before(service: Service) -> int | None:
    """Return what `Service.ordered_before` does."""
    return service.ordered_before()


async def get_ledger_id(service: Service) -> str:
    """Return the random id of the ledger in a file or behind a gateway, else nothing.

    Nothing also where a gateway does not say it, or not now: stored answers are there without it.
    """
    if isinstance(service, HttpService):
        with contextlib.suppress(TimeoutError, Unavailable, Refused, Gone):
            async with asyncio.timeout(GRACE_S):
                heads = await service.heads()
                return heads[0].ledger if heads else ""
    elif isinstance(service, EmbeddedService):
        heads = await service.heads()
        return heads[0].ledger if heads else ""
    return ""


def _analyst_missing() -> RequestInvalid:
    return RequestInvalid("analyst", f"must be given, or be set as {ANALYST_VARIABLE}", None)
