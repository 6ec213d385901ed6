"""Follows the grants of a ledger, runs each question once, and publishes its answer.

    the log              curator                                     the store
    -------              -------                                     ---------
    granted  --------->  draw, in a thread ---- at a tick ------->   the first answer wins
    reserved --------->  begin, draw ---------- at a tick ------->   the first answer wins
                         settle at what the stored answer shows

It is a client of the ledger, and needs nothing after a crash but log and store: see
docs/decisions/0084-the-first-stored-answer-wins.md.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from streams.answers.published_states import StatePublisher
from streams.answers.store import AnswerStore
from streams.answers.waiting import QuestionQueue
from streams.clock import Clock, SystemClock
from streams.curator.answering import Answering
from streams.curator.counts import CuratorCounts
from streams.curator.log_follower import LogFollower
from streams.curator.noted_store import NotedStore
from streams.curator.publisher import AnswerPublisher
from streams.curator.question_runner import QuestionRunner
from streams.curator.read_ahead import ReadAhead, ReadsAhead
from streams.curator.sessions import SessionSteps
from streams.curator.source_search import SourceSearch
from streams.curator.source_watch import SourceWatch
from streams.curator.state_watch import StateWatch
from streams.curator.turns import Turns
from streams.errors import JournalFault, Refused, Unavailable
from streams.service.ledger_service import LedgerService
from streams.sources.source_access import SourceAccess
from streams.sources.source_file import SourceFile
from streams.sources.source_states import SourceStates
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_SPARE_THREADS: Final = 16
"""For questions whose time is over, and whose thread does not end: such as at a disk that hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratorOptions:
    """How a curator works.

    Attributes:
        name: of the member with the role `curator`.
        tick: seconds between two moments at which answers become readable.
        turn_seconds: longest time of one question; a source's own limit is below it.
        at_once: questions that run at the same time.
        stop_seconds: longest wait for what runs at the end, and then again for what was cut.
    """

    name: str = "curator"
    tick: float = 1.0
    turn_seconds: float = 900.0
    at_once: int = 2
    stop_seconds: float = 5.0


class Curator:
    """Runs the questions of a ledger. Use it in one event loop; it runs once.

    Args:
        service: whose log it follows.
        store: it alone decides what the answer of a grant is. It stays open.
        access: whose source a question may read. Any other question fails without a look at it.
        file: of the sources, to be read again when it changes; its rule is `access`.
        read_ahead: reads sources before anybody asks; None reads them when somebody does.
        states: compares schemas with their sources; None compares nothing.
        publisher: of what they say, for servers without data; None where there are none.
    """

    def __init__(
        self,
        service: LedgerService,
        store: AnswerStore,
        answering: Answering,
        options: CuratorOptions,
        *,
        access: SourceAccess,
        file: SourceFile | None = None,
        read_ahead: ReadsAhead | None = None,
        states: SourceStates | None = None,
        publisher: StatePublisher | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.counts = CuratorCounts()
        self.states = states
        store = NotedStore(store, self.counts.not_stored)
        self._service = service
        self._access = access
        self._stopping = asyncio.Event()
        self._stop_seconds = options.stop_seconds
        self._threads = ThreadPoolExecutor(options.at_once + _SPARE_THREADS, "question")
        self._turns = Turns(options.at_once)
        self._publisher = AnswerPublisher(store, tick=options.tick, clock=clock)
        self._runner = runner = QuestionRunner(
            service,
            store,
            answering,
            access,
            self._publisher,
            SessionSteps(service, store, options.name, clock, stopping=self._stopping),
            self._threads,
            turns=self._turns,
            turn_seconds=options.turn_seconds,
            counts=self.counts,
            stopping=self._stopping,
            states=states,
        )
        self._watch = SourceWatch(service, access, self.counts, file)
        self.file = file
        self._state_watch = (
            StateWatch(service, access, states, self.counts, publisher) if states else None
        )
        self._read_ahead = ReadAhead(service, access, read_ahead) if read_ahead else None
        self._followers = [
            LogFollower(
                service,
                store,
                number,
                runner.finish,
                counts=self.counts,
                stopping=self._stopping,
            )
            for number in range(service.partitions)
        ]

    def stop(self) -> None:
        """Have `run` return soon, and start no question.

        Those that run have some seconds. Then plain ones run again after the next start, and
        sessions fail.
        """
        self._stopping.set()

    def end_questions(self, dataset: str, analyst: str | None = None) -> int:
        """End the questions that wait on a dataset; return how many these are.

        Each has the answer `failed` from the next tick on, and its charge stays. What runs already
        gets its answer.

        Args:
            analyst: end only theirs.
        Raises: Unavailable: it runs no questions any more, so that those would stay.
        """
        if not self.counts.is_running or self._stopping.is_set():
            raise Unavailable(
                "the curator has ended, and ends no question. Start it again, then end them"
            )
        found = self.counts.waiting.end(dataset, analyst)
        self._turns.end(dataset, analyst)
        return found

    def queue(self) -> QuestionQueue:
        """Return the questions that wait, for a server: how to end them, and why they wait."""
        note = self.counts.not_stored.note
        return QuestionQueue(self.counts.waiting, self.end_questions, note)

    async def open(self) -> None:
        """Bind the store to the ledger. A new store never runs what was granted before.

        Raises: Refused: the store belongs to another ledger. JournalFault.
        """
        for follower in self._followers:
            await follower.open_log()
        await self._access.log_access(self._service)
        if self._state_watch is not None:
            await self._state_watch.start()

    async def run(self) -> None:
        """Run until `stop`, or until the task is cancelled. Call `open` first.

        It ends soon after `stop`, whatever it waits for.

        Raises: ExceptionGroup of Refused: another curator has taken the store over; of
            BudgetError: the log cannot be read, or the ledger is closed.
        """
        running = asyncio.create_task(self._run(), name="questions")
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({running}, timeout=self._stop_seconds)
            self._runner.cut()
            await asyncio.wait({running}, timeout=self._stop_seconds)
        finally:
            stopped.cancel()
            running.cancel()
            await asyncio.wait({running})
            if self._stopping.is_set():
                await self._take_back()
            await self._runner.end_readings()
        if not running.cancelled():
            running.result()

    async def _take_back(self) -> None:
        try:
            async with asyncio.timeout(self._stop_seconds):
                await self._runner.take_back()
        except (JournalFault, Refused, TimeoutError) as error:
            _log.warning("attempts_not_taken_back", why=str(error), then="they count")

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                publishing = tasks.create_task(self._publisher.run(), name="answers")
                watching = [tasks.create_task(self._watch.run(), name="datasets of sources")]
                if self._state_watch is not None:
                    watching.append(tasks.create_task(self._state_watch.run(), name="sources"))
                if self.file is not None:
                    search = SourceSearch(self.file).run()
                    watching.append(tasks.create_task(search, name="search for sources"))
                    following = self.file.follow()
                    watching.append(tasks.create_task(following, name="file of sources"))
                if self._read_ahead is not None:
                    watching.append(tasks.create_task(self._read_ahead.run(), name="read ahead"))
                await self._follow()
                for task in watching:
                    task.cancel()
                publishing.cancel()
        finally:
            self.counts.is_running = False
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as partitions:
            for number, follower in enumerate(self._followers):
                partitions.create_task(follower.run(), name=f"questions of partition {number}")
