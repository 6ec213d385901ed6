"""A ledger in one SQLite file, decided in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from accountant.partition import Partition
from accountant.partition.decide import decide as decide_record
from accountant.partition.ids import id_key
from accountant.records import Decision, Source
from accountant.records.inputs import Checked
from accountant.times import issued_at
from accountant.views.alerting.own_alerts import OwnAlerts, crossed
from accountant.views.datasets import Alert
from accountant.views.heads import Head
from streams.alerts.counts import AlertCounts
from streams.alerts.webhook_outbox import outbox_of
from streams.broadcast import Broadcast, Subscription
from streams.clock import CheckedClock, Clock, SystemClock
from streams.embedded.file_ownership import OwnedFile, own_file
from streams.embedded.journal import SqliteJournal
from streams.embedded.own_checkpoints.place import check_ledger, own_heads, senders_of
from streams.embedded.queue import InputQueue, LoopWaiter, QueuedBody, ThreadWaiter
from streams.embedded.reading.reads import FileReads
from streams.embedded.writer import Writer, pause
from streams.errors import Unavailable
from streams.index import index_path
from streams.private_files import keep_private
from streams.processing.observers import Committed, Entitlement, Observer
from streams.processing.processor import Decide, Processor
from streams.service import Answer, Appended, Readiness, heads_of
from streams.settings import Settings

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_SOURCES: Final[tuple[Source, ...]] = ("requests", "admin")


class EmbeddedService(FileReads):
    """The embedded ledger as a `Service`. Make it by `open`.

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
    ) -> None:
        self._lock = file.lock
        self._clock = clock
        self._inbox = InputQueue(settings.most_waiting)
        super().__init__(file.path, settings, clock, self._partition, self._inbox.__len__)
        self._events = Broadcast[Decision]()
        self._appended = Broadcast[Appended]()
        self._alerts = Broadcast[Alert]()
        self._crossings = OwnAlerts()
        self.alert_counts = AlertCounts()
        self._outbox = outbox_of(
            file.path,
            lambda: self._reader.decision(0),
            settings,
            self.alert_counts,
            self._crossed,
        )
        self.checkpoint_places = senders_of(settings)
        self._heads = own_heads(file, settings, clock, self.checkpoint_places)
        index = index_path(file.path, settings)
        journal = SqliteJournal(file.path, inbox=self._inbox, file=file.identity, index=index)

        def make(observer: Observer, entitlement: Entitlement) -> Processor:
            return Processor(
                journal,
                file.genesis,
                observer,
                entitlement=entitlement,
                clock=clock,
                most_ahead_ms=settings.most_ahead_ms,
                batch=settings.batch,
                wait=settings.wait_seconds,
                decide=decide,
                sleep=pause,
            )

        self._writer = Writer(
            make,
            self._inbox,
            self.live_ledgers,
            CheckedClock(clock, settings.most_ahead_ms),
            begun=self._begun,
            publish=self._publish,
        )

    @classmethod
    def open(
        cls,
        path: Path,
        settings: Settings,
        *,
        clock: Clock | None = None,
        decide: Decide = decide_record,
    ) -> Self:
        """Open the file, make it if it is missing, and return once requests can be decided.

        Raises:
            Refused: another process has the file open, a setting differs from the file's
                genesis, or the file is no ledger, damaged or reachable by two names; or it has
                lost decisions, or holds another ledger's, as its checkpoints show.
            LogDamaged: the log in it contradicts itself.
        """
        clock = clock or SystemClock()
        private = settings.authenticates
        file = own_file(path.absolute(), settings.genesis(0, 1), clock.now(), private=private)
        try:
            check_ledger(file, settings)
            if private:
                keep_private(file.path, index_path(file.path, settings))
            service = cls(file, settings, clock=clock, decide=decide)
            if service._outbox is not None:
                service._outbox.start()
            try:
                service._writer.start()
            except BaseException:
                service._close_readers()
                raise
        except BaseException:
            file.lock.release()
            raise
        return service

    def submit_sync(self, source: Source, body: bytes, wait: float) -> Answer:
        """Do as `submit` does, blocking this thread.

        Raises: Unavailable: as `submit`.
        """
        waiter = ThreadWaiter()
        self._writer.submit(QueuedBody(source, body, self._clock.now(), waiter), here=True)
        decided = waiter.wait(wait)
        value = None if decided is None else decided.value
        return Answer(decision=value, partition=0, offset=waiter.offset)

    def decide_sync(
        self, source: Source, body: bytes, wait: float, *, checked: Checked | None = None
    ) -> Decision | None:
        """Do as `submit_sync`, and return the decision itself, None if it takes longer than `wait`.

        Args:
            checked: the result of `inputs.check` for this body, if the caller has it already.
        """
        waiter = ThreadWaiter()
        entry = QueuedBody(source, body, self._clock.now(), waiter, checked)
        self._writer.submit(entry, here=True)
        decided = waiter.wait(wait)
        return None if decided is None else decided.decision

    async def submit(self, source: Source, body: bytes, *, wait: float) -> Answer:
        waiter = LoopWaiter()
        self._writer.submit(QueuedBody(source, body, self._clock.now(), waiter), here=False)
        if wait <= 0:
            return Answer(decision=None, partition=0)
        # On timeout `asyncio.wait` does not cancel the future: the writer may still settle it.
        await asyncio.wait([waiter.future], timeout=wait)
        decision = waiter.future.result() if waiter.future.done() else None
        return Answer(decision=decision, partition=0, offset=waiter.offset)

    def find_sync(self, dataset: str, who: str, request_id: str) -> bytes | None:
        """Do as `find` does, in this thread."""
        issued = issued_at(request_id)
        if issued is None:
            return None
        for source in _SOURCES:
            known = self._held().ids.get(issued, id_key(source, dataset, who, request_id))
            if known is not None:
                return self._reader.decision(known.partition_sequence)
        return None

    async def find(self, dataset: str, who: str, request_id: str) -> bytes | None:
        return self.find_sync(dataset, who, request_id)

    def events(self) -> Subscription[Decision]:
        return self._events.subscribe()

    def appended(self) -> Subscription[Appended]:
        """As `LedgerService.appended`."""
        return self._appended.subscribe()

    def branch(self, partition: int) -> int | None:
        """As `LedgerService.branch`."""
        held = self._writer.partition
        return None if held is None else held.branch

    def newest_checkpoint(self, partition: int) -> bytes | None:
        """As `LedgerService.newest_checkpoint`."""
        return None if self._heads is None else self._heads.newest

    async def heads(self) -> list[Head]:
        return await heads_of(self)

    def alerts(self) -> Subscription[Alert]:
        return self._alerts.subscribe()

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

    @property
    def checkpoint_collectors(self) -> list[Collector]:
        """What tells a scrape how checkpoints are kept and sent."""
        found: list[Collector] = []
        if self._heads is not None:
            from streams.evidence.troubles import CheckpointTroubles

            heads = self._heads
            found.append(CheckpointTroubles(lambda: [heads]))
        if self.checkpoint_places is not None:
            found.append(self.checkpoint_places)
        return found

    def publish_address(self, address: str) -> None:
        """Write into the lock's file at which address this process answers HTTP."""
        self._lock.publish(address)

    def on_end(self, callback: Callable[[BaseException], None]) -> None:
        """Have `callback` called, in another thread, if nothing can be decided ever again."""
        self._writer.on_end(callback)

    def close_sync(self) -> None:
        """Do as `close` does, blocking this thread."""
        # Before the writer, whose connection tidies up as the last one that is closed.
        self._usage.close()
        self._writer.stop()
        for each in (self._heads, self.checkpoint_places):
            if each is not None:
                each.close()
        self._close_readers()
        self._lock.release()

    def _close_readers(self) -> None:
        for each in (self._events, self._appended, self._alerts):
            each.end()
        if self._outbox is not None:
            self._outbox.close()
        self._reader.close()

    async def close(self) -> None:
        await asyncio.to_thread(self.close_sync)

    def _partition(self) -> Partition:
        partition = self._writer.partition
        if partition is None:
            raise Unavailable("; ".join(self._writer.reasons) or "refolding")
        return partition

    def _begun(self, partition: Partition) -> None:
        if self._heads is not None:
            self._heads.begin(partition)
        # What was committed without this process knowing so is read from the log.
        self._appended.send([Appended(0, partition.sequence + 1, ())])
        self._send_alerts(self._crossings.begin(partition))

    def _publish(self, committed: Committed) -> None:
        records = [encoded for _, encoded in committed.records]
        if self._events.heard:
            self._events.send([encoded.decision for encoded in records])
        if self._appended.heard:
            values = [encoded.value for encoded in records]
            self._appended.send([Appended(0, records[0].partition_sequence, values)])
        self._usage.wake()
        if self._heads is not None:
            self._heads.wake(committed.partition)
        self._send_alerts(self._crossings.take(records, committed.partition))

    def _send_alerts(self, alerts: list[Alert]) -> None:
        if alerts:
            self._alerts.send(alerts)
            if self._outbox is not None:
                self._outbox.put(alerts)

    def _crossed(self) -> list[Alert]:
        partition = self._writer.partition
        return [] if partition is None else crossed(partition)
