"""The client for programs with an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, Self

from accountant.records import Decision, decode_decision
from accountant.views.datasets import Alert, DatasetView
from accountant.views.usage import UsageView
from streams.client.connect import AbsentLedger, connect_here
from streams.client.methods import LedgerMethods
from streams.client.requests import (
    GRACE_S,
    Patience,
    PreparedRequest,
    is_echo,
    unanswered,
    undecided,
    words,
)
from streams.clock import Clock, SystemClock
from streams.errors import Unavailable
from streams.kafka.connect import connect_kafka
from streams.service import Answer, Service
from streams.settings import Settings, load

CONNECT_S: Final = 10.0


class AsyncAccountant(LedgerMethods[Coroutine[Any, Any, Decision]]):
    """A ledger, for programs with an event loop; use it as an `async with` context.

    Outcomes are values: a refusal is a `Decision` with a reason, and `fits` says what would
    still be granted. Raised are RequestInvalid or Undecodable (nothing was sent),
    Unavailable (ask again with the same request_id), and Refused (someone must act).

    Args:
        url: `sqlite:///accountant.db`, `http://host:port` or `kafka://host:port`; without it
            `ACCOUNTANT_URL`, or the first of these.
        settings: all of them, instead of those in the environment.
        wait: seconds to wait for a connection to Kafka, at least 2, or for a file that another
            process holds without an address.

    A file that is not there is made by the first opening of a dataset, and by nothing else.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        wait: float = CONNECT_S,
    ) -> None:
        self.settings = settings or load(url=url)
        self.clock = clock or SystemClock()
        self._open: Service | None = None
        self._connect_s = wait
        self._looking = threading.Lock()

    async def __aenter__(self) -> Self:
        here = await asyncio.to_thread(
            connect_here, self.settings, self.clock, wait=self._connect_s
        )
        self.attach(here or await self.connect_kafka())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    async def connect_kafka(self) -> Service:
        """Return the service of a ledger on Kafka.

        Raises: Unavailable: the broker does not answer in time.
        """
        return await connect_kafka(self.settings, wait=self._connect_s)

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
            raise Unavailable(
                "not connected: the client was let go, or is used before its `async with`"
            )
        return self._open

    def look(self, *, make: bool = False) -> Service:
        """Return the service in use; where there was no file, look again.

        Args:
            make: make the file if there still is none.
        Raises: Unavailable: not connected. Refused, LogDamaged: as `connect_here`.
        """
        if not isinstance(self._service, AbsentLedger):
            return self._service
        with self._looking:
            if isinstance(self._service, AbsentLedger):
                self._open = connect_here(
                    self.settings, self.clock, make=make, wait=self._connect_s
                )
            return self._service

    async def _reached(self, *, make: bool = False) -> Service:
        if not isinstance(self._service, AbsentLedger):
            return self._service
        return await asyncio.to_thread(self.look, make=make)

    async def datasets(self) -> list[DatasetView]:
        """Return every dataset, by name."""
        return await (await self._reached()).datasets()

    async def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if it was never opened."""
        return await (await self._reached()).dataset(name)

    async def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset since its door began to look."""
        return await (await self._reached()).usage(dataset)

    async def decision(self, dataset: str, analyst: str, request_id: str) -> Decision | None:
        """As `Accountant.decision`."""
        service = await self._reached()
        found = await service.find(dataset, analyst, request_id)
        return None if found is None else decode_decision(found)

    def events(self) -> AsyncIterator[Decision]:
        """Yield decisions as they become visible; who reads too slowly loses the oldest."""
        return self.look().events()

    def alerts(self) -> AsyncIterator[Alert]:
        """Yield thresholds as they are crossed; those crossed before are in the datasets."""
        return self.look().alerts()

    async def decided(self, call: PreparedRequest, wait: float) -> Decision:
        """Send a call until it is answered, the same bytes each time.

        Raises: Unanswered: it never was, or not in time.
        """
        service = await self._reached(make=call.opens)
        answer, retried = await _answer(service, call, wait)
        if answer.decision is None:
            raise undecided(call, wait)
        decision = decode_decision(answer.decision)
        if is_echo(decision, retried=retried):
            return await self._first(call) or decision
        return decision

    async def _first(self, call: PreparedRequest) -> Decision | None:
        try:
            async with asyncio.timeout(GRACE_S):
                return await self.decision(call.dataset, call.who, call.request_id)
        except (TimeoutError, Unavailable):
            return None


async def _answer(service: Service, call: PreparedRequest, wait: float) -> tuple[Answer, bool]:
    """Submit until there is an answer; tell also whether it took a retry."""
    patience = Patience(wait)
    trouble, retried = "nothing was heard", False
    while True:
        left = patience.left
        try:
            async with asyncio.timeout(left + GRACE_S):
                return await service.submit(call.source, call.body, wait=left), retried
        except TimeoutError:
            why = f"the ledger does not answer within {wait:g} s: {trouble}"
            raise unanswered(call, why) from None
        except Unavailable as error:
            trouble, retried = words(error), True
            pause = patience.pause()
            if pause is None:
                raise unanswered(call, trouble) from error
        await asyncio.sleep(pause)
