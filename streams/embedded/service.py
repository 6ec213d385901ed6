"""A ledger in one SQLite file, decided in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from accountant.errors import BudgetError
from accountant.partition import Partition
from accountant.partition.decide import decide as decide_record
from accountant.partition.ids import id_key
from accountant.records import Decision, Source
from accountant.records.inputs import CheckedInput
from accountant.times import issued_at
from accountant.views.alerts import alerts_of
from streams.alerts.delivery_metrics import AlertDeliveryMetrics
from streams.alerts.webhook_outbox import outbox_of
from streams.clock import CheckedClock, Clock, SystemClock
from streams.embedded.answer_heads import LedgerAnswerHeads, signing_heads
from streams.embedded.checkpointing import check_ledger, check_missing, own_heads, senders_of
from streams.embedded.file_index import FileIndex
from streams.embedded.file_ownership import OwnedFile, own_file
from streams.embedded.journal import SqliteJournal
from streams.embedded.queue import (
    BatchWaiter,
    InputQueue,
    LoopWaiter,
    QueuedBody,
    Settled,
    ThreadWaiter,
    TurnBuffer,
)
from streams.embedded.sqlite_log import SqliteLog
from streams.embedded.writer import Writer, pause
from streams.errors import Gone, Unavailable
from streams.files.private_files import ensure_private
from streams.index import UsageReader, index_path
from streams.log.appended import Appended
from streams.log.async_log import AsyncLog
from streams.metrics.live_ledgers import LiveLedgers
from streams.processing.observers import Committed, Entitlement, Lag, Observer
from streams.processing.processor import Decide, Processor
from streams.service.announcements import Announcements
from streams.service.ledger_reads import LedgerReads
from streams.service.ledger_service import Readiness, Submission
from streams.settings import Settings
from streams.tasks.background import THREADS, Background

if TYPE_CHECKING:
    from streams.evidence.sink_choice import TopicSink
    from streams.metrics.registry import MetricsCollector


_MAX_READS: Final = 1_000  # of the log that may wait: of as many streams as a server has at most
_SOURCES: Final[tuple[Source, ...]] = ("requests", "admin")


class EmbeddedService(LedgerReads):
    """The `Service` of a ledger in a file. Use `open` to make one.

    Any thread and any event loop may call it. There is one writer at a time, and readers
    never wait for the writer.
    """

    def __init__(
        self,
        file: OwnedFile,
        settings: Settings,
        *,
        clock: Clock,
        decide: Decide,
        background: Background,
        topic_sink: TopicSink | None,
    ) -> None:
        self._lock = file.lock
        self._path = file.path
        self._inbox = InputQueue(settings.most_waiting)
        self._decisions = SqliteLog(file.path)
        announced = Announcements()
        log = AsyncLog(self._decisions, announced.appended.subscribe, max_waiting=_MAX_READS)
        index = index_path(file.path, settings)
        self._usage = UsageReader(SqliteLog(file.path), index, background=background)
        self.live_ledgers = LiveLedgers(
            clock,
            lags=lambda: [Lag("requests", 0, len(self._inbox))],
            analysts=settings.metrics_analysts,
            levels=settings.metrics_levels,
            index=self._usage,
        )
        file_index = FileIndex(self._decisions, self._usage, self._partition)
        super().__init__(clock, self.live_ledgers, file_index, log, announced)
        self.alert_counts = AlertDeliveryMetrics()
        self._outbox = outbox_of(
            file.path, self._decisions, settings, self.alert_counts, background
        )
        self.checkpoint_places = senders_of(settings, topic_sink, background)
        self._heads = own_heads(file.path, settings, clock, self.checkpoint_places, background)
        journal = SqliteJournal(file.path, inbox=self._inbox, file=file.identity, index=index)

        def make(observer: Observer, entitlement: Entitlement) -> Processor:
            return Processor(
                journal,
                file.genesis,
                observer,
                entitlement=entitlement,
                clock=clock,
                max_ahead_ms=settings.max_ahead_ms,
                batch=settings.batch,
                wait=settings.wait_seconds,
                decide=decide,
                sleep=pause,
            )

        self._writer = Writer(
            make,
            self._inbox,
            self.live_ledgers,
            CheckedClock(clock, settings.max_ahead_ms),
            on_begin=self._on_begin,
            publish=self._publish,
            background=background,
        )
        self._turns = TurnBuffer(self._writer.submit_many)

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Settings,
        *,
        clock: Clock | None = None,
        decide: Decide = decide_record,
        background: Background = THREADS,
        topic_sink: TopicSink | None = None,
        replace_ledger: bool = False,
    ) -> Self:
        """Open the file, create it if it is missing, and return once requests can be decided.

        Args:
            background: runs the writer, the index, checkpoints and alerts.
            topic_sink: makes topics that checkpoints are sent to; None: they cannot be.
            replace_ledger: create the file although a ledger that is gone was at its path.

        Raises:
            Refused: another process has the file open, a setting differs from the file's
                genesis, or the file is no ledger, damaged or reachable by two names; or it has
                lost decisions, holds another ledger's or is gone, as its checkpoints show.
            LogDamaged: the log in it contradicts itself.
        """
        clock, path = clock or SystemClock(), path.absolute()
        private = settings.authenticates
        file = own_file(
            path,
            settings.genesis(0, 1),
            clock.now(),
            before_new=lambda: check_missing(path, settings, replaces=replace_ledger),
            private=private,
        )
        try:
            check_ledger(file.path, settings, replaces=replace_ledger)
            if private:
                ensure_private(file.path, index_path(file.path, settings))
            service = cls(
                file,
                settings,
                clock=clock,
                decide=decide,
                background=background,
                topic_sink=topic_sink,
            )
            try:
                service._writer.start()
            except BaseException:
                service._close_readers()
                raise
        except BaseException:
            file.lock.release()
            raise
        return service

    def submit_sync(self, source: Source, body: bytes, wait: float) -> Submission:
        """Call `submit`, blocking this thread.

        Raises: Unavailable: as `submit`.
        """
        waiter = ThreadWaiter()
        self._writer.submit(
            QueuedBody(source, body, self._clock.now(), waiter), in_caller_thread=True
        )
        decided = waiter.wait(wait)
        value = None if decided is None else decided.value
        return Submission(decision=value, partition=0, offset=waiter.offset)

    def decide_sync(
        self, source: Source, body: bytes, wait: float, *, checked: CheckedInput | None = None
    ) -> Decision | None:
        """Call `submit_sync`, and return the decision itself, None if it takes longer than `wait`.

        Args:
            checked: the result of `inputs.check` for this body, if the caller has it already.
        """
        waiter = ThreadWaiter()
        entry = QueuedBody(source, body, self._clock.now(), waiter, checked)
        self._writer.submit(entry, in_caller_thread=True)
        decided = waiter.wait(wait)
        return None if decided is None else decided.decision

    async def submit(
        self,
        source: Source,
        body: bytes,
        *,
        wait: float,
        checked: CheckedInput | None = None,
        new: bool = False,
    ) -> Submission:
        waiter = LoopWaiter()
        entry = QueuedBody(source, body, self._clock.now(), waiter, checked)
        if wait <= 0:
            self._writer.submit(entry, in_caller_thread=False)
            return Submission(decision=None, partition=0)
        self._turns.add(entry, waiter, wait)
        decided = await waiter.wait()
        if decided is None:
            return Submission(decision=None, partition=0, offset=waiter.offset)
        value, digest = decided.value, decided.digest
        return Submission(decision=value, partition=0, offset=waiter.offset, digest=digest)

    async def submit_many(
        self,
        bodies: Sequence[bytes],
        *,
        wait: float,
        checked: Sequence[CheckedInput | None] | None = None,
    ) -> list[Submission | BudgetError]:
        """Implement `Service.submit_many`: one wait for all decisions, in few commits."""
        if not bodies:
            return []
        waiter, now = BatchWaiter(len(bodies)), self._clock.now()
        known = [None] * len(bodies) if checked is None else checked
        entries = [
            QueuedBody("requests", body, now, waiter.place(i), each)
            for i, (body, each) in enumerate(zip(bodies, known, strict=True))
        ]
        try:
            refused = self._writer.submit_many(entries)
        except Unavailable as error:
            return [error] * len(bodies)
        for i, failed in enumerate(refused, len(bodies) - len(refused)):
            waiter.set(i, failed)
        if wait > 0:
            await waiter.wait(wait)
        return list(map(_answer_of, waiter.found))

    def find_sync(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        """Call `find` in this thread."""
        waited = self._partition().pending.of_request(dataset, caller, request_id)
        if waited is not None:
            return self._decision(waited.latest)
        issued = issued_at(request_id)
        if issued is None or not (dataset.isascii() and caller.isascii()):
            return None  # no id, or no names
        for source in _SOURCES:
            known = self._partition().ids.get(issued, id_key(source, dataset, caller, request_id))
            if known is not None:
                return self._decision(known.partition_sequence)
        return None

    def _decision(self, number: int) -> bytes | None:
        """Return a decision, None if it is in an archive."""
        with contextlib.suppress(Gone):
            return next(iter(self._decisions.read(0, number, 1)), None)
        return None

    async def find(self, dataset: str, caller: str, request_id: str) -> bytes | None:
        return self.find_sync(dataset, caller, request_id)

    def newest_checkpoint(self, partition: int) -> bytes | None:
        return None if self._heads is None else self._heads.newest

    def readiness(self) -> Readiness:
        reasons = self._writer.reasons
        notes = [] if self._usage.trouble is None else [self._usage.trouble]
        if self._heads is not None:
            notes += self._heads.notes
            if not reasons and self._heads.refused is not None:
                reasons = [self._heads.refused]
        if self.checkpoint_places is not None:
            notes += self.checkpoint_places.notes
        return Readiness(ready=not reasons, reasons=reasons, notes=notes)

    def answer_heads(self, settings: Settings) -> LedgerAnswerHeads:
        """Return where the heads of the answers stand, and are signed; the caller closes it."""
        return signing_heads(self._path, settings, self._clock, self.checkpoint_places)

    @property
    def checkpoint_collectors(self) -> list[MetricsCollector]:
        """Collectors of the metrics on checkpoints."""
        found: list[MetricsCollector] = []
        if self._heads is not None:
            from streams.evidence.checkpoint_metrics import CheckpointMetrics

            heads = self._heads
            found.append(CheckpointMetrics(lambda: [heads]))
        if self.checkpoint_places is not None:
            found.append(self.checkpoint_places)
        return found

    def publish_address(self, address: str) -> None:
        """Write the address of this process's HTTP server into the lock file."""
        self._lock.publish(address)

    def on_end(self, callback: Callable[[BaseException], None]) -> None:
        """Call `callback` in another thread when this ledger can decide nothing more."""
        self._writer.on_end(callback)

    def close_sync(self) -> None:
        """Call `close`, blocking this thread."""
        # Close readers before the writer: SQLite empties the `-wal` into the file as the last
        # connection is closed, unless that one only reads.
        self._close_readers()
        self._writer.stop()
        for each in (self._heads, self.checkpoint_places):
            if each is not None:
                each.close()
        self._announced.end()
        self._lock.release()

    def _close_readers(self) -> None:
        self._usage.close()
        if self._outbox is not None:
            self._outbox.close()
        self.log.close()
        self._decisions.close()

    async def close(self) -> None:
        await asyncio.to_thread(self.close_sync)

    def _partition(self, number: int = 0) -> Partition:
        partition = self._writer.partition
        if partition is None:
            raise Unavailable("; ".join(self._writer.reasons) or "refolding")
        return partition

    def _on_begin(self, partition: Partition) -> None:
        if self._heads is not None:
            self._heads.begin(partition)
        # A commit whose outcome was unknown to this process is read from the log.
        self._announced.appended.send([Appended(0, partition.sequence + 1, ())])
        if self._outbox is not None:
            self._outbox.begin(partition.sequence)

    def _publish(self, committed: Committed) -> None:
        records = [encoded for _, encoded in committed.records]
        if self._heads is not None:
            self._heads.wake(committed.partition)  # before anybody sees them
        self._usage.wake()
        alerts = {
            each.partition_sequence: alerts_of(each.decision) for each in records if each.crossed
        }
        self._announced.send(
            0,
            records[0].partition_sequence,
            lambda: [encoded.value for encoded in records],
            lambda: [encoded.decision for encoded in records],
            lambda: [alert for found in alerts.values() for alert in found],
        )
        if alerts and self._outbox is not None:
            self._outbox.note({number: len(found) for number, found in alerts.items()})


def _answer_of(settled: Settled) -> Submission | BudgetError:
    if settled is None:
        return Submission(decision=None, partition=0)
    if isinstance(settled, Exception):
        if isinstance(settled, BudgetError):
            return settled
        raise settled
    offset, decided = settled
    return Submission(decision=decided.value, partition=0, offset=offset, digest=decided.digest)
