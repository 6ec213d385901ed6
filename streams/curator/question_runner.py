"""Gives one grant its answer: runs the question, unless it has run, and settles."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

from msgspec import UNSET

from accountant.questions import Schema
from streams.answers.granted import GrantedQuestion
from streams.answers.store import AnswerStore, NewAnswer, StoredAnswer
from streams.clock import steady
from streams.curator.answering import Answering, ClaimDiffers, OpenQuestion
from streams.curator.attempts import Attempts
from streams.curator.counts import CuratorCounts
from streams.curator.draw_guard import DrawGuard, NotDrawn
from streams.curator.publisher import AnswerPublisher
from streams.curator.sessions import SessionSteps, Stopping
from streams.curator.source_retries import SourceRetries
from streams.curator.turns import Ended, Turns
from streams.errors import Unavailable
from streams.service.ledger_service import LedgerService
from streams.sources import SourceAway
from streams.sources.source_access import SourceAccess, SourceReader
from streams.sources.source_states import SourceStates
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_BEGIN_S: Final = 30.0
"""The longest wait within a turn for the decision on a `begin`."""
_LOOK_S: Final = 1.0
"""Between two looks whether a question that waits for its source was ended."""
_INTERRUPTIONS: Final = 60
_PAUSE_S: Final = 0.05
T = TypeVar("T")


class QuestionRunner:
    """Runs the questions of a curator, a few at a time, and in turns.

    Args:
        access: whose source a question may read.
        threads: where the data are read.
        turns: of the questions that run at the same time.
        turn_seconds: longest time of one question, and of the tries to open its source.
        states: which questions a source cannot answer; None compares nothing.
    """

    def __init__(
        self,
        service: LedgerService,
        store: AnswerStore,
        answering: Answering,
        access: SourceAccess,
        publisher: AnswerPublisher,
        steps: SessionSteps,
        threads: Executor,
        *,
        turns: Turns,
        turn_seconds: float,
        counts: CuratorCounts,
        stopping: asyncio.Event,
        states: SourceStates | None = None,
    ) -> None:
        self._service = service
        self._store = store
        self._answering = answering
        self._access = access
        self._publisher = publisher
        self._steps = steps
        self._attempts = Attempts(store)
        self._retries = SourceRetries()
        self._begun = set[str]()
        """Grants whose reservation this life has begun, and whose question may be drawn."""
        self._threads = threads
        self._turns = turns
        self._turn_seconds = turn_seconds
        self._counts = counts
        self._stopping = stopping
        self._states = states
        self._cutting = asyncio.Event()
        self._reading = dict[Future[Any], DrawGuard]()

    async def finish(self, question: GrantedQuestion, *, may_run: bool) -> None:
        """Give a grant its answer, unless it has one, and settle its reservation.

        Args:
            may_run: False of a grant that an earlier store may have answered.
        Raises: JournalFault: the ledger or the store does not answer; call it again. Stopping.
        """
        stored = await self._store.get(question.grant)
        if stored is None:
            stored = await (self._run(question) if may_run else self._fail(question))
        if question.is_reserved:
            # By what is stored, and so shown: another life or another curator may have drawn it.
            await self._steps.settle(question, self._answering.shown(stored.value))

    async def _run(self, question: GrantedQuestion) -> StoredAnswer:
        try:
            return await self._run_in_turn(question)
        except Ended:
            self._counts.ended += 1
            _log.warning(
                "question_ended",
                grant=question.grant,
                dataset=question.request.dataset,
                analyst=question.request.analyst,
                then="it failed, and stays charged",
            )
            return await self._fail(question)
        except NotDrawn:
            has_begun = question.grant in self._begun
            _log.warning(
                "question_cut",
                grant=question.grant,
                dataset=question.request.dataset,
                analyst=question.request.analyst,
                then="it failed, and is charged in full" if has_begun else "it runs again",
            )
            if has_begun:
                return await self._fail(question)
            raise Stopping from None

    def cut(self) -> None:
        """Cut what runs and is not drawn: it runs again, but for sessions that have begun."""
        self._cutting.set()

    async def take_back(self) -> None:
        """Take back the attempts that have not drawn. Call it at the end. Raises: Unavailable."""
        await self._attempts.take_all_back()

    async def end_readings(self) -> None:
        """End the readings that were cut, so that the process can end; not for ever."""
        # Between two statements an interruption is lost.
        for _ in range(_INTERRUPTIONS):
            if not self._reading:
                break
            for guard in [*self._reading.values()]:
                guard.interrupt()
            await asyncio.sleep(_PAUSE_S)

    async def _run_in_turn(self, question: GrantedQuestion) -> StoredAnswer:
        """Store an answer that nobody has seen, or that there is none.

        A source that is away is tried again until the question's time is over: that of one turn,
        from its first try on. Meanwhile the question has no place, and no attempt.

        Raises: Ended: an owner did not want to wait for it. NotDrawn: it was cut. Stopping.
            Unavailable.
        """
        view = await self._service.dataset(question.request.dataset)
        schema = view.schema if view is not None else UNSET
        if view is None or schema is UNSET:
            raise Unavailable("the view of the dataset is behind its log")
        reader = SourceReader.of(view, schema)
        until: float | None = None
        while True:
            try:
                return await self._try(question, reader, schema)
            except SourceAway:
                self._retries.note_away(schema)
                await self._attempts.take_back(question)
            if until is None:
                until = steady() + self._turn_seconds
                _log.warning(
                    "question_waits_for_its_source",
                    grant=question.grant,
                    dataset=reader.dataset,
                    source=reader.source,
                )
            if not await self._wait_for_source(question, schema, until):
                _log.error("question_failed", grant=question.grant, error=SourceAway.__name__)
                return await self._fail(question)

    async def _wait_for_source(
        self, question: GrantedQuestion, schema: Schema, until: float
    ) -> bool:
        """Wait for another try; False once the question's time is over. Raises: Stopping. Ended."""
        while True:
            if self._stopping.is_set():
                raise Stopping
            if self._counts.waiting.is_ended(question.grant):
                raise Ended
            if (left := until - steady()) <= 0:
                return False
            if not (pause := self._retries.seconds_left(schema)):
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause, left, _LOOK_S)):
                    await self._stopping.wait()

    async def _try(
        self, question: GrantedQuestion, reader: SourceReader, schema: Schema
    ) -> StoredAnswer:
        """Run a question, and store what came of it.

        Raises: SourceAway, NotDrawn: nothing was drawn. Ended. Stopping. Unavailable.
        """
        async with self._place(question):
            rule = self._access.generation
            is_refused = await self._is_refused(question, reader, schema)
            may_run = not is_refused and await self._may_run(question)
            value = await self._answer(question, schema, rule) if may_run else None
        # Outside of the place: an answer waits for the tick.
        if may_run or is_refused or question.is_reserved:
            return await self._publish(question, value)
        self._counts.waiting.wait(question.grant)
        async with self._attempts.again(question) as may_run:
            async with self._place(question):
                rule = self._access.generation
                refused = not may_run or await self._is_refused(question, reader, schema)
                value = None if refused else await self._answer(question, schema, rule)
            return await self._publish(question, value)

    async def _may_run(self, question: GrantedQuestion) -> bool:
        """Tell whether a question may be opened now. Raises: Unavailable."""
        if question.is_reserved:
            return await self._steps.may_begin(question)
        return await self._attempts.is_first(question)

    async def _answer(self, question: GrantedQuestion, schema: Schema, rule: int) -> bytes | None:
        """Return an answer, None if there is none.

        A session begins once its source is open: one that is away, or that cannot be read, costs
        nothing. It does not wait for what its filter decides, which the time of its `begin` would
        tell.

        Args:
            rule: the generation of the rule of access by which the question may read.
        Raises: SourceAway, NotDrawn: nothing was drawn. Unavailable. Stopping.
        """
        loop, guard = asyncio.get_running_loop(), DrawGuard()
        until = loop.time() + self._turn_seconds
        opening = self._threads.submit(self._answering.open, question, schema, guard)
        try:
            opened = await self._result(question, opening, until, guard)
            if opened is None:
                return None
            self._retries.note_there(schema)
            if self._access.generation != rule:
                raise SourceAway(schema.source.name)  # by another rule it may not read this
            begun = loop.time()
            if question.is_reserved and not await self._begin(question):
                return None
            until += loop.time() - begun
            return await self._draw(question, opened, until, guard)
        finally:
            opening.add_done_callback(_close)
            if not guard.cut():  # its draw is under way, or done
                self._attempts.use_up(question)

    async def _begin(self, question: GrantedQuestion) -> bool:
        """Begin a reservation; tell whether its question may be drawn. Raises: Unavailable."""
        if question.grant in self._begun:
            return True
        try:
            async with asyncio.timeout(_BEGIN_S):
                may_draw = await self._steps.begin(question)  # it bounds a session to one run
        except TimeoutError as error:
            # Others have their turn meanwhile. The same `begin` is sent again.
            raise Unavailable(f"no decision on the begin within {_BEGIN_S:g} s") from error
        if may_draw:
            self._begun.add(question.grant)
        return may_draw

    async def _draw(
        self, question: GrantedQuestion, opened: OpenQuestion, until: float, guard: DrawGuard
    ) -> bytes | None:
        """Draw an answer, None if that fails. Raises: SourceAway, NotDrawn: nothing was drawn."""
        has_begun = question.grant in self._begun
        self._begun.discard(question.grant)
        try:
            return await self._result(question, self._threads.submit(opened.draw), until, guard)
        except (SourceAway, NotDrawn):
            if has_begun:
                self._begun.add(question.grant)
            raise

    async def _result(
        self, question: GrantedQuestion, work: Future[T], until: float, guard: DrawGuard
    ) -> T | None:
        """Return what comes of work in a thread, None if it fails. Raises: SourceAway, NotDrawn."""
        self._reading[work] = guard
        work.add_done_callback(lambda ended: self._reading.pop(ended, None))
        try:
            async with asyncio.timeout_at(until):
                return await self._unless_cut(asyncio.wrap_future(work), guard)
        except (SourceAway, NotDrawn):
            raise
        except ClaimDiffers:
            self._counts.claim_differs += 1
            _log.error("question_claim_differs", grant=question.grant, then="it is not run")
        except Exception as error:
            # Only the type: a message may hold data.
            _log.error("question_failed", grant=question.grant, error=type(error).__name__)
        return None

    async def _unless_cut(self, running: asyncio.Future[T], guard: DrawGuard) -> T:
        """Await work, unless it is cut before an answer is drawn. Raises: NotDrawn."""
        cutting = asyncio.ensure_future(self._cutting.wait())
        either: set[asyncio.Future[Any]] = {running, cutting}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and guard.cut():
                raise NotDrawn
            return await running
        finally:
            cutting.cancel()
            running.cancel()  # nobody reports what a thread raises later: it may hold data

    async def _is_refused(
        self, question: GrantedQuestion, reader: SourceReader, schema: Schema
    ) -> bool:
        """Tell whether a question's source may not or cannot answer it; say so in the log.

        A record that no server has checked may be granted: the ledger knows of no source.

        Raises: SourceAway: no source has its name. Unavailable.
        """
        if not self._access.has(reader.source):
            raise SourceAway(reader.source)
        refused = await self._access.refusal(self._service, reader)
        if refused is None:
            return await self._is_lacking(question, schema)
        _log.error(
            "question_on_another_source",
            grant=question.grant,
            dataset=reader.dataset,
            source=reader.source,
            why=refused.what,
        )
        return True

    async def _is_lacking(self, question: GrantedQuestion, schema: Schema) -> bool:
        """Tell whether a source lacks what a question needs, or answers nobody; log why.

        Raises: SourceAway: it is not in the file of sources, or it is away and was never confirmed.
        """
        if self._states is None:
            return False
        asked = question.content.question
        refused = await asyncio.to_thread(self._states.refusal, asked, schema)
        if refused is None or refused.kind == "away":  # then the reading says what is wrong
            return False
        if refused.kind in {"absent", "unknown"}:
            raise SourceAway(schema.source.name)
        _log.error(
            "question_on_a_source_that_lacks_it",
            grant=question.grant,
            dataset=question.request.dataset,
            source=schema.source.name,
            why=refused.cause,
        )
        return True

    @contextlib.asynccontextmanager
    async def _place(self, question: GrantedQuestion) -> AsyncIterator[None]:
        """Wait for a turn among the questions that run.

        Raises: Stopping. Ended.
        """
        waiting, request = self._counts.waiting, question.request
        engine = request.via if isinstance(request.via, str) else None
        async with self._turns.place(request.dataset, request.analyst, engine=engine):
            if self._stopping.is_set():
                raise Stopping
            if not waiting.start(question.grant):
                raise Ended
            try:
                yield
            except BaseException:
                waiting.wait(question.grant)
                raise

    async def _fail(self, question: GrantedQuestion) -> StoredAnswer:
        return await self._publish(question, None)

    async def _publish(self, question: GrantedQuestion, value: bytes | None) -> StoredAnswer:
        """Store an answer, None for one that failed; return what is stored."""
        answer = _new_answer(question, value or self._answering.failed(question))
        stored = await self._publisher.publish(answer)
        self._attempts.use_up(question)
        self._begun.discard(question.grant)
        self._counts.count(failed=self._answering.is_failed(stored.value))
        return stored


def _close(opening: Future[OpenQuestion]) -> None:
    """Close what was opened, and not drawn; also where it was opened too late."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _new_answer(question: GrantedQuestion, value: bytes) -> NewAnswer:
    request = question.request
    return NewAnswer(
        grant=question.grant,
        partition=question.partition,
        dataset=request.dataset,
        analyst=request.analyst,
        request_id=request.request_id,
        value=value,
    )
