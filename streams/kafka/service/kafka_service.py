"""A ledger on Kafka as a `Service`, for the gateway and for clients with a kafka:// URL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from accountant.errors import BudgetError, MadeByOtherVersion
from accountant.partition import Partition
from accountant.records import DECODE_ERRORS, Decision, Source, decode_decision
from accountant.records.header import decode_header
from accountant.records.inputs import CheckedInput
from accountant.views.alerts import alerts_of
from streams.clock import Clock, SystemClock
from streams.errors import JournalFault, Refused, Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.log.genesis import check_placement
from streams.kafka.log.topics import check_partition_counts
from streams.kafka.service.follower.followed_states import FollowedStates
from streams.kafka.service.follower.recent_decisions import RecentDecisions
from streams.kafka.service.follower.tail import Tail
from streams.kafka.service.submissions import Submissions
from streams.kafka.service.usage import KafkaUsage
from streams.service.announcements import Announcements
from streams.service.ledger_reads import LedgerReads
from streams.service.ledger_service import Readiness, Submission

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
        announced = Announcements(_MAX_BATCHES)
        self.usage_index = KafkaUsage(deployment, index, announced.appended.subscribe)
        self.states = FollowedStates(deployment)
        super().__init__(
            clock, self.states.counts, self.usage_index, self.usage_index.log, announced
        )
        self._submissions = Submissions(deployment, self._recent)
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
        await self._submissions.start()

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
        self._check_follows()
        return await self._submissions.submit(source, body, wait=wait, checked=checked)

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
        return await self._submissions.submit_many(bodies, wait=wait, checked=checked)

    async def _until_wanted(self) -> None:
        """Return at once while a caller waits for a decision, else at a call or after a pause.

        Each read takes about a millisecond in two processes, even if there is nothing to read.
        """
        if self._submissions.is_awaited or self._announced.has_readers:
            await asyncio.sleep(0)  # a backlog must not keep other tasks from their turn
            return
        wanted = self._submissions.wanted
        wanted.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await wanted.wait()

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
        await self._submissions.stop()
        await self.usage_index.close()
        self._announced.end()
        self._submissions.give_up()

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
        # Not decoded: the decoded decisions of a whole batch would displace the processor's caches.
        shown = list[bytes]()
        for first in range(0, len(values), _A_TURN):
            shown += self._take_turn(partition, values[first : first + _A_TURN])
            await asyncio.sleep(0)
        if not shown:
            return False
        self._announced.send(
            partition,
            decode_header(shown[0]).partition_sequence,
            lambda: shown,
            lambda: _readable(shown),
            lambda: [alert for value in shown for alert in alerts_of(decode_header(value))],
        )
        self._recent.forget_old()
        return False

    def _take_turn(self, partition: int, values: list[bytes]) -> list[bytes]:
        """Apply decisions, then answer those who wait for them; return those to show subscribers.

        The state is moved first: whoever is answered finds their decision in the next read.
        """
        shown, last = list[bytes](), self._shown.get(partition, -1)
        for value in values:
            taken = self.states.take(partition, value)
            if taken is None:
                continue  # unreadable
            line, is_applied = taken
            if is_applied or line.partition_sequence > last:
                last = self._shown[partition] = line.partition_sequence
                shown.append(value)
            source = line.source
            if source is not None:
                self._submissions.answer((partition, source.topic, source.offset), line, value)
        if shown:
            self.usage_index.note_decision(partition, last)
        return shown


def _readable(values: Sequence[bytes]) -> list[Decision]:
    """Return decisions without those that this version cannot read, which stop their partition."""
    found = list[Decision]()
    for value in values:
        with contextlib.suppress(*DECODE_ERRORS, MadeByOtherVersion):
            found.append(decode_decision(value))
    return found


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
