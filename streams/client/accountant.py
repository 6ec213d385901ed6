"""`Accountant`: a ledger for notebooks and scripts, without an event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from html import escape
from typing import Any, ParamSpec, Self, TypeVar

from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.errors import BudgetError
from accountant.policy import Neighbours
from accountant.records import Decision
from accountant.views.datasets import Alert
from streams.broadcast import Subscription
from streams.client.async_accountant import CONNECT_S, AsyncAccountant
from streams.client.connect import connect_here
from streams.client.loop_thread import LoopThread
from streams.client.methods import refuse_old_close
from streams.client.notebooks.shown import client_html
from streams.client.owned.methods import Make, MakeOpen
from streams.client.owned.opened import was_open
from streams.client.patience import WAIT_S, Patience
from streams.client.reading.waited import WaitedReads
from streams.client.releases import Releases
from streams.client.reply import Reply
from streams.client.request_notes import NOT_SENT, noted
from streams.client.requests import (
    PreparedRequest,
    StatedClaim,
    Unanswered,
    Wanted,
    unanswered,
    undecided,
    words,
)
from streams.clock import Clock
from streams.embedded.service import EmbeddedService
from streams.errors import Unavailable
from streams.settings import Settings

T = TypeVar("T")
Given = ParamSpec("Given")


class Accountant(WaitedReads, Releases):
    """A ledger, for notebooks and scripts; connected once made, let go by `close`.

    The same as `AsyncAccountant` without an event loop. With a sqlite URL the ledger runs in
    this process, unless another process holds the file and answers at an address; clients of
    one process that open the same file share it. A file that is not there is made by the first
    opening of a dataset, and by nothing else.

    A fork inherits no client: it makes its own.

    Args: as those of `AsyncAccountant`.
    """

    _client: AsyncAccountant

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        analyst: str | None = None,
        via: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        wait: float = CONNECT_S,
    ) -> None:
        self._client = AsyncAccountant(
            url, token=token, analyst=analyst, via=via, settings=settings, clock=clock, wait=wait
        )
        self.analyst = self._client.analyst
        self.url = self._client.url
        self.via = self._client.via
        self.clock = self._client.clock
        self._portal: LoopThread | None = None
        self._starting = threading.Lock()
        self._connected = False
        here = connect_here(self._client.settings, self.clock, wait=wait)
        self._client.attach(here or self._call(self._client.connect_kafka()))
        self._connected = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Let go of the ledger; in a fork, of nothing."""
        if self._connected and self._client.is_own:
            self._connected = False
            self._call(self._client.disconnect())
        if self._portal is not None and self._client.is_own:
            self._portal.close()
            self._portal = None

    def _repr_html_(self) -> str:
        """Show the datasets in a notebook; only the address where they cannot be read."""
        try:
            return client_html(self._client.settings.url, self.datasets())
        except BudgetError as error:
            return escape(f"{self._client.settings.url}: {error}")

    def close(self, *dataset: object, **rest: object) -> None:
        """Let go of the ledger, as `disconnect`. A dataset is closed by `close_dataset`."""
        refuse_old_close(dataset, rest)
        self.disconnect()

    @property
    def shows_token(self) -> bool:
        """Whether there is a door that a token is shown to."""
        return self._client.shows_token

    def said(self, by: str | None, make: Make, wait: float) -> Decision:
        """Send the record that somebody makes; None for whom the door knows the client as."""
        if by is None:
            return self._call(self._client.said(None, make, wait))
        return self.decided(make(by), wait)

    def opened(self, by: str | None, make: MakeOpen, wait: float) -> Decision:
        """Open a dataset, or find it open under the same policy."""
        if by is None or self.shows_token:
            return self._call(self._client.opened(by, make, wait))
        call = make(by)
        decision = self.decided(call, wait)
        if was_open(decision):
            self._call(self._client.check_opened(call, decision, wait))
        return decision

    def decision(self, dataset: str, analyst: str, request_id: str) -> Decision | None:
        """Return the decision on a request of the last hour, None if it is not known.

        Older ones are in the log: `accountant log export --id`.
        """
        return self._call(self._client.decision(dataset, analyst, request_id))

    def cost(
        self,
        dataset: str,
        claim: str | Claim | StatedClaim | Mapping[str, Any],
        *,
        analyst: str | None = None,
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> Preview:
        """Return what a request would be told now: granted or not, its cost, what would be left.

        Nothing is written or charged. The arguments are those of `ask`; the role and the limits of
        the analyst count, where one is known.

        Raises: RequestInvalid: also where the dataset was never opened.
        """
        fields = {"analyst": analyst, "unit": unit, "via": via}
        asked = self._client.cost(dataset, claim, **fields, neighbours=neighbours, wait=wait)
        return self._call(asked)

    def requests(self, dataset: str, *, after: int = 0) -> Iterator[Decision]:
        """Yield the decisions on a dataset in the order of their numbers, to the last one.

        A decision without a number in the dataset, such as a repeat, is not among them.

        Args:
            after: the number of a decision in the dataset: those after it alone.
        Raises: Gone: the next one is in an archive. Unavailable: the index is behind; go on from
            the last one.
        """
        while found := self._call(self._client.page(dataset, after)):
            yield from found
            after = found[-1].sequence or after

    def events(self) -> Iterator[Decision]:
        """Yield decisions as they become visible, from now on.

        Through a gateway a stream that is cut goes on where it ended: nothing is lost or comes
        twice. In process, who reads too slowly loses the oldest.

        Raises: Unavailable: the gateway stays away. Gone: the stream ended so long ago that the
            rest is to be read with `requests`.
        """
        return self._iterate(self._client.events)

    def alerts(self) -> Iterator[Alert]:
        """Yield thresholds as they are crossed; `datasets` and `limits` say what was before."""
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
        with noted(call, NOT_SENT):
            service = self._client.look(make=call.opens)
        with noted(call):
            if not isinstance(service, EmbeddedService):
                return self._call(self._client.decided(call, wait))
            return self._in_process(service, call, wait)[0]

    def replied(self, wanted: Wanted, wait: float) -> Reply:
        """Ask, with the unit and neighbours of the dataset's policy where none are given."""
        return self.reply_to(self.prepare(wanted, wait), wait)

    def prepare(self, wanted: Wanted, wait: float) -> PreparedRequest:
        """Return the call by which a caller's wish is asked for.

        Raises: Unanswered: the dataset's policy is needed, and cannot be read in time.
        """
        with noted(wanted, NOT_SENT):
            if wanted.is_stated:
                return wanted.prepared()
            known = self._client.known_statement(wanted.dataset)
            if known is not None and wanted.analyst is not None:
                return wanted.prepared(*known)
            return self._call(self._client.prepare(wanted, wait))

    def ledger_id(self) -> str:
        """Return the random id of the ledger, empty where it is not known."""
        return self._call(self._client.ledger_id())

    def reply_to(self, call: PreparedRequest, wait: float) -> Reply:
        """Send a request until it is answered, the same bytes each time.

        Raises: Unanswered: it never was, or not in time.
        """
        with noted(call, NOT_SENT):
            service = self._client.look(make=call.opens)
        with noted(call):
            if not isinstance(service, EmbeddedService):
                return self._call(self._client.reply_to(call, wait))
            decision, own = self._in_process(service, call, wait)
            return Reply(decision, call.request_id, own_repeat=own)

    def _in_process(
        self, service: EmbeddedService, call: PreparedRequest, wait: float
    ) -> tuple[Decision, bool]:
        """Decide in this thread; tell also whether it is the repeat of a first one not found."""
        matching = self._client.matching
        try:
            decision = _decided_here(service, call, wait)
            if decision is None:
                raise undecided(call, wait)
            matching.check(call, decision)
        except Unanswered:
            matching.not_answered(call)
            raise
        if not call.is_own_repeat(decision):
            return decision, False
        first = service.find_sync(call.dataset, call.who, call.request_id)
        return (decision, True) if first is None else (matching.first(call, decision, first), False)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if not self._client.is_own:
            coroutine.close()
            self._client.check_process()
        with self._starting:  # two threads may be the first at once
            if self._portal is None:
                self._portal = LoopThread()
            portal = self._portal
        return portal.call(coroutine)


async def _next(events: AsyncIterator[T]) -> T:
    return await anext(events)


def _decided_here(ledger: EmbeddedService, call: PreparedRequest, wait: float) -> Decision | None:
    """Decide in this thread."""
    patience = Patience(wait)
    while True:
        try:
            return ledger.decide_sync(call.source, call.body, patience.left, checked=call.checked)
        except Unavailable as error:
            pause = patience.pause()
            if pause is None:
                raise unanswered(call, words(error)) from error
        time.sleep(pause)
