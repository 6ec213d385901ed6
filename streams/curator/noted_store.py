"""A store of answers that notes what it could not store, until it can."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from streams.answers.store import (
    AnswerStore,
    LogPlace,
    NewAnswer,
    StepKind,
    StoredAnswer,
    refusing_damage,
)
from streams.clock import steady
from streams.errors import JournalFault
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_ANSWERS: Final = "answers"


class NotStored:
    """What a curator could not store, and since when. Only its event loop uses it."""

    def __init__(self) -> None:
        self._failing = dict[tuple[int, str], tuple[float, str]]()

    def fail(self, partition: int, what: str, why: str) -> None:
        """Note that something of a partition could not be stored."""
        since, before = self._failing.get((partition, what), (steady(), ""))
        self._failing[partition, what] = since, why
        if why != before:
            then = "tried again; questions wait"
            _log.warning("answers_not_stored", partition=partition, what=what, why=why, then=then)

    def succeed(self, partition: int, what: str) -> None:
        """Note that something was stored. Where answers can be, all else can."""
        for key in [*self._failing]:
            if key == (partition, what) or (key[0] == partition and what == _ANSWERS):
                del self._failing[key]

    def seconds(self) -> float:
        """Return for how long something could not be stored; 0 while all can."""
        first = min((since for since, _ in self._failing.values()), default=None)
        return 0.0 if first is None else steady() - first

    def note(self) -> str | None:
        """Return what cannot be stored, and what to do; None while all can."""
        if not self._failing:
            return None
        (_, what), (_, why) = min(self._failing.items(), key=lambda each: each[1][0])
        return (
            f"the curator cannot store {what}, so questions wait; requests are decided: {why}. "
            "Free the disk, make it writable, or bring the broker back: it goes on by itself then"
        )


class NotedStore:
    """An `AnswerStore` that does what another one does, and notes what that could not store.

    Args:
        not_stored: where that is noted.
    """

    def __init__(self, store: AnswerStore, not_stored: NotStored) -> None:
        self._store = store
        self._not_stored = not_stored
        self.find, self.page, self.subscribe = store.find, store.page, store.subscribe
        self.place, self.close = store.place, store.close

    @property
    def trouble(self) -> str | None:
        """That of the store."""
        return self._store.trouble

    @trouble.setter
    def trouble(self, why: str | None) -> None:
        self._store.trouble = why

    async def open_log(self, partition: int, ledger: str, begins: int) -> int:
        """As `AnswerStore.open_log`."""
        with refusing_damage():
            return await self._store.open_log(partition, ledger, begins)

    async def get(self, grant: str) -> StoredAnswer | None:
        """As `AnswerReader.get`. Raises: Refused: the store is damaged."""
        with refusing_damage():
            return await self._store.get(grant)

    async def move(self, partition: int, place: LogPlace) -> None:
        """As `AnswerStore.move`."""
        async with self._noted(partition, "its place in the log"):
            await self._store.move(partition, place)

    async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        """As `AnswerStore.put_first`."""
        if not answers:
            return []
        async with self._noted(answers[0].partition, _ANSWERS):
            return await self._store.put_first(answers)

    async def put_step(self, partition: int, grant: str, kind: StepKind, body: bytes) -> bytes:
        """As `AnswerStore.put_step`."""
        async with self._noted(partition, "the next step of a question"):
            return await self._store.put_step(partition, grant, kind, body)

    async def take_back(self, partition: int, grant: str, kind: StepKind, body: bytes) -> None:
        """As `AnswerStore.take_back`."""
        await self._store.take_back(partition, grant, kind, body)

    @contextlib.asynccontextmanager
    async def _noted(self, partition: int, what: str) -> AsyncIterator[None]:
        try:
            with refusing_damage():
                yield
        except JournalFault as error:
            self._not_stored.fail(partition, what, str(error))
            raise
        self._not_stored.succeed(partition, what)
