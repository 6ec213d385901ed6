"""A ledger on Kafka as a `Service`, for the gateway and for clients with a kafka:// URL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from accountant.advice.preview import Preview
from accountant.errors import BudgetError
from accountant.partition.ids import decode_identity
from accountant.policy import Policy
from accountant.records import Decision, Snapshot, Source, decode_decision
from accountant.records.header import decode_header
from accountant.records.inputs import CheckedInput
from accountant.records.limit_records import ScopeRow
from accountant.records.members import Member, MemberRow
from accountant.records.parts import lines_by_dataset
from accountant.records.previews import PreviewRequest
from accountant.records.reservation_rows import ReservationRow
from accountant.records.state_rows import Row
from accountant.reservations.reservation import Reservation
from accountant.times import from_iso
from accountant.views.alerts import alerts_of
from accountant.views.datasets import Alert, DatasetView
from accountant.views.follow import ViewFolder, counted_decision, runs
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.members import MemberViews
from accountant.views.overview import Overview
from accountant.views.reservations import OpenReservations, ReservationPage
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.visibility import Caller
from accountant.views.why import UsageSums, Why
from streams.clock import Clock, SystemClock
from streams.errors import JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log.appender import Appender, KeyedBody
from streams.kafka.log.genesis import check_placement
from streams.kafka.log.topics import check_partition_counts
from streams.kafka.service.follower.limits import FollowerLimits
from streams.kafka.service.follower.recent_decisions import InputPosition, RecentDecisions
from streams.kafka.service.follower.tail import Tail
from streams.kafka.service.pending_batch import PendingBatch, PendingInput, PendingPlace, Waiting
from streams.kafka.service.usage import KafkaUsage
from streams.service.dataset_reads import overview_of, usage_of, why_of_dataset
from streams.service.ledger_service import Appended, Readiness, Submission, heads_of
from streams.service.reservation_reads import reservations_of
from streams.tasks.broadcast import Broadcast, Subscription

MAX_PENDING: Final = 10_000
_ACK_S: Final = 10.0
_FIRST_CHECK_S: Final = 6.0
_TOPIC_SPREAD_S: Final = 1.0  # until every broker knows a topic that was just created
_NEEDED: Final = ("requests", "decisions", "state")  # a client may lack the right to see the others
_STOP_S: Final = 1.0
_MAX_BATCHES: Final = 8  # a subscriber further behind reads the log
_PAUSE_S: Final = 0.05  # between two reads of the decisions while no caller waits


class KafkaService:
    """Appends bodies with acks=all and answers from a read-committed tail of the decisions.

    `start` returns once the tail follows every partition, so the service never misses a decision
    that a processor makes after an append.

    Args:
        index: file of the index of usage; without it, a temporary one.

    Attributes:
        usage_index: built from its `start` on, or from the first question about usage.
    """

    def __init__(
        self, deployment: Deployment, *, index: Path | None = None, clock: Clock | None = None
    ) -> None:
        self._deployment = deployment
        self._clock = clock or SystemClock()
        self._recent = RecentDecisions(self._clock, deployment.window_ms)
        self._views: dict[str, DatasetView] = {}
        self.usage_index = KafkaUsage(deployment, index)
        self._view_folder = ViewFolder(self._views, {})
        self._members = MemberViews()
        self._limits = FollowerLimits(
            self._members, self._clock, deployment.partitions, deployment.placement
        )
        self._appender = Appender(deployment)
        self._pending: dict[InputPosition, Waiting] = {}
        self._events = Broadcast[Decision]()
        self._appended = Broadcast[Appended](_MAX_BATCHES)
        self._alerts = Broadcast[Alert]()
        self._tail = Tail(
            deployment,
            on_row=self._take_row,
            on_decisions=self._take_decisions,
            on_partition_row=self._limits.take_partition_row,
            history_ms=deployment.window_ms,
            pause=self._until_wanted,
            clock=clock,
        )
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
        caught_up = asyncio.create_task(self._tail.caught_up())
        try:
            await asyncio.wait({caught_up, self._following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            caught_up.cancel()
        if self._following.done():
            self._following.result()
        await self._appender.start()

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

    async def datasets(self) -> list[DatasetView]:
        # Sorting very many views takes 0.2 s, which would block the event loop.
        return await asyncio.to_thread(_sort_by_name, list(self._views.items()))

    async def dataset(self, name: str) -> DatasetView | None:
        return self._views.get(name)

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        view = await self.dataset(dataset)
        # The search for the largest claim that fits may take milliseconds: use a thread.
        if view is None:
            return None
        self._check_follows()
        return await asyncio.to_thread(self._limits.preview(view, asked))

    async def levels(self, dataset: str) -> list[ScopeView]:
        view = self._views.get(dataset)
        self._check_follows()
        return [] if view is None else await asyncio.to_thread(self._limits.levels, view)

    async def open_reservations(self, dataset: str) -> OpenReservations:
        """As `LedgerService.open_reservations`."""
        view = self._views.get(dataset)
        self._check_follows()
        return OpenReservations((), 0, {}) if view is None else self._limits.reservations(view)

    async def reservations(
        self, dataset: str, *, after: int, limit: int, holder: str | None = None
    ) -> ReservationPage:
        now = self._clock.now()
        return await reservations_of(
            self, dataset, after=after, limit=limit, holder=holder, now=now
        )

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        view = self._views.get(dataset)
        self._check_follows()
        return None if view is None else self._limits.budget(view, analyst)

    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Return the usage of a dataset, by analyst, purpose, day or month.

        Raises: Unavailable: the index lags, or cannot be read.
        """
        return await self.usage_index.rows(dataset, by) if dataset in self._views else []

    async def sums(self, dataset: str, *, since_day: str) -> UsageSums | None:
        return await self.usage_index.sums(dataset, since_day=since_day)

    async def usage(self, dataset: str) -> list[UsageView]:
        return await usage_of(self, dataset)

    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        return await why_of_dataset(self, dataset, now=self._clock.now(), analyst=analyst)

    async def overview(self, dataset: str, caller: Caller | None) -> Overview | None:
        return await overview_of(self, dataset, caller, self._clock)

    async def decisions(self, dataset: str, *, after: int, limit: int) -> list[bytes]:
        if dataset not in self._views:
            return []
        return await self.usage_index.decisions(dataset, after=after, limit=limit)

    @property
    def partitions(self) -> int:
        """As `LedgerService.partitions`."""
        return self._deployment.partitions

    def partition_of(self, dataset: str) -> int:
        """As `LedgerService.partition_of`."""
        return self._deployment.partition_of(dataset)

    def check_is_known(self, dataset: str) -> None:
        """As `LedgerService.check_is_known`."""
        self._check_follows()
        partition = self.partition_of(dataset)
        if not self._tail.knows(partition):
            raise Unavailable(
                f"it is not known whether the dataset {dataset} is open: rows of partition "
                f"{partition} in the topic {self._deployment.topics.state} are missing or cannot "
                "be read. The worker that owns the partition writes them again when it starts"
            )

    async def read_log(self, partition: int, first: int, limit: int) -> list[bytes]:
        """As `LedgerService.read_log`."""
        return await self.usage_index.log.read(partition, first, limit)

    async def last_decision(self, partition: int) -> tuple[int, bytes]:
        """As `LedgerService.last_decision`."""
        return await self.usage_index.log.last(partition)

    def branch(self, partition: int) -> int | None:
        """As `LedgerService.branch`."""
        return self._tail.branches.get(partition)

    def newest_checkpoint(self, partition: int) -> None:
        """Return None: workers sign, and a gateway has no key."""

    def policy(self, dataset: str) -> Policy | None:
        """As `LedgerService.policy`."""
        view = self._views.get(dataset)
        return None if view is None else view.policy

    def member(self, dataset: str, name: str) -> MemberRow | None:
        """As `LedgerService.member`."""
        self._check_follows()
        return self._members.get(dataset, name)

    def open_reservation(self, dataset: str, grant: str) -> Reservation | None:
        """As `LedgerService.open_reservation`."""
        self._check_follows()
        return self._limits.reservation(dataset, grant)

    def memberships(self, name: str) -> list[MemberRow]:
        """As `LedgerService.memberships`."""
        self._check_follows()
        return self._members.memberships(name)

    def decided_at(self, dataset: str) -> int:
        """As `LedgerService.decided_at`."""
        self._check_follows()
        return self._tail.decided_at(self._deployment.partition_of(dataset))

    def ordered_before(self) -> int | None:
        """As `Service.ordered_before`."""
        return self._limits.ordered_before()

    async def members(self, dataset: str) -> list[Member]:
        self._check_follows()
        return [row.as_member for row in self._members.of(dataset)]

    def events(self) -> Subscription[Decision]:
        return self._events.subscribe()

    def appended(self) -> Subscription[Appended]:
        """As `LedgerService.appended`."""
        return self._appended.subscribe()

    async def heads(self) -> list[Head]:
        return await heads_of(self)

    def alerts(self) -> Subscription[Alert]:
        return self._alerts.subscribe()

    def readiness(self) -> Readiness:
        reasons = [] if self._tail.trouble is None else [self._tail.trouble]
        return Readiness(ready=not reasons, reasons=reasons, notes=self.usage_index.notes())

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

    async def _take_row(self, _partition: int, row: Row) -> None:
        if isinstance(row, MemberRow):
            self._members.take_row(row)
        elif isinstance(row, ScopeRow):
            self._limits.take_row(row)
        elif isinstance(row, ReservationRow):
            self._limits.take_reservation_row(row)
        elif isinstance(row, Snapshot):
            self._view_folder.take_row(row)

    async def _take_decisions(self, partition: int, values: list[bytes]) -> bool:
        lines = [decode_header(value) for value in values]
        for line, value in zip(lines, values, strict=True):
            if line.outcome.sets_members:
                self._members.take_decision(decode_decision(value))
            if line.outcome.starts_branch:
                self._tail.take_branch(partition, _branch_of(value))
            if line.source is None:
                continue
            position: InputPosition = partition, line.source.topic, line.source.offset
            self._recent.add(position, line, value)
            future = self._pending.get(position)
            if future is not None and not future.done():
                future.set_result(value)
        last = lines[-1]
        self._tail.take_time(partition, last.partition_sequence, from_iso(last.decided_at))
        parts = [
            part
            for line, value in zip(lines, values, strict=True)
            for part in lines_by_dataset(line, value)
        ]
        decided = (counted_decision(*part, usage=False) for part in parts)
        for dataset, run in runs(decided).items():
            self._view_folder.take_run(dataset, run)
        by_dataset = [line for line, _ in parts], [value for _, value in parts]
        self._limits.take_lines(partition, *by_dataset, self._views)
        self.usage_index.note_decision(partition, last.partition_sequence)
        if self._events.has_readers:
            self._events.send([decode_decision(value) for value in values])
        if self._appended.has_readers:
            self._appended.send([Appended(partition, lines[0].partition_sequence, values)])
        if self._alerts.has_readers:
            self._alerts.send([alert for line in lines for alert in alerts_of(line)])
        self._recent.forget_old()
        return False


def _too_many() -> Unavailable:
    return Unavailable(f"{MAX_PENDING} requests wait already: retry with the same bytes")


def _branch_of(value: bytes) -> int:
    rollback = decode_decision(value).rollback
    return 0 if rollback is None else rollback.branch


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


def _sort_by_name(views: list[tuple[str, DatasetView]]) -> list[DatasetView]:
    return [view for _, view in sorted(views)]
