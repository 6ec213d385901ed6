"""A ledger on Kafka as a `Service`, for the gateway and for clients with a kafka:// URL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from accountant.errors import BudgetError
from accountant.partition import Partition
from accountant.partition.ids import decode_identity
from accountant.records import Decision, Source, decode_decision
from accountant.records.inputs import CheckedInput
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert
from streams.clock import Clock, SystemClock
from streams.errors import JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log.appender import Appender, KeyedBody
from streams.kafka.log.genesis import check_placement
from streams.kafka.log.topics import check_partition_counts
from streams.kafka.service.follower.followed_states import FollowedStates, Taken
from streams.kafka.service.follower.recent_decisions import InputPosition, RecentDecisions
from streams.kafka.service.follower.tail import Tail
from streams.kafka.service.pending_batch import PendingBatch, PendingInput, PendingPlace, Waiting
from streams.kafka.service.usage import KafkaUsage
from streams.log.appended import Appended
from streams.service.ledger_reads import LedgerReads
from streams.service.ledger_service import Readiness, Submission
from streams.tasks.broadcast import Broadcast, Subscription

MAX_PENDING: Final = 10_000
_ACK_S: Final = 10.0
_FIRST_CHECK_S: Final = 6.0
_TOPIC_SPREAD_S: Final = 1.0  # until every broker knows a topic that was just created
_NEEDED: Final = ("requests", "decisions", "state")  # a client may lack the right to see the others
_STOP_S: Final = 1.0
_MAX_BATCHES: Final = 8  # a subscriber further behind reads the log
_PAUSE_S: Final = 0.05  # between two reads of the decisions while no caller waits
_A_TURN: Final = 50  # decisions until the event loop gets its turn: some milliseconds
_REPLAY_S: Final = 10.0  # for logs without rows, at a start


class KafkaService(LedgerReads):
    """Appends bodies with acks=all and answers from a read-committed tail of the decisions.

    `start` returns once the tail follows every partition, so the service never misses a decision
    that a processor makes after an append.

    Args:
        index: file of the index of usage; without it, a temporary one.

    Attributes:
        states: of the partitions.
        usage_index: built from its `start` on, or from the first question about usage.
    """

    def __init__(
        self, deployment: Deployment, *, index: Path | None = None, clock: Clock | None = None
    ) -> None:
        clock = clock or SystemClock()
        self._deployment = deployment
        self._recent = RecentDecisions(clock, deployment.window_ms)
        self._appended = Broadcast[Appended](_MAX_BATCHES)
        self.usage_index = KafkaUsage(deployment, index, self._appended.subscribe)
        self.states = FollowedStates(deployment)
        super().__init__(clock, self.states.counts, self.usage_index, self.usage_index.log)
        self._appender = Appender(deployment)
        self._pending: dict[InputPosition, Waiting] = {}
        self._events = Broadcast[Decision]()
        self._alerts = Broadcast[Alert]()
        self._tail = Tail(
            deployment,
            rows=self.states.rows,
            on_decisions=self._take_decisions,
            read_on=self.states.read_on,
            on_end=self.states.reach_end,
            on_lost=self.states.lose,
            history_ms=deployment.window_ms,
            pause=self._until_wanted,
            clock=clock,
        )
        self._shown: dict[int, int] = {}  # by partition, the last decision that subscribers got
        self._waiting = 0  # calls of `submit`
        self._wanted = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, deployment: Deployment, *, wait: float = 30.0, index: Path | None = None
    ) -> Self:
        """Return a service that is connected and follows the decisions.

        Raises:
            Unavailable: the broker did not answer within `wait` seconds.
            Refused: topics are missing, or their number of partitions or the ledger's placement
                differs from the setting.
        """
        until = asyncio.get_running_loop().time() + wait
        # Check first, so that missing topics are reported before other waits time out.
        with contextlib.suppress(JournalFault, TimeoutError):
            async with asyncio.timeout(min(wait / 2, _FIRST_CHECK_S)):
                await _check_needed(deployment)
        service = cls(deployment, index=index)
        try:
            async with asyncio.timeout_at(until):
                await service.connect()
        except TimeoutError as error:
            await service.close()
            with contextlib.suppress(JournalFault, TimeoutError):
                async with asyncio.timeout(_ACK_S):
                    await check_partition_counts(deployment, _NEEDED)
            why = service._tail.trouble or "it does not accept requests"
            what = f"{deployment.bootstrap} does not answer within {wait:g} s: {why}"
            raise Unavailable(what) from error
        except BaseException:
            await service.close()
            raise
        return service

    async def connect(self) -> None:
        """Follow the decisions, then allow appends.

        Raises: Refused: the setting differs from the number of partitions.
        """
        self._following = asyncio.create_task(self._tail.run(), name="tail")
        caught_up = asyncio.create_task(self._catch_up())
        try:
            await asyncio.wait({caught_up, self._following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            caught_up.cancel()
        if self._following.done():
            self._following.result()
        await self._appender.start()

    async def _catch_up(self) -> None:
        await self._tail.caught_up()
        # A long log without rows is read on after the start.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REPLAY_S):
                await self.states.settled()

    async def submit(
        self,
        source: Source,
        body: bytes,
        *,
        wait: float,
        checked: CheckedInput | None = None,
        new: bool = False,
    ) -> Submission:
        dataset = decode_identity(body).dataset if checked is None else checked.body.dataset
        partition = self._deployment.partition_of(dataset)
        if self._tail.trouble:
            raise Unavailable(self._tail.trouble)
        if max(len(self._pending), self._waiting) >= MAX_PENDING:
            raise _too_many()
        self._waiting += 1
        self._wanted.set()
        record = KeyedBody(body, self._deployment.key_of(dataset), partition)
        pending = PendingInput(partition, source, wait)
        try:
            self._appender.append(source, record, partial(self._follow, pending))
            decision = await pending.future
        finally:
            self._waiting -= 1
            pending.end(self._pending)
        return Submission(decision=decision, partition=partition, offset=pending.offset)

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
        checked: Sequence[CheckedInput | None] | None = None,
    ) -> list[Submission | BudgetError]:
        """Implement `Service.submit_many`: few appends, and one wait for all decisions."""
        if self._tail.trouble:
            return [Unavailable(self._tail.trouble) for _ in bodies]
        room = max(0, MAX_PENDING - len(self._pending))
        self._waiting += 1
        self._wanted.set()
        try:
            known = [None] * len(bodies) if checked is None else checked
            records = list(map(self._keyed, bodies[:room], known[:room]))
            answers = [] if not records else await self._submit_many(records, wait)
        finally:
            self._waiting -= 1
        return [*answers, *[_too_many() for _ in bodies[room:]]]

    def _keyed(self, body: bytes, checked: CheckedInput | None) -> KeyedBody:
        dataset = decode_identity(body).dataset if checked is None else checked.body.dataset
        deployment = self._deployment
        return KeyedBody(body, deployment.key_of(dataset), deployment.partition_of(dataset))

    async def _submit_many(
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

    async def _until_wanted(self) -> None:
        """Return at once while a caller waits for a decision, else at a call or after a pause.

        Each read takes about a millisecond in two processes, even if there is nothing to read.
        """
        heard = self._events.has_readers or self._appended.has_readers or self._alerts.has_readers
        if self._waiting or heard:
            await asyncio.sleep(0)  # a backlog must not keep other tasks from their turn
            return
        self._wanted.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await self._wanted.wait()

    async def find(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        return self._recent.by_request.get((dataset, caller, request_id))

    @property
    def partitions(self) -> int:
        return self._deployment.partitions

    def partition_of(self, dataset: str) -> int:
        return self._deployment.partition_of(dataset)

    def check_is_known(self, dataset: str) -> None:
        try:
            self._partition_with(dataset)
        except Unavailable as error:
            what = f"it is not known whether the dataset {dataset} is open: {error}"
            raise Unavailable(what) from error

    def events(self) -> Subscription[Decision]:
        return self._events.subscribe()

    def alerts(self) -> Subscription[Alert]:
        return self._alerts.subscribe()

    def readiness(self) -> Readiness:
        reasons = [] if self._tail.trouble is None else [self._tail.trouble]
        notes = [*self.states.notes(), *self.usage_index.notes()]
        return Readiness(ready=not reasons, reasons=reasons, notes=notes)

    async def close(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            # A client that is connecting to an absent broker may not end at once.
            await asyncio.wait([following], timeout=_STOP_S)
        await self._appender.stop()
        await self.usage_index.close()
        self._events.end()
        self._appended.end()
        self._alerts.end()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(Unavailable("closing: retry with the same bytes"))

    def _check_follows(self) -> None:
        """Fail closed while the tail is down: otherwise a removed member would still be admitted.

        Raises: Unavailable: changes of members do not reach this process.
        """
        if self._tail.trouble:
            raise Unavailable(self._tail.trouble)

    def _partition(self, number: int) -> Partition:
        self._check_follows()
        return self.states.partition(number)

    async def _take_decisions(self, partition: int, values: list[bytes]) -> bool:
        shown = list[Taken]()
        for first in range(0, len(values), _A_TURN):
            shown += self._take_turn(partition, values[first : first + _A_TURN])
            await asyncio.sleep(0)
        if not shown:
            return False
        if self._events.has_readers:
            self._events.send([each.decision or decode_decision(each.value) for each in shown])
        if self._appended.has_readers:
            number = shown[0].line.partition_sequence
            self._appended.send([Appended(partition, number, [each.value for each in shown])])
        if self._alerts.has_readers:
            self._alerts.send([alert for each in shown for alert in alerts_of(each.line)])
        self._recent.forget_old()
        return False

    def _take_turn(self, partition: int, values: list[bytes]) -> list[Taken]:
        """Apply decisions, then answer those who wait for them; return those to show subscribers.

        The state is moved first: whoever is answered finds their decision in the next read.
        """
        shown = list[Taken]()
        for value in values:
            taken = self.states.take(partition, value)
            if taken is None:
                continue  # unreadable
            line = taken.line
            if taken.decision is not None or line.partition_sequence > self._shown.get(
                partition, -1
            ):
                self._shown[partition] = line.partition_sequence
                shown.append(taken)
            if line.source is None:
                continue
            position: InputPosition = partition, line.source.topic, line.source.offset
            self._recent.add(position, line, value)
            future = self._pending.get(position)
            if future is not None and not future.done():
                future.set_result(value)
        if shown:
            self.usage_index.note_decision(partition, self._shown[partition])
        return shown


def _too_many() -> Unavailable:
    return Unavailable(f"{MAX_PENDING} requests wait already: retry with the same bytes")


async def _check_needed(deployment: Deployment) -> None:
    """Verify that the topics exist, with the ledger's placement; check topics a second time.

    Raises: Refused; JournalFault.
    """
    try:
        await check_partition_counts(deployment, _NEEDED)
    except Refused:
        await asyncio.sleep(_TOPIC_SPREAD_S)
        await check_partition_counts(deployment, _NEEDED)
    await check_placement(deployment)
