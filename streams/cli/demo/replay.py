"""Send the week's requests to a ledger and hand out the decisions as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from accountant.records import Decision
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
    for _, day in groupby(asks, key=lambda ask: ask.day):
        todo = list(day)
        while todo:
            now, todo = todo[:_AT_ONCE], todo[_AT_ONCE:]
            # A retry comes after what it repeats, so it has to wait for it.
            retries = [ask for ask in now if ask.again]
            firsts = [ask for ask in now if not ask.again]
            decided = await asyncio.gather(*(_send(ledger, ask, suffix) for ask in firsts))
            results = dict(zip(map(id, firsts), decided, strict=True))
            before: DecidedRequest | None = None
            batch = []
            for ask in now:
                before = (
                    await _again(ledger, ask, suffix, before) if ask.again else results[id(ask)]
                )
                batch.append(before)
            assert len(batch) == len(firsts) + len(retries)
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


class _Id(msgspec.Struct):
    request_id: str


async def _again(
    ledger: AsyncAccountant, ask: DemoRequest, suffix: str, before: DecidedRequest | None
) -> DecidedRequest:
    request_id = None
    if before is not None:
        body = bytes(before.decision.request)
        request_id = msgspec.json.decode(body, type=_Id).request_id
    return await _send(ledger, ask, suffix, request_id)
