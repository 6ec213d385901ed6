"""Answers as a server shows them: each was compared with what a run of its question can show.

The store is a file or a topic that others may have written to. An answer that no run of its
question can show is not shown, whoever has changed it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import UNSET

from accountant.answers import Granted, NoisyAnswer, decode_answer
from accountant.answers.compare import AnswerDifference
from accountant.answers.rebuild import difference_from_run
from accountant.partition import hash_of
from streams.answers.granted import granted_question
from streams.answers.store import AnswerReader, Answers, StoredAnswer
from streams.errors import Refused, Unavailable
from streams.service.ledger_service import LedgerService
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_REMEMBERED: Final = 10_000
_FOUND_BY: Final = ("dataset", "analyst", "request_id", "grant")


IsLinked = Callable[[StoredAnswer], Awaitable[bool]]


class AnswerDiffers(Refused):
    """A stored answer is none that a run of its question can show."""


class CheckedAnswers:
    """An `AnswerReader` that shows no answer which differs from what a run can show.

    `get` and `find` raise `AnswerDiffers` for one. `page` leaves it out, and `trouble` says so.

    Args:
        reader: of the stored answers.
        service: whose datasets and grants they are compared with.
        is_linked: tells whether an answer is the one that the store's chain has in its place; None
            of a store whose every record is compared with its chain when it is read.
    """

    def __init__(
        self, reader: AnswerReader, service: LedgerService, is_linked: IsLinked | None = None
    ) -> None:
        self._reader = reader
        self._service = service
        self._is_linked = is_linked
        self._sound: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._refused = dict[str, str]()  # why, by grant

    @property
    def trouble(self) -> str | None:
        """As `AnswerReader.trouble`; or that answers are not shown."""
        if self._reader.trouble is not None or not self._refused:
            return self._reader.trouble
        return (
            f"{len(self._refused)} stored answers are not shown, since they are not those that "
            "were stored: somebody has changed the store. Run `accountant audit`, which names "
            "them, and put the newest copy of the answers back"
        )

    @trouble.setter
    def trouble(self, why: str | None) -> None:
        self._reader.trouble = why

    async def get(self, grant: str) -> StoredAnswer | None:
        """As `AnswerReader.get`. Raises: AnswerDiffers."""
        return await self._require_sound(await self._reader.get(grant))

    async def find(self, dataset: str, analyst: str, request_id: str) -> StoredAnswer | None:
        """As `AnswerReader.find`. Raises: AnswerDiffers."""
        return await self._require_sound(await self._reader.find(dataset, analyst, request_id))

    async def page(self, dataset: str, *, after: int, limit: int) -> list[StoredAnswer]:
        """As `AnswerReader.page`, without answers that differ."""
        while found := await self._reader.page(dataset, after=after, limit=limit):
            sound = [each for each in found if await self._why_refused(each) is None]
            if sound:
                return sound
            after = found[-1].number
        return []

    def subscribe(self) -> Answers:
        """As `AnswerReader.subscribe`; what it yields was not compared."""
        return self._reader.subscribe()

    async def _require_sound(self, stored: StoredAnswer | None) -> StoredAnswer | None:
        why = None if stored is None else await self._why_refused(stored)
        if why is not None:
            raise AnswerDiffers(why)
        return stored

    async def _why_refused(self, stored: StoredAnswer) -> str | None:
        """Return why an answer is not shown, None if it is.

        Raises: Unavailable: this process cannot tell yet.
        """
        digest = hashlib.sha256(stored.value).digest()
        key = (digest, stored.partition, stored.number, *[getattr(stored, n) for n in _FOUND_BY])
        if key in self._sound:
            self._sound.move_to_end(key)
            self._refused.pop(stored.grant, None)
            return None
        difference = await self._difference(stored)
        if difference is None:
            self._refused.pop(stored.grant, None)
            self._sound[key] = None
            if len(self._sound) > _REMEMBERED:
                self._sound.popitem(last=False)
            return None
        if stored.grant not in self._refused:
            _log.error("answer_not_shown", grant=stored.grant, field=difference.what)
        why = (
            f"the stored answer to request {stored.request_id} is not shown: its field "
            f"{difference.what} is not what was stored, or none that a run of this question can "
            "show. Ask the ledger's operators to run `accountant audit`"
        )
        self._refused[stored.grant] = why
        return why

    async def _difference(self, stored: StoredAnswer) -> AnswerDifference | None:
        try:
            answer = decode_answer(stored.value)
        except ValueError as error:
            return AnswerDifference("value", "an answer", str(error))
        for name in _FOUND_BY:
            due, found = getattr(stored, name), getattr(answer, name)
            if due != found:
                return AnswerDifference(name, due, found)
        view = await self._service.dataset(stored.dataset)
        if view is None:
            raise Unavailable(f"dataset {stored.dataset} is not shown yet")
        if view.schema is UNSET:
            return AnswerDifference("dataset", "a dataset with a schema", stored.dataset)
        granted = await self._granted(stored, answer)
        wrong = await asyncio.to_thread(difference_from_run, granted, view.schema, answer)
        if wrong is None and self._is_linked is not None and not await self._is_linked(stored):
            return AnswerDifference("values", "those of the chain of answers", "others")
        return wrong

    async def _granted(self, stored: StoredAnswer, answer: NoisyAnswer) -> Granted:
        """Return the grant of an answer.

        The ledger forgets ids. Afterwards an answer is compared with its own claim, and its entry
        in the chain of answers says that it was never changed.
        """
        decision = await self._service.find(stored.dataset, stored.analyst, stored.request_id)
        if decision is not None and hash_of(decision) == stored.grant:
            question = granted_question(stored.partition, decision)
            if question is not None:
                return question.content
        return Granted(
            dataset=answer.dataset,
            request_id=answer.request_id,
            analyst=answer.analyst,
            grant=answer.grant,
            question=answer.question,
            noise=answer.noise,
            claim=answer.claim,
            stop=None if answer.stop is UNSET else answer.stop,
        )
