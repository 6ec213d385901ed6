"""Bounds how many lives of a curator try one plain question: it may be what kills them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from streams.answers.store import AnswerStore, StepKind
from streams.curator.granted import GrantedQuestion
from streams.logs import get_logger

_log = get_logger(__name__)
_KINDS: Final[tuple[StepKind, ...]] = ("attempt_1", "attempt_2", "attempt_3")


class Attempts:
    """The attempts of one life of a curator. Each is stored before its question runs.

    A life has one attempt at each question, however often it runs.
    """

    def __init__(self, store: AnswerStore) -> None:
        self._store = store
        self._life = msgspec.json.encode({"life": str(uuid.uuid4())})
        # One at a time: a question that ran beside one that kills the process has other company.
        self._again = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def attempt(self, question: GrantedQuestion) -> AsyncIterator[bool]:
        """Store an attempt; yield whether the question may run, which it does within the block.

        Raises: Unavailable.
        """
        first, *later = _KINDS
        if await self._take(question, first):
            yield True
            return
        async with self._again:
            for kind in later:
                if await self._take(question, kind):
                    yield True
                    return
            _log.error("question_given_up", grant=question.grant, attempts=len(_KINDS))
            yield False

    async def _take(self, question: GrantedQuestion, kind: StepKind) -> bool:
        put = self._store.put_step(question.partition, question.grant, kind, self._life)
        return await put == self._life
