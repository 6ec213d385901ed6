"""Follows which questions of a ledger have no answer, in a process that runs none of them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from accountant.errors import BudgetError
from accountant.records import DECODE_ERRORS
from streams.answers.granted import granted_question
from streams.answers.store import AnswerReader, LogPlace
from streams.answers.waiting import WaitingQuestions
from streams.clock import Clock
from streams.error_words import words_of
from streams.errors import JournalFault
from streams.service.ledger_service import LedgerService
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_PAUSE_S: Final = 5.0
_AGAIN_S: Final = 30.0
"""Between two looks for the answers of all that wait, and for grants that nobody announced."""
NOTE_MS: Final = 300_000
"""A question that waits for longer is a note of a server that cannot see its curator."""


class FollowedAnswers(AnswerReader, Protocol):
    """A reader that also knows how far the curator has come."""

    async def place(self, partition: int) -> LogPlace:
        """Return the place before which every grant has its answer."""
        ...


class UnansweredQuestions:
    """Takes in the grants of a log, and takes away what has an answer, until it is cancelled."""

    def __init__(self, service: LedgerService, answers: FollowedAnswers, clock: Clock) -> None:
        self.waiting = WaitingQuestions()
        self._service = service
        self._answers = answers
        self._clock = clock
        self._next = dict.fromkeys(range(service.partitions), 0)  # numbers of decisions

    async def run(self) -> None:
        """Follow all partitions, until the ledger is closed."""
        answered = self._answers.subscribe()  # before the first grant is taken in
        tasks = [
            asyncio.create_task(self._follow_grants(), name="grants of questions"),
            asyncio.create_task(self._look_again(), name="questions without answers"),
        ]
        try:
            async for each in answered:
                self.waiting.remove(each.grant)
        finally:
            answered.close()
            for task in tasks:
                task.cancel()

    def note(self) -> str | None:
        """Return that questions have waited for long, and what to do; None while none has."""
        now = self._clock.now()
        age = now - min(self.waiting.oldest().values(), default=now)
        if age < NOTE_MS:
            return None
        return (
            f"{len(self.waiting)} granted questions have no answer, the oldest for "
            f"{age // 60_000} minutes. Check that a curator runs (`accountant ready --url` with "
            "its address), or start one: `accountant curator`"
        )

    async def _follow_grants(self) -> None:
        for partition in self._next:
            self._next[partition] = (await self._answers.place(partition)).number
        while True:
            try:
                async with contextlib.aclosing(
                    self._service.log.follow(self._next, reread_s=_AGAIN_S)
                ) as slices:
                    async for each in slices:
                        # An archived grant had its time.
                        self._next[each.partition] = each.first
                        for value in each.values:
                            await self._take(each.partition, value)
                return
            except BudgetError as error:
                _log.warning("grants_not_read", why=str(error))
                await asyncio.sleep(_PAUSE_S)

    async def _take(self, partition: int, value: bytes) -> None:
        self._next[partition] += 1
        try:
            question = granted_question(partition, value)
        except (*DECODE_ERRORS, BudgetError) as error:
            _log.warning("grant_not_read", partition=partition, why=words_of(error))
            return
        if question is not None:
            self.waiting.add(question)
            await self._remove_if_answered(question.grant)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(_AGAIN_S)
            for grant in self.waiting.grants():
                await self._remove_if_answered(grant)

    async def _remove_if_answered(self, grant: str) -> None:
        try:
            if await self._answers.get(grant) is not None:
                self.waiting.remove(grant)
        except JournalFault as error:
            _log.warning("answers_not_read", why=str(error))
