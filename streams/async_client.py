"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Self

from accountant.claims import Claim
from accountant.policy import Neighbours, Policy
from accountant.records import Decision, decode_decision
from accountant.views import DatasetView, UsageView
from streams.calls import (
    Call,
    call_of,
    close_call,
    is_echo,
    new_id,
    open_call,
    pauses,
    request_call,
)
from streams.clock import Clock, SystemClock
from streams.connect import connect_here, connect_kafka
from streams.errors import Unavailable
from streams.service import Answer, Service
from streams.settings import Settings, load

WAIT_S: Final = 5.0


def undecided(call: Call, wait: float) -> Unavailable:
    """Return the error of a call that was taken in, but not decided in time."""
    return Unavailable(
        f"not decided within {wait:g} s: look it up by decision({call.dataset!r}, {call.who!r}, "
        f"{call.request_id!r}), or ask again with that request_id"
    )


class AsyncAccountant:
    """A ledger, for programs with an event loop; use it as an `async with` context.

    Outcomes are values: a refusal is a `Decision` with a reason, and `fits` says what would
    still be granted. Raised are RequestInvalid or Undecodable (nothing was sent),
    Unavailable (ask again with the same request_id), and Refused (someone must act).

    Args:
        url: `sqlite:///accountant.db`, `http://host:port` or `kafka://host:port`; without it
            `ACCOUNTANT_URL`, or the first of these.
        settings: all of them, instead of those in the environment.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or load(url=url)
        self.clock = clock or SystemClock()
        self._open: Service | None = None

    async def __aenter__(self) -> Self:
        here = await asyncio.to_thread(connect_here, self.settings, self.clock)
        self.attach(here or await connect_kafka(self.settings))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    def attach(self, service: Service) -> None:
        """Use a service that is connected already; `disconnect` closes it."""
        self._open = service

    async def disconnect(self) -> None:
        """Let go of the ledger."""
        service, self._open = self._open, None
        if service is not None:
            await service.close()

    @property
    def _service(self) -> Service:
        if self._open is None:
            raise Unavailable("not connected: use `async with AsyncAccountant() as ledger`")
        return self._open

    async def ask(
        self,
        dataset: str,
        claim: str | Claim,
        *,
        analyst: str,
        purpose: str = "",
        unit: str = "person",
        neighbours: Neighbours = "add_remove",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> Decision:
        """As `Accountant.ask`."""
        call = request_call(
            dataset,
            claim,
            analyst=analyst,
            purpose=purpose,
            unit=unit,
            neighbours=neighbours,
            request_id=request_id or new_id(self.clock),
        )
        return await self.decided(call, wait)

    async def submit(self, body: bytes, *, wait: float = WAIT_S) -> Decision:
        """As `Accountant.submit`."""
        return await self.decided(call_of(body), wait)

    async def open(
        self,
        dataset: str,
        policy: Policy | Mapping[str, Any],
        *,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> Decision:
        """As `Accountant.open`."""
        request_id = request_id or new_id(self.clock)
        call = open_call(dataset, policy, by=by, reason=reason, request_id=request_id)
        return await self.decided(call, wait)

    async def close(
        self,
        dataset: str,
        *,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> Decision:
        """As `Accountant.close`."""
        request_id = request_id or new_id(self.clock)
        call = close_call(dataset, by=by, reason=reason, request_id=request_id)
        return await self.decided(call, wait)

    async def datasets(self) -> list[DatasetView]:
        """Return every dataset, by name."""
        return await self._service.datasets()

    async def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if it was never opened."""
        return await self._service.dataset(name)

    async def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset since its door began to look."""
        return await self._service.usage(dataset)

    async def decision(self, dataset: str, analyst: str, request_id: str) -> Decision | None:
        """As `Accountant.decision`."""
        found = await self._service.find(dataset, analyst, request_id)
        return None if found is None else decode_decision(found)

    def events(self) -> AsyncIterator[Decision]:
        """Yield decisions as they become visible; who reads too slowly loses the oldest."""
        return self._service.events()

    async def decided(self, call: Call, wait: float) -> Decision:
        """Send a call until it is answered, the same bytes each time.

        Raises: Unavailable: it never was, or not in time.
        """
        answer, retried = await self._answer(call, wait)
        if answer.decision is None:
            raise undecided(call, wait)
        decision = decode_decision(answer.decision)
        if is_echo(decision, retried=retried):
            return await self.decision(call.dataset, call.who, call.request_id) or decision
        return decision

    async def _answer(self, call: Call, wait: float) -> tuple[Answer, bool]:
        retried = False
        for pause in pauses():
            try:
                return await self._service.submit(call.source, call.body, wait=wait), retried
            except Unavailable:
                retried = True
                await asyncio.sleep(pause)
        return await self._service.submit(call.source, call.body, wait=wait), retried
