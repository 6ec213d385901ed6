"""Send the week's requests to a ledger and hand out the decisions as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from accountant.records import Decision
from accountant.records.request_names import decode_request_details
from streams.cli.demo.teams import DIVISIONS, TEAMS
from streams.cli.demo.week import DATASETS, DemoRequest, Opening

if TYPE_CHECKING:
    from streams.client import AsyncAccountant

_AT_ONCE: Final = 20
"""Requests under way at a time: the analysts do not wait for one another."""


_WAIT_S: Final = 30.0  # a worker that has just been started first joins its group


class DecidedRequest(NamedTuple):
    """A request of the week and what became of it."""

    ask: DemoRequest
    decision: Decision


async def open_datasets(ledger: AsyncAccountant, suffix: str) -> list[Decision]:
    """Open the three datasets, their names followed by `suffix`."""
    return [
        await ledger.as_owner(opening.by, reason=opening.reason, wait=_WAIT_S).open(
            opening.dataset + suffix,
            opening.policy,
            as_given=True,
            new=True,  # an earlier demo's names may be similar
        )
        for opening in DATASETS
    ]


async def divide(ledger: AsyncAccountant, opening: Opening, suffix: str) -> list[Decision]:
    """Enrol the five analysts in a dataset that is open, each with a team, and set its limits."""
    dataset = opening.dataset + suffix
    members = await asyncio.gather(
        *(
            ledger.as_owner(opening.by, wait=_WAIT_S).set_member(
                dataset, name, roles=("analyst",), team=team
            )
            for team, names in TEAMS.items()
            for name in names
        )
    )
    limits = [
        await ledger.as_owner(opening.by, reason=each.reason, wait=_WAIT_S).set_limit(
            dataset,
            each.scope,
            each.name,
            part=each.part,
            pace=each.pace,
            reserved=each.reserved,
        )
        for each in DIVISIONS
        if each.dataset == opening.dataset
    ]
    return [*members, *limits]


async def replay(
    ledger: AsyncAccountant, asks: Sequence[DemoRequest], suffix: str
) -> AsyncIterator[list[DecidedRequest]]:
    """Yield the decisions, a few at a time, in the order of the requests.

    What a day's requests ask for was decided before those of the next day are sent. Ids are
    minted at sending; a retry sends the bytes of the request before it again.
    """
    before: str | None = None  # the id; a retry may be the first of its piece
    for _, day in groupby(asks, key=lambda ask: ask.day):
        todo = list(day)
        while todo:
            now, todo = todo[:_AT_ONCE], todo[_AT_ONCE:]
            # A retry comes after what it repeats, so it has to wait for it.
            firsts = [ask for ask in now if not ask.again]
            sent = await asyncio.gather(*(_send(ledger, ask, suffix) for ask in firsts))
            decided = iter(sent)
            batch = []
            for ask in now:
                found = await _send(ledger, ask, suffix, before) if ask.again else next(decided)
                before = decode_request_details(found.decision.request).request_id
                batch.append(found)
            yield batch


async def _send(
    ledger: AsyncAccountant, ask: DemoRequest, suffix: str, request_id: str | None = None
) -> DecidedRequest:
    reply = await ledger.ask(
        ask.dataset + suffix,
        ask.claim,
        analyst=ask.analyst,
        unit=ask.unit,
        neighbours="add_remove",
        purpose=ask.purpose,
        request_id=request_id,
        wait=_WAIT_S,
    )
    return DecidedRequest(ask, reply.decision)
