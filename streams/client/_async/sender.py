"""Sends a request until it is answered, with the same bytes at each attempt."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from accountant.display.current_dataset import needs_current
from accountant.display.other_filter import may_need_other_filter, other_filter_words
from accountant.display.teams import notes_of_limit
from accountant.display.texts import capital
from accountant.errors import BudgetError, RequestInvalid
from accountant.policy import Access
from accountant.records import Decision
from accountant.records.inputs import Undecodable, check
from accountant.records.outcomes import Reason
from accountant.records.parts import deciding_part, parts_of
from accountant.records.requests import Open, SetLimit
from accountant.views.confirmations import OfPeople
from streams.client.connection.confirm import check_confirmed
from streams.client.connection.connect import NoSuchLedger
from streams.client.connection.connection import AsyncConnection, Outcome
from streams.client.connection.lookups import (
    UnitAndNeighbours,
    current_dataset,
    get_me,
    missing_fields,
    own_name,
    unknown_dataset,
)
from streams.client.connection.retry import GRACE_S, Deadline
from streams.client.requests.admin_requests import (
    AdminRequest,
    check_same_opening,
    is_already_open,
)
from streams.client.requests.request_notes import (
    DECIDED,
    IN_DOUBT,
    known_unsent,
    note_request,
    noting_errors,
    own_copy,
)
from streams.client.requests.requests import (
    PreparedRequest,
    RequestDraft,
    Unanswered,
    ask_arguments,
    error_text,
    prepare_request_body,
    unanswered_error,
    undecided_error,
)
from streams.client.requests.response_matcher import ResponseMatcher
from streams.errors import AccountantWarning, Refused, Unavailable, Unreadable
from streams.replies.reply import RefusalDetails, Reply
from streams.service.ledger_service import Service

T = TypeVar("T")


class AsyncRequestSender:
    """Completes and sends requests and admin requests, and compares each response with its request.

    Attributes:
        matching: remembers the requests.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._unit_and_neighbours: dict[str, UnitAndNeighbours] = {}
        self.matching = ResponseMatcher()

    async def prepare(self, draft: RequestDraft, wait: float) -> PreparedRequest:
        """Complete a request with the policy's unit and neighbours, and the token's name.

        Raises: Unanswered: a missing field cannot be read in time.
        """
        complete = await self.complete(draft, wait)
        with noting_errors(complete, known_unsent(complete)):
            return complete.prepare()

    async def complete(self, draft: RequestDraft, wait: float) -> RequestDraft:
        """Return a request with the policy's unit and neighbours, and the token's name.

        Those of a dataset that does not exist stay None.

        Raises: Unanswered: a missing field cannot be read in time.
        """
        if draft.is_complete:
            return draft
        analyst, known = draft.analyst, self._unit_and_neighbours.get(draft.dataset)
        if known is None or analyst is None:
            with noting_errors(draft, known_unsent(draft)):
                analyst, known = await self.look_up(
                    lambda service: missing_fields(service, draft, known), draft, wait
                )
            if known is not None:
                self._unit_and_neighbours[draft.dataset] = known
        unit, neighbours = known or (None, None)
        return draft._replace(
            analyst=analyst,
            unit=draft.unit or unit,
            neighbours=draft.neighbours or neighbours,
        )

    async def prepare_many(
        self,
        batch: Sequence[Mapping[str, Any] | bytes],
        draft_of: Callable[..., RequestDraft],
        wait: float,
    ) -> list[PreparedRequest | BudgetError]:
        """Return the checked requests, with the error in the place of one that cannot be sent.

        Args:
            draft_of: makes a request from the arguments of `ask`.
        """
        calls = list[PreparedRequest | BudgetError]()
        failed: Unanswered | None = None  # look nothing up again while the ledger is away
        for request in batch:
            try:
                if isinstance(request, bytes):
                    calls.append(prepare_request_body(request))
                    continue
                draft = draft_of(**ask_arguments(request))
                if failed is not None:
                    raise unanswered_error(draft, failed.why)
                calls.append(await self.prepare(draft, wait))
            except Unanswered as error:
                failed = error
                calls.append(error)
            except BudgetError as error:
                calls.append(error)
        return calls

    async def reply_to(self, call: PreparedRequest, wait: float) -> Reply:
        """Send a call until it is answered, with the same bytes at each attempt.

        Raises: Unanswered: there is no answer in time.
        """
        with noting_errors(call, known_unsent(call)):
            service = await self._connection.reach_service(create=call.opens)
        with noting_errors(call):
            try:
                decision, record = await self._send_until_decided(service, call, wait)
                self.matching.check(call, decision)
            except Unanswered:
                self.matching.remember_unanswered(call)
                raise
            if not call.is_own_repeat(decision):
                deciding = deciding_part(decision, parts_of(decision))
                more = await self._explain(call, deciding)
                return Reply(decision, call.request_id, record=record, **more._asdict())
            return await self._first_reply(call, decision, record)

    async def submit(self, call: PreparedRequest, wait: float) -> Decision:
        """Send a call as `reply_to`, and return its decision alone.

        Raises: Unconfirmed: the call is probably a slip, and not `new`.
        """
        await self._check_confirmed(call, wait)
        reply = await self.reply_to(call, wait)
        return reply.whole

    async def _check_confirmed(self, call: PreparedRequest, wait: float) -> None:
        if call.new or call.source != "admin":
            return
        body = (check("admin", call.body) if call.checked is None else call.checked).body
        if not isinstance(body, Open | OfPeople):
            return
        # An opening creates the ledger.
        with noting_errors(call, known_unsent(call)), suppress(NoSuchLedger):
            await self.look_up(lambda service: check_confirmed(service, body), call, wait)

    async def send_record(self, record: AdminRequest, call: PreparedRequest) -> Decision:
        """Complete an admin request with the token's name, and return its decision.

        Args:
            call: the request as far as it is known.

        Raises:
            PolicyDiffers: the dataset is open under another policy.
            Unconfirmed: it is probably a slip, and not `new`.
        """
        context, wait = record.context, record.context.wait
        access: Access | None = None
        with noting_errors(call, known_unsent(call)):
            if call.opens and self._connection.token_source:
                me = await self.look_up(get_me, call, wait)
                access = "members" if me.authentication else None
            if context.by is None:
                by = await self.look_up(lambda service: own_name(service, "by"), call, wait)
                context = context._replace(by=by)
            if access is not None or context is not record.context:
                call = record._replace(context=context).prepare(access=access)
        if record.kind == "limit" and not call.new:
            # Before it is sent: where warnings are errors, nothing is set.
            for note in await self._notes_of_limit(call):
                stop = "" if note.endswith("?") else "."
                warnings.warn(f"{note}{stop} Pass new=True if it is meant", AccountantWarning, 4)
        decision = await self.submit(call, wait)
        if call.opens and is_already_open(decision):
            with noting_errors(call, DECIDED):
                view = await self.look_up(lambda service: service.dataset(call.dataset), call, wait)
                if view is not None:
                    check_same_opening(call, decision, view)
        return decision

    async def _notes_of_limit(self, call: PreparedRequest) -> list[str]:
        """Return that the team of a new limit has no members; none where they are not known."""
        body = (check("admin", call.body) if call.checked is None else call.checked).body
        if not isinstance(body, SetLimit) or body.scope not in {"team", "each"} or body.removes:
            return []
        with suppress(TimeoutError, BudgetError):
            members = await self._connection.read(
                lambda service: service.members(body.dataset), within=GRACE_S
            )
            return notes_of_limit(members, str(body.name))
        return []

    async def replies_to(
        self, calls: Sequence[PreparedRequest | BudgetError], wait: float
    ) -> list[Reply | BudgetError]:
        """Send at most `BATCH_LINES` calls together, until each is answered.

        Each attempt has the same bytes, and only the calls without an answer so far.

        Args:
            calls: an error stands for a call that cannot be sent; it is returned in its place.
        Returns: a reply or an error for each call, in order.
        """
        results = dict[int, Reply | BudgetError]()
        sent = dict[int, PreparedRequest]()
        for i, call in enumerate(calls):
            if isinstance(call, BudgetError):
                results[i] = call
            else:
                sent[i] = call
        deadline, in_doubt = Deadline(wait), set[int]()
        service = await self._connection.reach_service() if sent else None
        while service is not None and sent:
            outcomes = await self._connection.submit_many(
                service, list(sent.values()), deadline.remaining
            )
            again = dict[int, Unavailable]()
            for (i, call), outcome in zip(sent.items(), outcomes, strict=True):
                if isinstance(outcome, Unavailable):
                    again[i] = outcome
                else:
                    known = IN_DOUBT if i in in_doubt else known_unsent(call, rejected=True)
                    results[i] = await self._reply_or_error(call, outcome, wait, known)
            in_doubt |= again.keys()
            sent = {i: sent[i] for i in again}
            pause = deadline.pause(max((error.after for error in again.values()), default=0.0))
            if pause is None:
                for i, error in again.items():
                    self.matching.remember_unanswered(sent[i])
                    results[i] = unanswered_error(sent[i], error_text(error))
                break
            if sent:
                await self._connection.pause(pause)
        return [results[i] for i in range(len(calls))]

    async def _reply_or_error(
        self, call: PreparedRequest, outcome: Outcome, wait: float, known: str
    ) -> Reply | BudgetError:
        """Return the reply to one call of a batch, or its error, with the call's id.

        Args:
            known: what is known of the charge if the server rejects the call.
        """
        try:
            if isinstance(outcome, Unreadable):
                raise unanswered_error(call, error_text(outcome)) from outcome
            if isinstance(outcome, BudgetError):
                own = own_copy(outcome)  # all lines of a failed batch have one error
                note_request(own, call, known)
                return own
            if outcome is None:
                raise undecided_error(call, wait)
            decision, record = outcome
            self.matching.check(call, decision)
            if call.is_own_repeat(decision):
                return await self._first_reply(call, decision, record)
        except Unanswered as error:
            self.matching.remember_unanswered(call)
            note_request(error, call, IN_DOUBT)
            return error
        return Reply(decision, call.request_id, record=record)

    async def _first_reply(
        self, call: PreparedRequest, repeat: Decision, record: bytes | None
    ) -> Reply:
        """Return the first decision on a call that its own retry repeated, if it is found."""
        first = await self._find_first_decision(call)
        if first is None:
            return Reply(repeat, call.request_id, own_repeat=True, record=record)
        decision = self.matching.first(call, repeat, first)
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
                    note_request(error, call, known_unsent(call, rejected=True))
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
        """Read what explains a refusal: the dataset, limits, a similar name, or another filter."""
        found = RefusalDetails()
        if call.source != "requests":
            return found
        dataset = decision.refused_by or call.dataset
        with suppress(TimeoutError, BudgetError):
            if needs_current(decision):
                found = found._replace(
                    current=await self._connection.read(
                        lambda service: current_dataset(service, dataset), within=GRACE_S
                    )
                )
            if found.current is not None and may_need_other_filter(decision):
                found = found._replace(hint=other_filter_words(decision, found.current.view.policy))
            if decision.reason is Reason.UNKNOWN_DATASET:
                unknown = await self._connection.read(
                    lambda service: unknown_dataset(service, dataset)
                )
                return found._replace(hint=capital(unknown.hint))
            if decision.left_at:
                budget = await self._connection.read(
                    lambda service: service.budget_for(dataset, call.caller), within=GRACE_S
                )
                return found._replace(levels=() if budget is None else budget.levels)
        return found

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
