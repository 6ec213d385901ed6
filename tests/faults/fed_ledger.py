"""An embedded ledger with a manual clock, which records its inputs."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from accountant.partition.draft import Draft
from accountant.records.encoded_decision import EncodedDecision
from streams.clock import CheckedClock
from streams.embedded.archive import ArchiveResult, archive
from streams.embedded.file_ownership import stopped_ledger
from streams.embedded.service import EmbeddedService
from streams.evidence.operator_records import reset_clock
from streams.processing.journal import Commit
from streams.processing.recovery import recover_partition
from streams.settings import Settings
from streams.testing import ManualClock
from tests.faults import oracle
from tests.faults.oracle import Contents, InputAsSent, Partition
from tests.faults.oracle.texts import millis
from tests.ledger_file import connected
from tests.patience import PATIENCE_S
from tests.streams.uncompared import uncompared

START = 1_790_000_000_000

Command = Callable[[Draft, int], EncodedDecision]
"""Writes a decision without an input, at a time, as the owner of the partition."""


class FedLedger:
    """A ledger in a file; every input is decided before the next is sent.

    Attributes:
        clock: the ledger's.
        inputs: what it was sent, for the oracle.
        answers: the record that each call was answered with, in order.
    """

    def __init__(self, file: Path, start: int = START, settings: Settings | None = None) -> None:
        self.clock = ManualClock(start)
        self.inputs: dict[str, list[InputAsSent]] = {source: [] for source in oracle.INPUTS}
        self.answers: list[bytes] = []
        self._archive: list[bytes] = []
        self._file = file
        self._settings = settings or Settings()
        self._service = self._opened()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._service.close_sync()

    def _opened(self) -> EmbeddedService:
        return EmbeddedService.open(self._file, self._settings, clock=self.clock)

    def send(self, source: str, value: bytes, later: int = 0) -> bytes:
        """Have an input decided, the clock moved on before it; return the record."""
        self.clock.pass_(later)
        sent = self.inputs[source]
        at = self.clock.now()
        answer = self._service.submit_sync(source, value, PATIENCE_S)  # type: ignore[arg-type]
        sent.append(InputAsSent(len(sent), None, value, (at, at)))
        assert answer.decision is not None
        self.answers.append(answer.decision)
        return answer.decision

    def reopen(self, *, without_rows: bool = False) -> None:
        """Restart the ledger, perhaps without its cache, from decision 0."""
        self._service.close_sync()
        if without_rows:
            with connected(self._file) as db:
                db.execute("DELETE FROM state")
        self._service = self._opened()

    def set_clock_back(self, to: int) -> None:
        """Set the clock to an earlier time, and the log's with it, as the command does."""
        self._service.close_sync()
        self.clock.pass_(to - self.clock.now())
        with stopped_ledger(self._file, self._settings, to) as (journal, genesis):
            done = reset_clock(journal, genesis, self.clock, "it was ahead", compare=uncompared)
            assert asyncio.run(done) is not None
        self._service = self._opened()

    def write(self, command: Command) -> None:
        """Write a decision as a command does on the stopped ledger."""
        self._service.close_sync()
        asyncio.run(self._written(command))
        self._service = self._opened()

    async def _written(self, command: Command) -> None:
        at = self.clock.now()
        with stopped_ledger(self._file, self._settings, at) as (journal, genesis):
            try:
                await journal.own()
                draft = Draft(await recover_partition(journal, genesis, asyncio.sleep))
                made = command(draft, at)
                await journal.commit(Commit([made], draft.rows(), [], draft.next, draft.decided_at))
            finally:
                await journal.drop()

    def archive(self, target: Path) -> None:
        """Move all that may be archived into a file, as the command does."""
        self._service.close_sync()
        archived = asyncio.run(self._archived(target))
        assert archived.last > 0
        with gzip.open(target) as lines:
            self._archive += lines.read().splitlines()
        self._service = self._opened()

    async def _archived(self, target: Path) -> ArchiveResult:
        clock = CheckedClock(self.clock)
        floor = millis(json.loads(self.answers[-1])["floor"])
        with stopped_ledger(self._file, self._settings, self.clock.now()) as (journal, genesis):
            try:
                return await archive(
                    journal,
                    self._file,
                    genesis,
                    clock,
                    target,
                    before=floor - genesis.skew_ms,
                    note="the disk is full",
                    progress=lambda _what, _count: None,
                    compare=uncompared,
                )
            finally:
                await journal.drop()

    def found(self) -> Contents:
        """Close the ledger and return the log in its file, with its archive."""
        self._service.close_sync()
        found = oracle.contents(self._file)
        begin, *rest = found.decisions
        archived = [line for line in self._archive if line != begin]
        return found._replace(decisions=[begin, *archived, *rest])

    def judged(self) -> Partition:
        """Close the ledger and have it judged by all that it was sent."""
        found = self.found()
        logged = set(found.decisions)
        assert logged.issuperset(self.answers), "an answer is not what the log holds"
        return oracle.judge_file(found, self.inputs)
