"""A worker: the partitions that its consumer group assigns to it, each with its processor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from accountant.partition.decide import decide as decide_record
from streams.clock import (
    CLOCK_OUT_OF_RANGE,
    MAX_AHEAD_MS,
    CheckedClock,
    Clock,
    SystemClock,
    steady,
)
from streams.errors import ClockOutOfRange, JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log import topics as kafka_topics
from streams.kafka.log.broker_clock import compare_clock
from streams.kafka.log.journal import HeaderReader, KafkaJournal
from streams.kafka.log.membership import GroupMembership
from streams.processing.observers import Lag, Observer, Observers
from streams.processing.processor import BATCH, WAIT_S, Decide, Processor, no_hook
from streams.telemetry.logs import get_logger
from streams.worker.leader_watch import LeaderWatch
from streams.worker.lease import Lease
from streams.worker.status import BROKER, Status, broker_away

_log = get_logger(__name__)

_RELEASE_S: Final = 2.0
_LOOK_EVERY_S: Final = 3.0
_CHECK_S: Final = 60.0
_RETRY_S: Final = 1.0
_NOT_COMPARED: Final = "the clock was not compared with a broker's"
_LOOKS_AGAIN: Final = (1.0, 3.0, 6.0, 10.0)

T = TypeVar("T")


class Worker:
    """Serves the partitions assigned to one member of the group.

    Args:
        deployment: topics and genesis.
        instance_id: the static member's name, the same after a restart: the partitions of a
            killed worker then wait for it, and no other member is disturbed.
        observers: receive the events of every partition, after `status`.
        headers: gets the headers of inputs.
        batch, wait, clock, most_ahead_ms, decide, reach, looks_again: see `Processor`.
        check_every: seconds between two checks of the topics' settings.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        instance_id: str,
        observers: Iterable[Observer] = (),
        headers: HeaderReader | None = None,
        batch: int = BATCH,
        wait: float = WAIT_S,
        clock: Clock | None = None,
        max_ahead_ms: int = MAX_AHEAD_MS,
        decide: Decide = decide_record,
        reach: Callable[[str], Awaitable[None]] = no_hook,
        looks_again: Sequence[float] = _LOOKS_AGAIN,
        check_every: float = _CHECK_S,
    ) -> None:
        self.status = Status()
        self._deployment = deployment
        self._instance_id = instance_id
        self._observer = Observers([self.status, *observers])
        self._headers = headers
        self._batch = batch
        self._wait_s = wait
        self._clock = clock or SystemClock()
        self._most_ahead_ms = max_ahead_ms
        self._decide = decide
        self._reach = reach
        self._looks_again = looks_again
        self._check_every = check_every
        self._group: GroupMembership | None = None
        self._generation = 0
        self._assigned: set[int] = set()
        self._log_ends = LeaderWatch(deployment, self.status, self._check_again)
        self._tasks: dict[int, tuple[asyncio.Task[None], Lease]] = {}
        self._main: asyncio.Task[None] | None = None
        self._lags: list[Lag] = []
        self._checked_clock = CheckedClock(self._clock, max_ahead_ms)
        self._clock_agrees = False  # with a broker's, when they were last compared
        self._note: str | None = None
        self._held: set[str] = set()  # what is wrong, so that no partition is served

    async def start(self) -> None:
        """Start, without waiting for the broker."""
        self._main = asyncio.create_task(self._run(), name="worker")

    async def wait_fatal(self) -> None:
        """Return once stopped; raise what ended the worker otherwise.

        Raises: Refused: the start is refused; LedgerFault.
        """
        if self._main is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._main)

    async def stop(self) -> None:
        """Release every partition and leave. Safe to repeat, also after a failed start."""
        main, self._main = self._main, None
        if main is not None:
            main.cancel()
            await asyncio.wait([main])
        await self._leave()
        self._log_ends.close()

    @property
    def notes(self) -> list[str]:
        """Notes for operators, for `/readyz`."""
        return [] if self._note is None else [self._note]

    def lags(self) -> Sequence[Lag]:
        """Return the last known lags of the inputs of the served partitions."""
        return self._lags

    async def _run(self) -> None:
        await self._first_check()
        await self._check_clock()
        checked = steady()
        while True:
            group = await self._join()
            while await self._wait(group):
                for partition in await self._log_ends.look(list(self._tasks)):
                    await self._restart(partition)
                if self._held or steady() - checked >= self._check_every:
                    checked = steady()
                    await self._check_again()
                    if not self._clock_agrees:
                        await self._check_clock()
                self._lags = await group.hint(self.status.serving)
            self.status.trouble("start", "joining the group again. Wait some seconds")
            await self._leave()

    async def _wait(self, group: GroupMembership) -> bool:
        try:
            return await group.wait(_LOOK_EVERY_S)
        except Refused as error:
            self.status.trouble("start", str(error))
            raise

    async def _first_check(self) -> None:
        """Wait for the broker, and refuse the start if the topics are wrong."""
        self.status.trouble("start", "starting. Wait some seconds")
        await self._once_answered(lambda: kafka_topics.check(self._deployment))
        self.status.trouble(BROKER, None)

    async def _join(self) -> GroupMembership:
        """Join the group as soon as the broker answers.

        Raises: Refused.
        """

        async def join() -> GroupMembership:
            self._group = GroupMembership(
                self._deployment,
                self._instance_id,
                on_revoked=self._on_revoked,
                on_assigned=self._on_assigned,
            )
            await self._group.join()
            return self._group

        group = await self._once_answered(join)
        self.status.trouble("start", None)
        return group

    async def _once_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again until the broker answers."""
        while True:
            try:
                return await ask()
            except Unavailable as error:
                self.status.trouble(BROKER, broker_away("the broker", error))
                await asyncio.sleep(_RETRY_S)

    async def _leave(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await group.leave()  # first: no partition may be assigned during the release
        await self._release(list(self._tasks))
        self._assigned.clear()

    async def _on_revoked(self, partitions: set[int]) -> None:
        self._assigned -= partitions
        await self._release(partitions)

    def _on_assigned(self, partitions: set[int]) -> None:
        """Serve the assigned partitions, in a new generation."""
        self._generation += 1
        self._assigned |= partitions
        for partition in sorted(partitions):
            self._serve(partition)

    def _serve(self, partition: int, *, after: Lease | None = None) -> None:
        """Start the processor of a partition, unless one runs or something is wrong."""
        if partition in self._tasks or self._held:
            return
        assert self._group is not None
        lease = Lease(lambda: self._generation, after=after)
        deployment = self._deployment
        journal = KafkaJournal(
            deployment.cluster,
            deployment.application,
            deployment.topics,
            partition,
            self._group.inbox,
            headers=self._headers,
        )
        processor = Processor(
            journal,
            deployment.genesis(partition),
            self._observer,
            entitlement=lease,
            clock=self._clock,
            checked_clock=self._checked_clock,
            batch=self._batch,
            wait=self._wait_s,
            decide=self._decide,
            reach=self._reach,
            looks_again=self._looks_again,
        )
        self.status.assigned(partition)
        task = asyncio.create_task(processor.run(), name=f"partition-{partition}")
        self._tasks[partition] = task, lease

    async def _release(self, partitions: Iterable[int]) -> None:
        tasks = []
        for partition in partitions:
            task, lease = self._tasks.pop(partition, (None, None))
            if task is None or lease is None:
                continue
            lease.revoked = True
            task.cancel()
            tasks.append(task)
            self.status.revoked(partition)
            self._observer.dropped(partition, None)
            self._log_ends.forget(partition)
        if tasks:
            await asyncio.wait(tasks, timeout=_RELEASE_S)

    async def _restart(self, partition: int) -> None:
        """Drop a partition and replay it, unless it was revoked meanwhile."""
        _, lease = self._tasks.get(partition, (None, None))
        await self._release([partition])
        if partition in self._assigned:
            self._serve(partition, after=lease)

    async def _check_again(self) -> bool:
        """Check the topics; serve nothing while they are wrong; return whether they are wrong."""
        try:
            await kafka_topics.check(self._deployment)
        except Refused as error:
            await self._hold("topics", str(error))
        except JournalFault:
            pass  # the probe reports that the broker is away
        else:
            self._unhold("topics")
        return "topics" in self._held

    async def _check_clock(self) -> None:
        """Compare the clock with a broker's; serve nothing while it is too far ahead.

        Once they agree, `CheckedClock` suffices: it compares the clock with the monotonic one
        before each batch. A broker that does not answer this does not stop the others' partitions.
        """
        note = None
        try:
            agrees = await compare_clock(self._deployment, self._clock, self._instance_id)
        except ClockOutOfRange as error:
            await self._hold("clock", f"{CLOCK_OUT_OF_RANGE}: {error}")
        except (JournalFault, Refused) as error:
            note = f"{_NOT_COMPARED}: {error}"
            if note != self._note:
                _log.warning("clock_not_compared", why=str(error), then="asks again")
        else:
            if not agrees:
                note = f"{_NOT_COMPARED}: brokers before Kafka 3.0 give no time"
            self._clock_agrees = True
            # From now on a jump counts, not from the start: the clock may have been set since.
            self._checked_clock = CheckedClock(self._clock, self._most_ahead_ms)
            self._unhold("clock")
        self._note = note

    async def _hold(self, what: str, why: str) -> None:
        """Release every partition, and serve none, until `what` is right again."""
        if what not in self._held:
            _log.error(f"{what}_wrong", why=why)
        self._held.add(what)
        self.status.trouble(what, why)
        await self._release(list(self._tasks))

    def _unhold(self, what: str) -> None:
        """Serve the assigned partitions again, unless something else is wrong."""
        self.status.trouble(what, None)
        if what in self._held:
            self._held.remove(what)
            for partition in sorted(self._assigned):
                self._serve(partition)
