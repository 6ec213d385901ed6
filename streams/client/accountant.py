"""`Accountant`: a ledger for notebooks and scripts, without an event loop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Self, TypeVar

from accountant.records import Decision
from accountant.views.datasets import Alert, DatasetView
from accountant.views.usage import UsageView
from streams.broadcast import Subscription
from streams.client.async_accountant import CONNECT_S, AsyncAccountant
from streams.client.connect import connect_here
from streams.client.loop_thread import LoopThread
from streams.client.methods import LedgerMethods
from streams.client.requests import (
    Patience,
    PreparedRequest,
    is_echo,
    unanswered,
    undecided,
    words,
)
from streams.clock import Clock
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.settings import Settings

T = TypeVar("T")


class Accountant(LedgerMethods[Decision]):
    """A ledger, for notebooks and scripts; connected once made, let go by `disconnect`.

    The same as `AsyncAccountant` without an event loop. With a sqlite URL the ledger runs in
    this process, unless another process holds the file and answers at an address. A file that
    is not there is made by the first opening of a dataset, and by nothing else.

    Args: as those of `AsyncAccountant`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        wait: float = CONNECT_S,
    ) -> None:
        self._client = AsyncAccountant(url, settings=settings, clock=clock, wait=wait)
        self.clock = self._client.clock
        self._portal: LoopThread | None = None
        self._connected = False
        here = connect_here(self._client.settings, self.clock, wait=wait)
        self._client.attach(here or self._call(self._client.connect_kafka()))
        self._connected = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Let go of the ledger."""
        if self._connected:
            self._connected = False
            self._call(self._client.disconnect())
        if self._portal is not None:
            self._portal.close()
            self._portal = None

    def datasets(self) -> list[DatasetView]:
        """Return every dataset, by name."""
        return self._call(self._client.datasets())

    def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if it was never opened."""
        return self._call(self._client.dataset(name))

    def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset since its door began to look."""
        return self._call(self._client.usage(dataset))

    def decision(self, dataset: str, analyst: str, request_id: str) -> Decision | None:
        """Return the decision on a request of the last hour, None if it is not known.

        Older ones are in the log: `accountant log export --id`.
        """
        return self._call(self._client.decision(dataset, analyst, request_id))

    def events(self) -> Iterator[Decision]:
        """Yield decisions as they become visible; who reads too slowly loses the oldest."""
        return self._iterate(self._client.events)

    def alerts(self) -> Iterator[Alert]:
        """Yield thresholds as they are crossed; those crossed before are in the datasets."""
        return self._iterate(self._client.alerts)

    def _iterate(self, subscribe: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        async def begin() -> AsyncIterator[T]:
            return subscribe()

        events = self._call(begin())
        try:
            while True:
                try:
                    yield self._call(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            if isinstance(events, Subscription):  # a generator ends with its last reader
                events.close()

    def decided(self, call: PreparedRequest, wait: float) -> Decision:
        """Send a call until it is answered, the same bytes each time.

        Raises: Unanswered: it never was, or not in time.
        """
        service = self._client.look(make=call.opens)
        if not isinstance(service, EmbeddedService):
            return self._call(self._client.decided(call, wait))
        decision, retried = _in_process(service, call, wait)
        if decision is None:
            raise undecided(call, wait)
        if is_echo(decision, retried=retried):
            return self.decision(call.dataset, call.who, call.request_id) or decision
        return decision

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._portal is None:
            self._portal = LoopThread()
        return self._portal.call(coroutine)


async def _next(events: AsyncIterator[T]) -> T:
    return await anext(events)


def _in_process(
    ledger: EmbeddedService, call: PreparedRequest, wait: float
) -> tuple[Decision | None, bool]:
    """Decide in this thread; tell also whether it took a retry."""
    patience = Patience(wait)
    retried = False
    while True:
        try:
            decided = ledger.decide_sync(
                call.source, call.body, patience.left, checked=call.checked
            )
            return decided, retried
        except Unavailable as error:
            retried = True
            pause = patience.pause()
            if pause is None:
                raise unanswered(call, words(error)) from error
        time.sleep(pause)
