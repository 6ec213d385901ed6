"""Asks the sender back before a record is appended that is probably a slip.

Clients with a ledger of their own ask the same questions in `streams.client.connection.confirm`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from accountant.display.smaller_limits import confirmations_of_division, may_be_asked_back
from accountant.records import Body
from accountant.records.requests import Open
from accountant.views.confirmations import (
    Confirmation,
    OfPeople,
    confirmation_words,
    confirmations_of_opening,
)
from streams.auth.visibility import visibility_of
from streams.gateway.source_check import confirmations_of_source, knows_sources
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem, problem


async def check_confirmed(request: HttpRequest, body: Body) -> None:
    """Check that there is nothing to ask the sender of a record.

    Call it after `check_may_send`, which hides datasets, and not for a record that is meant.

    Raises: HTTPProblem: there is (409). Unavailable.
    """
    found = await confirmations_of(request, body)
    if found:
        raise _asked_back(found)


async def confirmations_of(request: HttpRequest, body: Body) -> Sequence[Confirmation]:
    """Return what to ask the sender of a record: nothing of one that was decided before.

    Raises: Unavailable.
    """
    if not isinstance(body, Open | OfPeople):
        return []
    service, found = context_of(request).service, list[Confirmation]()
    if isinstance(body, Open):
        if await service.dataset(body.dataset) is not None:
            return []  # a repeat, or refused
        visibility, views = visibility_of(request), await service.datasets()
        ordered = service.ordered_before()
        # Without authentication there is perhaps no file of sources, and a slip to prevent.
        listed = knows_sources(request) or visibility.caller is not None
        # In a thread: membership checks and comparisons of thousands would delay other requests.
        found += await asyncio.to_thread(
            lambda: confirmations_of_opening(
                body, views, visibility.sees, ordered=ordered, sources_are_listed=listed
            )
        )
        found += await confirmations_of_source(request, body)
    elif may_be_asked_back(body):
        # Owners see all members and limits; the team that a lead may name has a member, the lead.
        members, limits = await service.members(body.dataset), await service.levels(body.dataset)
        view = await service.dataset(body.dataset)
        if view is not None:
            found += confirmations_of_division(body, view, members, limits)
    if found and await service.find(body.dataset, body.by, body.request_id) is not None:
        return []
    return found


def _asked_back(found: Sequence[Confirmation]) -> HTTPProblem:
    first, question = found[0], confirmation_words(found)
    return HTTPProblem(
        problem(
            409,
            first.code,
            f"{question} To send the record as it is, add ?new=true",
            question=question,
            field=first.field,
            value=first.value,
            similar=first.similar,
        )
    )
