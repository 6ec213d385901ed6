"""Follows one partition's log, and has each of its questions finished."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Final, Literal, Protocol

from accountant.errors import BudgetError, LedgerFault
from accountant.partition import hash_of
from accountant.records import DECODE_ERRORS
from accountant.views.heads import ledger_of
from streams.answers.granted import GrantedQuestion, granted_question
from streams.answers.store import AnswerStore, LogPlace
from streams.answers.waiting import names_of
from streams.clock import steady
from streams.curator.counts import CuratorCounts
from streams.curator.sessions import Stopping
from streams.errors import JournalFault, Refused
from streams.service.ledger_service import LedgerService
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_MAX_OPEN: Final = 50_000
"""Questions in work at most: the follower waits for one to end before it reads on."""
MAX_OF_A_NAME: Final = 5_000
"""Questions of one name in work at most, so that no name keeps the follower from the others'. A
server refuses them earlier; what it has not seen is granted, and fails."""
_MOVE_S: Final = 30.0
"""Between two stores of the place: a new start reads again what came after it."""
_REREAD_S: Final = 10.0
"""Between two reads of a log that does not seem to grow."""
_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 30.0


class Finish(Protocol):
    """`QuestionRunner.finish`."""

    def __call__(self, question: GrantedQuestion, *, may_run: bool) -> Awaitable[None]: ...


class LogFollower:
    """Reads a partition's log from the stored place on, for ever.

    Args:
        finish: gives a grant its answer. It is called again until it returns, for each question
            in a task of its own, so that none waits for another one.
    """

    def __init__(
        self,
        service: LedgerService,
        store: AnswerStore,
        partition: int,
        finish: Finish,
        *,
        counts: CuratorCounts,
        stopping: asyncio.Event,
    ) -> None:
        self._service = service
        self._store = store
        self._partition = partition
        self._finish = finish
        self._counts = counts
        self._stopping = stopping
        self._begins = 0
        self._next = self._moved = LogPlace(0, "")
        self._moved_at = steady()
        self._open: dict[int, LogPlace] = {}
        self._room = asyncio.Semaphore(_MAX_OPEN)

    async def run(self) -> None:
        """Follow until the curator stops, and then wait for the questions that run.

        Raises: Refused: another curator has taken the store over. BudgetError: the log cannot be
            read by this version, or the ledger is closed.
        """
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            async with asyncio.TaskGroup() as questions:
                while not self._stopping.is_set():
                    try:
                        await self._follow(questions, stopped)
                    except JournalFault as error:
                        _log.warning("log_not_read", partition=self._partition, why=str(error))
                        await asyncio.sleep(_PAUSE_S)
        finally:
            stopped.cancel()

    async def _follow(
        self, questions: asyncio.TaskGroup, stopped: asyncio.Task[Literal[True]]
    ) -> None:
        """Take what the log has and gets, until the curator stops.

        An archived grant had its time: a ledger is archived while it is stopped, and what had no
        answer by then gets none.
        """
        begins = {self._partition: self._next.number}
        async with contextlib.aclosing(
            self._service.log.follow(begins, reread_s=_REREAD_S)
        ) as slices:
            while not self._stopping.is_set():
                coming = asyncio.ensure_future(anext(slices, None))
                try:
                    await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not coming.done():
                        coming.cancel()
                        await asyncio.wait({coming})
                if coming.cancelled():
                    return
                each = coming.result()
                if each is None:
                    raise LedgerFault("the ledger is closed")
                if each.first != self._next.number:
                    self._next = LogPlace(each.first, "")
                for value in each.values:
                    await self._take(value, questions)
                    if self._stopping.is_set():
                        break
                await self._move()

    async def open_log(self) -> None:
        """Bind the store to the log. Questions that a new store finds granted are not run.

        Raises: Refused: the store belongs to another ledger. JournalFault.
        """
        log = self._service.log
        (first,) = await log.read(0, 0, 1)
        last, _ = await log.last(self._partition)
        ledger = ledger_of(first) or hash_of(first)
        self._begins = await self._store.open_log(self._partition, ledger, last + 1)
        place = await self._store.place(self._partition)
        if place.number and not await log.has_decision(
            self._partition, place.number - 1, place.head
        ):
            # Decisions were lost and accepted as lost. The answers of those that are there again
            # are stored under their hashes, so that the whole log can be read again.
            _log.warning("log_has_another_branch", partition=self._partition, then="read again")
            place = LogPlace(0, "")
        self._next = self._moved = place

    async def _take(self, value: bytes, questions: asyncio.TaskGroup) -> None:
        number = self._next.number
        try:
            question = granted_question(self._partition, value)
        except (*DECODE_ERRORS, BudgetError) as error:
            raise BudgetError(f"decision {number} cannot be read: {error}") from error
        if question is not None:
            await self._room.acquire()
            self._open[number] = self._next
            may_run = number >= self._begins and self._has_room_for(question)
            self._counts.waiting.add(question)
            questions.create_task(self._until_finished(question, may_run=may_run))
        self._next = LogPlace(number + 1, hash_of(value))

    def _has_room_for(self, question: GrantedQuestion) -> bool:
        """Tell whether few enough questions of one name wait; say so in the log if not."""
        request, waiting = question.request, self._counts.waiting
        if max(map(waiting.count_of, names_of(request))) < MAX_OF_A_NAME:
            return True
        _log.error(
            "question_beyond_the_limit",
            grant=question.grant,
            dataset=request.dataset,
            analyst=request.analyst,
            then="it is not run",
        )
        return False

    async def _until_finished(self, question: GrantedQuestion, *, may_run: bool) -> None:
        pause, why = _PAUSE_S, ""
        while True:
            try:
                await self._finish(question, may_run=may_run)
            except JournalFault as error:
                if why != str(error):  # once: a dataset may be paused for days
                    why = str(error)
                    _log.warning("question_waits", grant=question.grant, why=why)
            except Stopping:
                break
            except Refused:
                raise  # such as another curator that has taken over the store
            except Exception as error:
                # A defect: it must not stop the others. Only the type, since a message may hold
                # data.
                _log.error("question_halted", grant=question.grant, error=type(error).__name__)
                pause = _MAX_PAUSE_S
            else:
                del self._open[question.number]
                self._counts.waiting.remove(question.grant)
                break
            if await self._stops_within(pause):
                break
            pause = min(2 * pause, _MAX_PAUSE_S)
        self._room.release()

    async def _stops_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _move(self) -> None:
        """Store the place before which every question is finished, now and then."""
        place = self._open[min(self._open)] if self._open else self._next
        if place == self._moved or steady() < self._moved_at + _MOVE_S:
            return
        try:
            await self._store.move(self._partition, place)
        except JournalFault:
            return
        self._moved, self._moved_at = place, steady()
