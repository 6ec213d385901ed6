"""Bounds how many lives of a curator try one plain question: it may be what kills them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from streams.answers.granted import GrantedQuestion
from streams.answers.store import AnswerStore, StepKind
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_FIRST: Final[StepKind] = "attempt_1"
_LATER: Final[tuple[StepKind, ...]] = ("attempt_2", "attempt_3")


class Attempts:
    """The attempts of one life of a curator. Each is stored before its question runs.

    A life has one attempt at each question, however often it runs. One without a draw is taken
    back: while its question waits for its source, and at the end of a life that ends in order.
    """

    def __init__(self, store: AnswerStore) -> None:
        self._store = store
        self._life = msgspec.json.encode({"life": str(uuid.uuid4())})
        self._undrawn = dict[str, tuple[GrantedQuestion, StepKind]]()  # by grant
        # One at a time: a question that ran beside one that kills the process has other company.
        self._again = asyncio.Lock()

    async def is_first(self, question: GrantedQuestion) -> bool:
        """Store the first attempt; tell whether it is this life's.

        Raises: Unavailable.
        """
        return await self._take(question, _FIRST)

    @contextlib.asynccontextmanager
    async def again(self, question: GrantedQuestion) -> AsyncIterator[bool]:
        """Wait for the others, store a later attempt; yield whether the question may run.

        Leave the block once the answer is stored, or an attempt is to be taken back. Otherwise the
        next one may kill this process before that, and so take an attempt from this one.

        Raises: Unavailable.
        """
        async with self._again:
            for kind in _LATER:
                if await self._take(question, kind):
                    yield True
                    return
            _log.error("question_given_up", grant=question.grant, attempts=1 + len(_LATER))
            yield False

    def use_up(self, question: GrantedQuestion) -> None:
        """Note that an attempt counts: its answer was drawn, or will never be."""
        self._undrawn.pop(question.grant, None)

    async def take_back(self, question: GrantedQuestion) -> None:
        """Take back an attempt, unless it is used up. Call it once nothing of it runs any more.

        Raises: Unavailable: it counts.
        """
        found = self._undrawn.pop(question.grant, None)
        if found is not None:
            kind = found[1]
            await self._store.take_back(question.partition, question.grant, kind, self._life)

    async def take_all_back(self) -> None:
        """Take back every attempt that is not used up. Raises: Unavailable: those left count."""
        for question, _ in [*self._undrawn.values()]:
            await self.take_back(question)

    async def _take(self, question: GrantedQuestion, kind: StepKind) -> bool:
        # Before it is stored: whoever is cancelled meanwhile does not know whether it is.
        self._undrawn[question.grant] = question, kind
        put = self._store.put_step(question.partition, question.grant, kind, self._life)
        is_own = await put == self._life
        if not is_own:
            self.use_up(question)
        return is_own
