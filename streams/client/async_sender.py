"""`AsyncRequestSender`: a call is sent until it is answered, the same bytes each time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from accountant.errors import RequestInvalid
from accountant.records import Decision
from accountant.records.inputs import Undecodable
from streams.client.connection import AsyncConnection
from streams.client.reply import Reply
from streams.client.request_notes import NOT_SENT, note_request, noted
from streams.client.requests import (
    PreparedRequest,
    RequestDraft,
    Unanswered,
    unanswered,
    undecided,
    words,
)
from streams.client.response_matcher import Matching
from streams.client.retry import GRACE_S, Deadline
from streams.errors import Refused, Unavailable, Unreadable
from streams.service import Service

T = TypeVar("T")


class AsyncRequestSender:
    """Sends requests and owners' records, and compares each answer with its question.

    Attributes:
        matching: what it remembers of its questions.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.matching = Matching()

    async def reply_to(self, call: PreparedRequest, wait: float) -> Reply:
        """Send a call until it is answered, the same bytes each time.

        Raises: Unanswered: it never was, or not in time.
        """
        with noted(call, NOT_SENT):
            service = await self._connection.reached(make=call.opens)
        with noted(call):
            try:
                decision, record = await self._decided(service, call, wait)
                self.matching.check(call, decision)
            except Unanswered:
                self.matching.not_answered(call)
                raise
            if not call.is_own_repeat(decision):
                return Reply(decision, call.request_id, record=record)
            first = await self._first(call)
            if first is None:
                return Reply(decision, call.request_id, own_repeat=True, record=record)
            decision = self.matching.first(call, decision, first)
            return Reply(decision, call.request_id, record=first)

    async def _decided(
        self, service: Service, call: PreparedRequest, wait: float
    ) -> tuple[Decision, bytes | None]:
        """Return the decision on a call, with the log's record where its bytes are known."""
        deadline = Deadline(wait)
        trouble = "nothing was heard"
        heard = True  # no attempt has ended without an answer
        while True:
            try:
                answer = await self._connection.submit(service, call, deadline.left)
            except Unreadable as error:
                raise unanswered(call, words(error)) from error
            except (RequestInvalid, Undecodable, Refused) as error:
                if heard:
                    note_request(error, call, NOT_SENT)
                raise
            except TimeoutError:
                why = f"the ledger does not answer within {wait:g} s: {trouble}"
                raise unanswered(call, why) from None
            except Unavailable as error:
                heard = False
                trouble = words(error)
                pause = deadline.pause(error.after)
                if pause is None:
                    raise unanswered(call, trouble) from error
            else:
                if answer is None:
                    raise undecided(call, wait)
                return answer
            await self._connection.pause(pause)

    async def _first(self, call: PreparedRequest) -> bytes | None:
        """Return the first decision on a call that is its own repeat, None if it is not known."""
        try:
            return await self._connection.read(
                lambda service: service.find(call.dataset, call.who, call.request_id),
                within=GRACE_S,
            )
        except (TimeoutError, Unavailable, Unreadable):
            return None

    async def look_up(
        self,
        look: Callable[[Service], Coroutine[Any, Any, T]],
        call: PreparedRequest | RequestDraft,
        wait: float,
    ) -> T:
        """Return what a call needs to know before it is sent, asking until it is known.

        Raises: Unanswered: it cannot be read in time.
        """
        deadline = Deadline(wait)
        while True:
            try:
                return await self._connection.read(look, within=deadline.left + GRACE_S)
            except TimeoutError:
                why = f"the ledger does not answer within {wait:g} s: nothing was heard"
                raise unanswered(call, why) from None
            except Unavailable as error:
                pause = deadline.pause(error.after)
                if pause is None:
                    raise unanswered(call, words(error)) from error
            await self._connection.pause(pause)
