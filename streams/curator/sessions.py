"""The steps of a reservation that a curator takes: begin before it draws, settle after it.

A step is stored before it is sent, and sent again with the same bytes. So the ledger answers
`repeated` to a curator that has crashed, and to a second one: somebody may have drawn, and nobody
draws again. Only the life that made a `begin` knows, after `repeated`, that it has not drawn yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from accountant.members.pauses import pause_of_person
from accountant.records import Decision, decode_decision
from accountant.records.outcomes import Outcome, Reason
from accountant.records.requests import VERSION, Begin, Settle
from accountant.times import uuid7
from accountant.views.datasets import DatasetView
from streams.answers.granted import GrantedQuestion
from streams.answers.store import AnswerStore
from streams.clock import Clock
from streams.errors import Refused, Unavailable
from streams.service.ledger_service import LedgerService
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_WAIT_S: Final = 60.0
_PAUSE_S: Final = 1.0
_LAST_S: Final = 5.0
"""For the decision of a step that is under way when the curator stops."""
T = TypeVar("T")
_NOTHING_TO_SETTLE: Final = frozenset({Reason.NOT_OPEN, Reason.NOT_BEGUN})


class Stopping(Exception):
    """The curator stops: a grant gets its answer after the next start."""


class SessionSteps:
    """Begins and settles reservations for questions.

    Args:
        name: of the member with the role `curator`.
        stopping: set when the curator stops: no step waits for its decision much longer.
    """

    def __init__(
        self,
        service: LedgerService,
        store: AnswerStore,
        name: str,
        clock: Clock,
        *,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self._service = service
        self._store = store
        self._name = name
        self._clock = clock
        self._stopping = stopping or asyncio.Event()
        self._unrun: dict[str, bytes] = {}
        """By grant, the `begin` that this life has made, until its question may run or never may.

        A curator that restarts does not have it, nor does a second one.
        """

    async def may_begin(self, question: GrantedQuestion) -> bool:
        """Tell whether a `begin` is worth sending: not after the deadline of a paused one.

        Raises: Unavailable: its dataset is paused or suspended, or its analyst is paused.
        """
        request, grant = question.request, question.grant
        found = self._service.open_reservation(request.dataset, grant)
        # What this process knows may be behind the log that it follows, so only the ledger tells
        # that a reservation is not open any more.
        if found is not None and found.stage == "reserved":
            view = await self._service.dataset(request.dataset)
            if view is not None and self._is_stopped(view, request.analyst):
                if found.deadline <= self._clock.now():
                    return False
                raise _waits(request.dataset)
        return True

    def _is_stopped(self, view: DatasetView, analyst: str) -> bool:
        """Tell whether the ledger would refuse a `begin` now: each would be a decision for ever."""
        if view.state in {"paused", "suspended"}:
            return True
        names = (analyst, self._name) if view.person_pauses else ()
        rows = {name: self._service.member(view.dataset, name) for name in names}
        return any(pause_of_person(view.person_pauses, *each) for each in rows.items())

    async def begin(self, question: GrantedQuestion) -> bool:
        """Begin a reservation; tell whether its question may be drawn: at most once a life.

        Raises: Unavailable: among others, while the dataset is paused or suspended. Stopping: it is
            not decided. If the `begin` was sent, no later life draws, and all stays charged.
        """
        if not await self.may_begin(question):
            return False
        request, grant = question.request, question.grant
        own = self._unrun.setdefault(grant, self._new_begin(question))
        body = await self._store.put_step(question.partition, grant, "begin", own)
        _check_step(body, own, Begin)
        # One that was stored and not sent is sent by the next life, which draws then.
        self._check_not_stopping()
        decision = await self._decide(body)
        if _is_refused_for_now(decision):
            # An id has one decision, so another one asks again. It is not stored: a later life
            # that sends one more is refused, since the reservation has begun then.
            self._check_not_stopping()
            own = body = self._new_begin(question)
            decision = await self._decide(body)
            if _is_refused_for_now(decision):
                raise _waits(request.dataset)
        del self._unrun[grant]
        if _has_begun(decision, is_own=body == own):
            return True
        reason = None if decision.reason is None else decision.reason.value
        _log.warning(
            "question_not_begun",
            grant=grant,
            dataset=request.dataset,
            outcome=decision.outcome.value,
            reason=reason,
        )
        return False

    def _check_not_stopping(self) -> None:
        """Begin nothing once the curator stops. Raises: Stopping."""
        if self._stopping.is_set():
            raise Stopping

    def _new_begin(self, question: GrantedQuestion) -> bytes:
        request = question.request
        begin = Begin(
            VERSION, self._new_id(), request.analyst, request.dataset, question.grant, self._name
        )
        return msgspec.json.encode(begin)

    async def settle(self, question: GrantedQuestion, shown: str | None) -> None:
        """Settle a reservation that has begun, at the last level that its stored answer shows.

        One that is known to be over, such as after a restart, is not sent: its id may have expired.
        What is not known is sent, and the ledger refuses it.

        Args:
            shown: that level; None settles in full.
        Raises: Unavailable. Stopping: a later life sends the same step again.
        """
        request = question.request
        if self._is_over(question):
            return
        settle = Settle(
            VERSION,
            self._new_id(),
            request.analyst,
            request.dataset,
            question.grant,
            self._name,
            UNSET if shown is None else shown,
        )
        own = msgspec.json.encode(settle)
        body = await self._store.put_step(question.partition, question.grant, "settle", own)
        _check_step(body, own, Settle)
        decision = await self._decide(body)
        if _needs_another_id(decision):
            # For the same level. If the stored one has settled it, nothing is open.
            decision = await self._decide(msgspec.json.encode(settle))
        refused = decision.first or decision
        if refused.outcome is not Outcome.SETTLED and refused.reason not in _NOTHING_TO_SETTLE:
            _log.warning(
                "question_not_settled",
                grant=question.grant,
                dataset=request.dataset,
                outcome=refused.outcome.value,
                reason=None if refused.reason is None else refused.reason.value,
            )

    def _is_over(self, question: GrantedQuestion) -> bool:
        """Tell whether this process knows that a reservation was settled, voided, or has lapsed."""
        dataset = question.request.dataset
        # One that has not read the decision `reserved` yet knows no reservation of it either.
        if self._service.decided_at(dataset) <= question.decided_at:
            return False
        return self._service.open_reservation(dataset, question.grant) is None

    async def _decide(self, body: bytes) -> Decision:
        """Send the same bytes until they are decided.

        Raises: Stopping.
        """
        reported = ""
        while True:
            why, pause = f"no decision within {_WAIT_S:g} s", 0.0
            try:
                answer = await self._unless_stopped(
                    self._service.submit("requests", body, wait=_WAIT_S)
                )
                if answer.decision is not None:
                    return decode_decision(answer.decision)
            except Unavailable as error:
                why, pause = str(error), max(_PAUSE_S, error.after)
            if why != reported:
                reported = why
                _log.warning("step_waits", why=why, then="the same step is sent again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            if self._stopping.is_set():
                raise _cut()

    async def _unless_stopped(self, step: Coroutine[Any, Any, T]) -> T:
        """Await a step, and little longer once the curator stops.

        Raises: Stopping.
        """
        running = asyncio.ensure_future(step)
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({running}, timeout=_LAST_S)
            if running.done():
                return running.result()
            raise _cut()
        finally:
            running.cancel()
            stopped.cancel()

    def _new_id(self) -> str:
        return uuid7(self._clock.now(), os.urandom(10))


def _cut() -> Stopping:
    """Return the end of a step that is not decided, and say so in the log."""
    then = "the next start sends it again; a session that has begun fails, and is charged in full"
    _log.warning("step_cut", then=then)
    return Stopping()


def _check_step(body: bytes, own: bytes, kind: type[Begin] | type[Settle]) -> None:
    """Check that a stored step is what this process would send, but for its id and its name.

    Raises: Refused: somebody has changed the store.
    """
    try:
        found, due = (msgspec.json.decode(each, type=kind) for each in (body, own))
        names = {*due.__struct_fields__} - {"request_id", "by"}
        if any(getattr(found, name) != getattr(due, name) for name in names):
            raise ValueError
    except (ValueError, msgspec.MsgspecError):
        raise Refused(
            "a step in the store of answers is another one than this session takes: somebody has "
            "changed the store. Run `accountant audit`, and put the newest copy back"
        ) from None


def _has_begun(decision: Decision, *, is_own: bool) -> bool:
    """Tell whether a decision lets this life draw; `is_own`: it has made the `begin`, and waits."""
    if decision.outcome.is_repeat and is_own:
        return decision.first is not None and decision.first.outcome is Outcome.BEGUN
    return decision.outcome is Outcome.BEGUN


def _needs_another_id(decision: Decision) -> bool:
    """Tell whether a settlement's id is too old, or was refused before its reservation began."""
    if decision.outcome.is_repeat and decision.first is not None:
        return decision.first.reason is Reason.NOT_BEGUN
    return decision.outcome is Outcome.EXPIRED


def _is_refused_for_now(decision: Decision) -> bool:
    """Tell whether a `begin` was refused, now or at first, by what an owner can undo."""
    refused = decision.first or decision
    return refused.reason in {Reason.PAUSED, Reason.SUSPENDED, Reason.PERSON_PAUSED}


def _waits(dataset: str) -> Unavailable:
    return Unavailable(
        f"dataset {dataset} is paused or suspended, or its analyst is: the session waits"
    )
