"""Sends a request until it is answered, with the same bytes at each attempt."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from accountant.display.other_filter import may_need_other_filter, other_filter_words
from accountant.errors import BudgetError, RequestInvalid
from accountant.records import Decision
from accountant.records.inputs import Undecodable
from accountant.records.outcomes import Reason
from streams.client.connection import AsyncConnection
from streams.client.lookups import unknown_dataset
from streams.client.reply import RefusalDetails, Reply
from streams.client.request_notes import NOT_SENT, note_request, noting_errors
from streams.client.requests import (
    PreparedRequest,
    RequestDraft,
    Unanswered,
    error_text,
    unanswered_error,
    undecided_error,
)
from streams.client.response_matcher import ResponseMatcher
from streams.client.retry import GRACE_S, Deadline
from streams.errors import Refused, Unavailable, Unreadable
from streams.service import Service

T = TypeVar("T")


class AsyncRequestSender:
    """Sends requests and admin requests, and compares each response with its request.

    Attributes:
        matching: remembers the requests.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.matching = ResponseMatcher()

    async def reply_to(self, call: PreparedRequest, wait: float) -> Reply:
        """Send a call until it is answered, with the same bytes at each attempt.

        Raises: Unanswered: there is no answer in time.
        """
        with noting_errors(call, NOT_SENT):
            service = await self._connection.reach_service(create=call.opens)
        with noting_errors(call):
            try:
                decision, record = await self._send_until_decided(service, call, wait)
                self.matching.check(call, decision)
            except Unanswered:
                self.matching.remember_unanswered(call)
                raise
            if not call.is_own_repeat(decision):
                more = await self._explain(call, decision)
                return Reply(decision, call.request_id, record=record, **more._asdict())
            first = await self._find_first_decision(call)
            if first is None:
                return Reply(decision, call.request_id, own_repeat=True, record=record)
            decision = self.matching.first(call, decision, first)
            return Reply(decision, call.request_id, record=first)

    async def _send_until_decided(
        self, service: Service, call: PreparedRequest, wait: float
    ) -> tuple[Decision, bytes | None]:
        """Return the decision on a call, and the bytes of its record where they are known."""
        deadline = Deadline(wait)
        trouble = "no response"
        always_answered = True  # every attempt so far was answered
        while True:
            try:
                answer = await self._connection.submit(service, call, deadline.remaining)
            except Unreadable as error:
                raise unanswered_error(call, error_text(error)) from error
            except (RequestInvalid, Undecodable, Refused) as error:
                if always_answered:
                    note_request(error, call, NOT_SENT)
                raise
            except TimeoutError:
                why = f"the ledger did not answer within {wait:g} s ({trouble})"
                raise unanswered_error(call, why) from None
            except Unavailable as error:
                always_answered = False
                trouble = error_text(error)
                pause = deadline.pause(error.after)
                if pause is None:
                    raise unanswered_error(call, trouble) from error
            else:
                if answer is None:
                    raise undecided_error(call, wait)
                return answer
            await self._connection.pause(pause)

    async def _explain(self, call: PreparedRequest, decision: Decision) -> RefusalDetails:
        """Read what explains a refusal: policy, limits, a similar name, or another filter."""
        if call.source != "requests":
            return RefusalDetails()
        with suppress(TimeoutError, BudgetError):
            if decision.reason is Reason.UNIT_MISMATCH:
                view = await self._connection.read(
                    lambda service: service.dataset(call.dataset), within=GRACE_S
                )
                return RefusalDetails(None if view is None else view.policy)
            if may_need_other_filter(decision):
                view = await self._connection.read(
                    lambda service: service.dataset(call.dataset), within=GRACE_S
                )
                words = "" if view is None else other_filter_words(decision, view.policy)
                if words:
                    return RefusalDetails(hint=words)
            if decision.reason is Reason.UNKNOWN_DATASET:
                unknown = await self._connection.read(
                    lambda service: unknown_dataset(service, call.dataset)
                )
                return RefusalDetails(hint=unknown.hint[:1].upper() + unknown.hint[1:])
            if decision.left_at:
                budget = await self._connection.read(
                    lambda service: service.budget_for(call.dataset, call.caller), within=GRACE_S
                )
                return RefusalDetails(levels=() if budget is None else budget.levels)
        return RefusalDetails()

    async def _find_first_decision(self, call: PreparedRequest) -> bytes | None:
        """Look up the first decision on a call that its own retry repeated; None if unknown."""
        try:
            return await self._connection.read(
                lambda service: service.find(call.dataset, call.caller, call.request_id),
                within=GRACE_S,
            )
        except (TimeoutError, Unavailable, Unreadable):
            return None

    async def look_up(
        self,
        read: Callable[[Service], Coroutine[Any, Any, T]],
        call: PreparedRequest | RequestDraft,
        wait: float,
    ) -> T:
        """Read what a call needs before it is sent, such as the unit; retry until the deadline.

        Raises: Unanswered: the read does not succeed in time.
        """
        deadline = Deadline(wait)
        while True:
            try:
                return await self._connection.read(read, within=deadline.remaining + GRACE_S)
            except TimeoutError:
                why = f"the ledger did not answer within {wait:g} s"
                raise unanswered_error(call, why) from None
            except Unavailable as error:
                pause = deadline.pause(error.after)
                if pause is None:
                    raise unanswered_error(call, error_text(error)) from error
            await self._connection.pause(pause)
