"""The processor of one partition: own, refold, serve; on any fault, from the beginning."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from accountant.errors import LedgerFault, LogDamaged
from accountant.partition import Partition
from accountant.partition.decide import decide, decide_internal_error
from accountant.partition.draft import Draft
from accountant.records import Genesis
from accountant.records.decided import Encoded
from accountant.records.inputs import Input
from accountant.records.outcomes import Reason
from accountant.replay.refold import Refold, StateMismatch, state_rows
from streams.clock import CheckedClock, Clock, SystemClock
from streams.errors import CommitRejected, Refused, Unavailable
from streams.loggers import get_logger
from streams.processing.journal import Commit, DeadLetter, Journal
from streams.processing.observers import AlwaysEntitled, Committed, Entitlement, Observer
from streams.processing.poison import Poison

_log = get_logger(__name__)

DEAD: Final = frozenset(
    {Reason.UNDECODABLE, Reason.OVERSIZE, Reason.WRONG_PARTITION, Reason.INTERNAL_ERROR}
)
"""Inputs decided so are set aside, too."""
MOST_DECISION_BYTES: Final = 262_144
_ROWS_A_COMMIT: Final = 2_000
_YIELD_EVERY: Final = 500
_TURN_S: Final = 0.02  # longest time of deciding before other tasks get their turn
_PAUSES: Final = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds, before owning again

Decide = Callable[[Draft, Input, int], Encoded]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How a processor trades latency for throughput.

    Attributes:
        batch: most records a transaction.
        wait: longest wait for the first record of a batch, in seconds.
    """

    batch: int = 500
    wait: float = 0.1


async def nowhere(_point: str) -> None:
    """Stand where tests crash a processor."""


