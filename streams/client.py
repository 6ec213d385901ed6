"""What an analyst's program imports: `Accountant`, and `AsyncAccountant` for event loops."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from accountant.claims import Claim
from accountant.policy import Neighbours, Policy
from accountant.records import Decision
from accountant.usage import UsageView
from accountant.views import Alert, DatasetView
from streams.async_client import CONNECT_S, WAIT_S, AsyncAccountant
from streams.calls import (
    Call,
    Patience,
    Unanswered,
    amend_call,
    call_of,
    close_call,
    is_echo,
    new_id,
    open_call,
    request_call,
    unanswered,
    undecided,
    words,
)
from streams.clock import Clock
from streams.connect import connect_here
from streams.embedded import EmbeddedService
from streams.errors import Unavailable
from streams.portal import Portal
from streams.settings import Settings

__all__ = ["Accountant", "AsyncAccountant", "Unanswered"]

T = TypeVar("T")


class Accountant:
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
        self._clock = self._client.clock
        self._portal: Portal | None = None
        self._connected = False
        here = connect_here(self._client.settings, self._clock)
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

    def ask(
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
        """Ask to run one mechanism on a dataset.

        Args:
            dataset: its name.
            claim: what the mechanism promises, as text (`gaussian:sigma=20,sensitivity=1`)
                or as a value of `accountant.claims`.
            analyst: who asks.
            purpose: for people, at most 200 characters.
            unit, neighbours: what the promise is for; those of the dataset's policy.
            request_id: of an earlier call, to ask again; without it a new one.
            wait: seconds to wait for the decision, retries included; a call that is under way
                then takes at most about two more.
        Raises: RequestInvalid, Unanswered (its `request_id` is to ask again with), Refused.
        """
        call = request_call(
            dataset,
            claim,
            analyst=analyst,
            purpose=purpose,
            unit=unit,
            neighbours=neighbours,
            request_id=request_id or new_id(self._clock),
        )
        return self._decided(call, wait)

    def submit(self, body: bytes, *, wait: float = WAIT_S) -> Decision:
        """Send a body of your own, a request or an admin record; retries send the same bytes."""
        return self._decided(call_of(body), wait)

    def open(
        self,
        dataset: str,
        policy: Policy | Mapping[str, Any],
        *,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> Decision:
        """Open a dataset under a policy; the budget is fixed then.

        Args:
            policy: such as `{"epsilon": "1", "delta": "1e-6"}`; amounts are decimal strings.
            by: its owner.
        """
        request_id = request_id or new_id(self._clock)
        call = open_call(dataset, policy, by=by, reason=reason, request_id=request_id)
        return self._decided(call, wait)

    def amend(
        self,
        dataset: str,
        *,
        alert_at: Sequence[str] | None = None,
        horizon: str | None = None,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> Decision:
        """Change a dataset's alert thresholds or horizon; its budget never changes.

        Args:
            alert_at: ratios of the budget, increasing, such as `["0.5", "0.9"]`; None keeps
                those there are.
            horizon: how long the budget is to last, such as `P365D`; None keeps it.
            by: its owner.
        """
        call = amend_call(
            dataset,
            alert_at=alert_at,
            horizon=horizon,
            by=by,
            reason=reason,
            request_id=request_id or new_id(self._clock),
        )
        return self._decided(call, wait)

    def close(
        self,
        dataset: str,
        *,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> Decision:
        """Close a dataset: nothing more is granted."""
        request_id = request_id or new_id(self._clock)
        call = close_call(dataset, by=by, reason=reason, request_id=request_id)
        return self._decided(call, wait)

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
        while True:
            try:
                yield self._call(_next(events))
            except StopAsyncIteration:
                return

    def _decided(self, call: Call, wait: float) -> Decision:
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
            self._portal = Portal()
        return self._portal.call(coroutine)


async def _next(events: AsyncIterator[T]) -> T:
    return await anext(events)


def _in_process(ledger: EmbeddedService, call: Call, wait: float) -> tuple[Decision | None, bool]:
    """Decide in this thread; tell also whether it took a retry."""
    patience = Patience(wait)
    retried = False
    while True:
        try:
            return ledger.decide_sync(call.source, call.body, patience.left), retried
        except Unavailable as error:
            retried = True
            pause = patience.pause()
            if pause is None:
                raise unanswered(call, words(error)) from error
        time.sleep(pause)
