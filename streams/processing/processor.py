"""The processor of one partition: own, replay, serve; after any fault it starts over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from accountant.errors import LedgerFault, LogDamaged
from accountant.partition import Partition
from accountant.partition.decide import decide, decide_internal_error
from accountant.partition.draft import Draft
from accountant.records import Genesis
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.records.outcomes import Reason
from streams.clock import MAX_AHEAD_MS, CheckedClock, Clock, SystemClock
from streams.error_words import words_of
from streams.errors import CommitRejected, Refused, Unavailable
from streams.processing.journal import Commit, DeadLetter, Journal
from streams.processing.observers import AlwaysEntitled, Committed, Entitlement, Observer
from streams.processing.poison import Poison
from streams.processing.recovery import recover_partition
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

DEAD: Final = frozenset(
    {Reason.UNDECODABLE, Reason.OVERSIZE, Reason.WRONG_PARTITION, Reason.INTERNAL_ERROR}
)
"""Inputs decided with one of these reasons also go to the dead letters."""
BATCH: Final = 2_000
"""Default for the most records in one transaction. A batch takes only the waiting records."""
WAIT_S: Final = 0.1
MOST_DECISION_BYTES: Final = 262_144
_TURN_S: Final = 0.02  # longest run of deciding before other tasks get a turn
_PAUSES: Final = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds, before owning again

Decide = Callable[[Draft, Input, int], EncodedDecision]


async def no_hook(_point: str) -> None:
    """Do nothing; tests replace this hook to crash at a named point."""


class Processor:
    """Decides the inputs of one partition, each exactly once.

    The journal has the only authoritative state. An error between a read and its commit leaves the
    outcome unknown, so the processor drops everything in memory and replays the log.

    Args:
        clock: measures durations, and dates decisions if there is no `checked_clock`.
        max_ahead_ms: how far that may be ahead of the last decision.
        checked_clock: dates decisions; one for all partitions of a process, since a clock's jump
            concerns those that are assigned later, too.
        batch: most records a transaction.
        wait: longest wait for the first record of a batch, in seconds.
        looks_again: seconds to wait before each retry of a fault that would halt the partition.
            A deposed leader that does not know it yet can show a log with its end missing.
    """

    def __init__(
        self,
        journal: Journal,
        genesis: Genesis,
        observer: Observer,
        *,
        entitlement: Entitlement | None = None,
        clock: Clock | None = None,
        max_ahead_ms: int = MAX_AHEAD_MS,
        checked_clock: CheckedClock | None = None,
        batch: int = BATCH,
        wait: float = WAIT_S,
        decide: Decide = decide,
        reach: Callable[[str], Awaitable[None]] = no_hook,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        looks_again: Sequence[float] = (),
    ) -> None:
        self._journal = journal
        self._genesis = genesis
        self._observer = observer
        self._entitlement = entitlement or AlwaysEntitled()
        clock = clock or SystemClock()
        self._steady = clock.monotonic
        self._clock = checked_clock or CheckedClock(clock, max_ahead_ms)
        self._wait = wait
        self._decide = decide
        self._reach = reach
        self._sleep = sleep
        self._poison = Poison(batch)
        self._pauses = 0  # taken since the last commit
        self._looks_again = looks_again
        # Refusals tolerated since the last commit. Only a commit resets this: a replay succeeds
        # even if commits are refused.
        self._retries = 0
        self._log = _log.bind(partition=genesis.partition)

    async def run(self) -> None:
        """Own, replay and serve until cancelled, no longer entitled, or halted.

        A cancelled run ends and never owns again. On a halt the processor gives the observer the
        reason; the other partitions continue.
        """
        fault: BaseException | None = None
        pause = 0.0
        while await self._entitlement.may_own(fault):
            try:
                await self._journal.own()
                await self._reach("owned")
                partition = await self._replay()
                await self._serve(partition)
            except asyncio.CancelledError:
                self._observer.dropped(self._genesis.partition, None)
                raise
            except (Refused, LogDamaged) as error:
                if self._retries == len(self._looks_again):
                    self._halt(error)
                    return
                fault, pause = error, self._doubt(error)
            except Exception as error:
                self._log.warning(
                    "partition_dropped", error=type(error).__name__, why=words_of(error)
                )
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
        """Report a fault that would halt the partition; return the seconds until the next try."""
        pause = self._looks_again[self._retries]
        self._retries += 1
        self._poison.absolve()
        why = words_of(error)
        self._log.warning("partition_doubted", why=why, then=f"looks again in {pause:g} s")
        self._observer.dropped(self._genesis.partition, error)
        return pause

    def _halt(self, error: BaseException) -> None:
        self._log.error("partition_halted", error=type(error).__name__, why=words_of(error))
        self._observer.halted(self._genesis.partition, error)

    async def _replay(self) -> Partition:
        started = self._steady()
        partition = await recover_partition(self._journal, self._genesis, self._sleep)
        self._check_entitled()
        await self._journal.seek(partition.next)
        seconds = self._steady() - started
        counts = {"datasets": len(partition.ledgers), "ids": len(partition.ids)}
        decisions, took = partition.sequence + 1, round(seconds, 3)
        ledger = partition.genesis.ledger
        self._log.info(
            "partition_refolded", ledger=ledger or None, decisions=decisions, **counts, seconds=took
        )
        self._observer.replayed(partition, seconds)
        return partition

    async def _serve(self, partition: Partition) -> None:
        while True:
            self._check_entitled()
            limit = self._poison.batch
            records = await self._journal.read(limit, self._wait)
            # Check the clock while idle too: a jump is reported at once, not with the next request.
            now = self._clock.now(partition.decided_at)
            if records:
                _check_new(partition, records)
                self._poison.suspect(records)
                await self._commit(partition, records, now)
                self._poison.cleared(len(records))
                self._pauses = self._retries = 0

    async def _commit(self, partition: Partition, records: Sequence[Input], now: int) -> None:
        """Decide records, commit their decisions, and only then apply them to the partition.

        The steps, and what the successor finds if the process dies after each:

        1. Decide into a draft. Nothing is written: the successor replays the earlier commits,
           reads the same records and decides them by its own clock.
        2. Check that this processor may still own the partition. A crash after this: as after 1.
        3. Commit: decisions, rows and dead letters become visible all at once or never (Kafka:
           the steps of `TransactionalProducer.transact`; SQLite: one transaction). If the process
           dies within the commit, or the commit raises, the outcome is unknown and no caller has
           an answer. The successor's replay finds out. If the decisions are visible, it continues
           after these records, which they name as their `source`; if not, as after 1.
        4. Absorb the draft. Memory now equals the log: a crash loses only the copy in memory.
        5. Notify the observers, which answer callers. A caller without an answer sends the same
           id again and gets `repeated`.

        The processor retries no step: after any error it drops the partition and replays the log.
        """
        # 1
        draft = Draft(partition)
        decided = await self._decide_all(draft, records, now)
        # 2
        self._check_entitled()
        await self._reach("decided")
        # 3
        started = self._steady()
        await self._journal.commit(
            Commit(
                decisions=[encoded for _, encoded in decided],
                rows=draft.rows(),
                dead_letters=[DeadLetter(r, e.reason) for r, e in decided if e.reason in DEAD],
                next=draft.next,
                at=draft.decided_at,
            )
        )
        await self._reach("committed")
        # 4
        draft.absorb()
        # 5
        seconds = self._steady() - started
        self._observer.committed(Committed(partition, decided, seconds))

    async def _decide_all(
        self, draft: Draft, records: Sequence[Input], now: int
    ) -> list[tuple[Input, EncodedDecision]]:
        decided = []
        decide_one, steady = self._decide_one, self._steady
        turn = steady() + _TURN_S
        for record in records:
            decided.append((record, decide_one(draft, record, now)))
            if steady() > turn:
                # Let heartbeats and other partitions run. This is safe: only this task uses the
                # draft.
                await self._sleep(0)
                turn = steady() + _TURN_S
        return decided

    def _check_entitled(self) -> None:
        """End like a cancelled run if the partition was revoked.

        A revocation cancels the run, but the Kafka client can swallow the cancellation. Without
        this check, a revoked owner would keep reading while its successor reads, too.
        """
        if not self._entitlement.holds():
            raise asyncio.CancelledError

    def _decide_one(self, draft: Draft, record: Input, now: int) -> EncodedDecision:
        if self._poison.is_poison(record):
            return decide_internal_error(draft, record, now)
        mark = draft.mark()
        try:
            encoded = self._decide(draft, record, now)
            if len(encoded.value) <= MOST_DECISION_BYTES:
                return encoded
            what = f"its decision would take {len(encoded.value)} bytes"
        except Exception as error:
            # A request that makes the adjudication fail must not stop the partition.
            what = type(error).__name__
        self._log.error("internal_error", source=record.source, offset=record.offset, error=what)
        draft.rewind(mark)
        return decide_internal_error(draft, record, now)


def _check_new(partition: Partition, records: Sequence[Input]) -> None:
    """Refuse inputs that were decided already. The replay that follows resumes after them.

    Raises: Unavailable.
    """
    following = dict(partition.next)
    for record in records:
        if record.offset < following[record.source]:
            raise Unavailable(
                f"{record.source}: got offset {record.offset}, expected "
                f"{following[record.source]} or later"
            )
        following[record.source] = record.offset + 1