class Processor:
    """Decide the inputs of one partition, each exactly once.

    The only state is what the journal committed: any error between reading and committing
    leaves the outcome unknown, so everything in memory is dropped and read again.

    Args:
        looks_again: seconds before each further look at what would halt it. A broker that leads
            a log no more, and does not know it yet, shows one that was cut off.
    """

    def __init__(
        self,
        journal: Journal,
        genesis: Genesis,
        observer: Observer,
        *,
        entitlement: Entitlement | None = None,
        clock: Clock | None = None,
        tuning: Tuning | None = None,
        decide: Decide = decide,
        reach: Callable[[str], Awaitable[None]] = nowhere,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        looks_again: Sequence[float] = (),
    ) -> None:
        self._journal = journal
        self._genesis = genesis
        self._observer = observer
        self._entitlement = entitlement or AlwaysEntitled()
        self._clock = CheckedClock(clock or SystemClock())
        self._tuning = tuning or Tuning()
        self._decide = decide
        self._reach = reach
        self._sleep = sleep
        self._poison = Poison(self._tuning.batch)
        self._pauses = 0  # taken since the last commit
        self._looks_again = looks_again
        # Refusals tolerated since the last commit. Only a commit resets this: a refold succeeds
        # even where commits are refused.
        self._looked = 0
        self._log = _log.bind(partition=genesis.partition)

    async def run(self) -> None:
        """Own, refold and serve until cancelled, no longer entitled, or halted.

        A cancelled run ends and never owns again. A halt is told to the observer, with its
        reason; the other partitions go on.
        """
        fault: BaseException | None = None
        pause = 0.0
        while await self._entitlement.may_own(fault):
            try:
                await self._journal.own()
                await self._reach("owned")
                partition = await self._refold()
                await self._serve(partition)
            except asyncio.CancelledError:
                self._observer.dropped(self._genesis.partition, None)
                raise
            except (Refused, LogDamaged) as error:
                if self._looked == len(self._looks_again):
                    self._halt(error)
                    return
                fault, pause = error, self._doubt(error)
            except Exception as error:
                self._log.warning("partition_dropped", error=type(error).__name__, why=str(error))
                self._observer.dropped(self._genesis.partition, error)
                if isinstance(error, LedgerFault) and not isinstance(error, CommitRejected):
                    self._poison.absolve()
                elif self._poison.blame():
                    self._halt(error)
                    return
                fault, pause = error, _PAUSES[min(self._pauses, len(_PAUSES) - 1)]
                self._pauses += 1
            finally:
                await self._journal.drop()
            await self._sleep(pause)

    def _doubt(self, error: BaseException) -> float:
        """Tell of what would halt it; return how long to wait before the next look."""
        pause = self._looks_again[self._looked]
        self._looked += 1
        self._poison.absolve()
        why = f"{type(error).__name__}: {error}"
        self._log.warning("partition_doubted", why=why, then=f"looks again in {pause:g} s")
        self._observer.dropped(self._genesis.partition, error)
        return pause

    def _halt(self, error: BaseException) -> None:
        self._log.error("partition_halted", error=type(error).__name__, why=str(error))
        self._observer.halted(self._genesis.partition, error)

    async def _refold(self) -> Partition:
        started = time.perf_counter()
        refold, keys = Refold(self._genesis), list[bytes]()
        try:
            async for key, value in self._journal.rows():
                refold.take_row(key, value)
                keys.append(key)
            partition = await self._fold(refold)
        except StateMismatch as error:
            self._log.warning("state_mismatch", why=str(error), then="refold from decision 0")
            partition = await self._fold(Refold(self._genesis, instead_of=refold))
            await self._rewrite(partition, keys)
        else:
            if not keys and partition.ledgers:
                await self._rewrite(partition, keys)
        self._check_entitled()
        await self._journal.seek(partition.next)
        seconds = time.perf_counter() - started
        self._log.info(
            "partition_refolded",
            decisions=partition.sequence + 1,
            datasets=len(partition.ledgers),
            ids=len(partition.ids),
            seconds=round(seconds, 3),
        )
        self._observer.refolded(partition, seconds)
        return partition

    async def _fold(self, refold: Refold) -> Partition:
        taken = 0
        async for value in self._journal.decisions(refold.start):
            refold.take_decision(value)
            taken += 1
            if taken % _YIELD_EVERY == 0:
                await self._sleep(0)
        return refold.finish()

    async def _rewrite(self, partition: Partition, keys: Sequence[bytes]) -> None:
        """Make `state` agree with the log again, its partition row last."""
        rows: list[tuple[bytes, bytes | None]] = [*state_rows(partition)]
        known = {key for key, _ in rows}
        rows = [*((key, None) for key in dict.fromkeys(keys) if key not in known), *rows]
        for i in range(0, len(rows), _ROWS_A_COMMIT):
            part = rows[i : i + _ROWS_A_COMMIT]
            await self._journal.commit(Commit([], part, [], partition.next, partition.decided_at))

    async def _serve(self, partition: Partition) -> None:
        while True:
            self._check_entitled()
            most = self._poison.batch
            records = await self._journal.read(most, self._tuning.wait)
            # Also while idle: a clock that jumps is told at once, not with the next request.
            now = self._clock.now(partition.decided_at)
            if records:
                _check_going_on(partition, records)
                self._poison.suspect(records)
                await self._commit(partition, records, now)
                self._poison.cleared(len(records))
                self._pauses = self._looked = 0

    async def _commit(self, partition: Partition, records: Sequence[Input], now: int) -> None:
        draft = Draft(partition)
        decided = []
        turn = time.perf_counter()
        for record in records:
            decided.append((record, self._decide_one(draft, record, now)))
            if time.perf_counter() - turn > _TURN_S:
                # The draft is nobody else's: heartbeats and other partitions get their turn.
                await self._sleep(0)
                turn = time.perf_counter()
        self._check_entitled()
        dead = [
            DeadLetter(record, encoded.reason)
            for record, encoded in decided
            if encoded.reason in DEAD
        ]
        await self._reach("decided")
        started = time.perf_counter()
        await self._journal.commit(
            Commit(
                decisions=[encoded for _, encoded in decided],
                rows=draft.rows(),
                dead_letters=dead,
                next=draft.next,
                at=draft.decided_at,
            )
        )
        await self._reach("committed")
        draft.absorb()
        seconds = time.perf_counter() - started
        self._observer.committed(Committed(partition, decided, seconds))

    def _check_entitled(self) -> None:
        """End like a cancelled run where the partition was revoked.

        The client's own code can swallow the cancellation that a revocation sends: without
        this, an owner that was let go would read on beside its successor.
        """
        if not self._entitlement.holds():
            raise asyncio.CancelledError

    def _decide_one(self, draft: Draft, record: Input, now: int) -> Encoded:
        if self._poison.is_poison(record):
            return decide_internal_error(draft, record, now)
        mark = draft.mark()
        try:
            encoded = self._decide(draft, record, now)
            if len(encoded.value) <= MOST_DECISION_BYTES:
                return encoded
            what = f"its decision would take {len(encoded.value)} bytes"
        except Exception as error:
            # Whatever a request can make adjudication do, it must not stop the partition.
            what = type(error).__name__
        self._log.error("internal_error", source=record.source, offset=record.offset, error=what)
        draft.rewind(mark)
        return decide_internal_error(draft, record, now)


def _check_going_on(partition: Partition, records: Sequence[Input]) -> None:
    """Refuse inputs that were decided already: whatever sent them again, to refold is safe.

    Raises: Unavailable.
    """
    following = dict(partition.next)
    for record in records:
        if record.offset < following[record.source]:
            raise Unavailable(
                f"{record.source}: offset {record.offset} came where "
                f"{following[record.source]} is next"
            )
        following[record.source] = record.offset + 1
