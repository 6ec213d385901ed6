"""Asks the caller back before a record is sent that is probably a slip.

A server asks itself, by `streams.gateway.confirm`; here is the same for a ledger of this process
and for one on Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from accountant.display.smaller_limits import confirmations_of_division, may_be_asked_back
from accountant.records.requests import Open
from accountant.views.confirmations import (
    Confirmation,
    OfPeople,
    confirmation_words,
    confirmations_of_opening,
)
from streams.client.connection.service_kind import is_over_http
from streams.client.unconfirmed import unconfirmed
from streams.service.ledger_service import Service


async def check_confirmed(service: Service, body: Open | OfPeople) -> None:
    """Check that there is nothing to ask about an admin record that is not decided yet.

    Raises: Unconfirmed: there is; nothing was sent.
    """
    if is_over_http(service):
        return
    found = await _confirmations(service, body)
    if found and await service.find(body.dataset, body.by, body.request_id) is None:
        first = found[0]
        what = confirmation_words(found)
        raise unconfirmed(first.code, first.field, first.value, first.similar, what)


async def _confirmations(service: Service, body: Open | OfPeople) -> Sequence[Confirmation]:
    if isinstance(body, Open):
        if await service.dataset(body.dataset) is not None:
            return []  # a repeat, or refused
        views = await service.datasets()
        return confirmations_of_opening(body, views, ordered=service.ordered_before())
    if not may_be_asked_back(body):
        return []
    view = await service.dataset(body.dataset)
    if view is None:
        return []
    members, limits = await service.members(body.dataset), await service.levels(body.dataset)
    return confirmations_of_division(body, view, members, limits)
