"""Appends bodies to a ledger's inputs on Kafka, and waits for the decisions on them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from accountant.errors import BudgetError
from accountant.partition.ids import decode_identity
from accountant.records import Decision, Source
from accountant.records.header import DecisionHeader
from accountant.records.inputs import CheckedInput
from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log.appender import Appender, KeyedBody
from streams.kafka.service.follower.recent_decisions import InputPosition, RecentDecisions
from streams.kafka.service.pending_batch import PendingBatch, PendingInput, PendingPlace, Waiting
from streams.service.ledger_service import Submission

MAX_PENDING: Final = 10_000


class Submissions:
    """The bodies of one process, from their append to their decisions. Belongs to one event loop.

    Args:
        recent: the decisions that were read.

    Attributes:
        wanted: set at each call; cleared by whoever reads the decisions.
    """

    def __init__(self, deployment: Deployment, recent: RecentDecisions) -> None:
        self._deployment = deployment
        self._recent = recent
        self._appender = Appender(deployment)
        self._pending: dict[InputPosition, Waiting] = {}
        self._calls = 0
        self.wanted = asyncio.Event()

    async def start(self) -> None:
        """Allow appends."""
        await self._appender.start()

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for a decision."""
        return self._calls > 0

    async def submit(
        self, source: Source, body: bytes, *, wait: float, checked: CheckedInput | None
    ) -> Submission:
        """Append a body; see `Service.submit`.

        Raises: Unavailable.
        """
        record = self._keyed(body, checked)
        if max(len(self._pending), self._calls) >= MAX_PENDING:
            raise _too_many()
        self._calls += 1
        self.wanted.set()
        pending = PendingInput(record.partition, source, wait)
        try:
            self._appender.append(source, record, partial(self._follow, pending))
            decision = await pending.future
        finally:
            self._calls -= 1
            pending.end(self._pending)
        return Submission(decision=decision, partition=record.partition, offset=pending.offset)

    def _follow(self, pending: PendingInput, appended: int | BudgetError) -> None:
        """Have an appended input's caller wait for the decision, or for nothing more."""
        if pending.future.done() or pending.offset is not None:
            return
        if isinstance(appended, BudgetError):
            pending.future.set_exception(appended)
            return
        decision = self._recent.by_position.get(pending.at(appended))
        if decision is None and pending.wait > 0:
            pending.begin(self._pending)
        else:
            pending.future.set_result(decision)

    async def submit_many(
        self,
        bodies: Sequence[bytes],
        *,
        wait: float,
        checked: Sequence[CheckedInput | None] | None,
    ) -> list[Submission | BudgetError]:
        """Append bodies: few appends, and one wait for all decisions; see `Service.submit_many`."""
        room = max(0, MAX_PENDING - len(self._pending))
        self._calls += 1
        self.wanted.set()
        try:
            known = [None] * len(bodies) if checked is None else checked
            records = list(map(self._keyed, bodies[:room], known[:room]))
            answers = [] if not records else await self._append_many(records, wait)
        finally:
            self._calls -= 1
        return [*answers, *[_too_many() for _ in bodies[room:]]]

    def _keyed(self, body: bytes, checked: CheckedInput | None) -> KeyedBody:
        dataset = decode_identity(body).dataset if checked is None else checked.body.dataset
        deployment = self._deployment
        return KeyedBody(body, deployment.key_of(dataset), deployment.partition_of(dataset))

    async def _append_many(
        self, records: Sequence[KeyedBody], wait: float
    ) -> list[Submission | BudgetError]:
        batch = PendingBatch(len(records))
        positions: dict[int, InputPosition] = {}

        def follow(place: int, offset: int) -> None:
            position = positions[place] = records[place].partition, "requests", offset
            decision = self._recent.by_position.get(position)
            if decision is None:
                self._pending[position] = PendingPlace(batch, place)
            else:
                batch.settle(place, decision)

        try:
            failed = await self._appender.append_many("requests", records, follow)
            for place, error in failed.items():
                batch.settle(place, error)
            if wait > 0:
                await batch.wait(wait)
        finally:
            for position in positions.values():
                self._pending.pop(position, None)
        answers = list[Submission | BudgetError]()
        for place, (record, found) in enumerate(zip(records, batch.found, strict=True)):
            if isinstance(found, BudgetError):
                answers.append(found)
            else:
                offset = positions[place][2]
                answers.append(
                    Submission(decision=found, partition=record.partition, offset=offset)
                )
        return answers

    def answer(
        self, position: InputPosition, line: Decision | DecisionHeader, value: bytes
    ) -> None:
        """Give a decision that was read to the caller that waits for it, if there is one."""
        self._recent.add(position, line, value)
        waiting = self._pending.get(position)
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    async def stop(self) -> None:
        """End the appends."""
        await self._appender.stop()

    def give_up(self) -> None:
        """Answer all callers: the decisions are not read any more."""
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(Unavailable("closing: retry with the same bytes"))


def _too_many() -> Unavailable:
    return Unavailable(f"{MAX_PENDING} requests wait already: retry with the same bytes")
