"""What the contract suite needs of an adapter, and how it plays the processor."""

from __future__ import annotations

import abc
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records import Genesis, Source
from accountant.records.inputs import Input
from accountant.replay.replay import Replay
from streams.embedded.journal import SqliteJournal
from streams.embedded.ledger_file import create, reader
from streams.embedded.queue import InputQueue, QueuedBody
from streams.processing.journal import Commit, DeadLetter, Journal
from streams.testing import MemoryJournal, MemoryLog
from tests.patience import PATIENCE_S

AT = time.time_ns() // 1_000_000
"""When the logs of these tests begin, milliseconds since 1970: now, as a broker dates genesis."""

GENESIS = Genesis("contract", 0, 1, 3_600_000, 300_000)


@dataclass(frozen=True)
class Visible:
    """What somebody who is no owner reads.

    Attributes:
        rows: the last of each key.
        dead_letters: values, in order.
    """

    decisions: list[bytes]
    rows: dict[bytes, bytes]
    dead_letters: list[bytes]


class Harness(abc.ABC):
    """One log of one partition, with its genesis, behind an adapter."""

    genesis: Genesis = GENESIS

    @abc.abstractmethod
    async def make(self) -> Journal:
        """Return a journal on the log; a second one competes for it as a process would."""

    @abc.abstractmethod
    async def feed(self, source: Source, body: bytes) -> None:
        """Append to an input."""

    @abc.abstractmethod
    async def visible(self) -> Visible:
        """Read everything, without owning it."""

    async def close(self) -> None:
        """Close everything."""
        return


class MemoryHarness(Harness):
    def __init__(self) -> None:
        self.log = MemoryLog(GENESIS, at=AT)

    async def make(self) -> Journal:
        return MemoryJournal(self.log)

    async def feed(self, source: Source, body: bytes) -> None:
        self.log.feed(source, body, AT)

    async def visible(self) -> Visible:
        letters = [letter.record.value or b"" for letter in self.log.dead_letters]
        return Visible(list(self.log.decisions), last_of(self.log.state), letters)


class NobodyWaits:
    """A waiter for an answer that no test asks for."""

    def settle(self, offset: int | None, decided: object, error: Exception | None) -> None:
        """Forget it."""


class AwaitableQueue(InputQueue):
    """The embedded ledger's inputs, for a processor that runs in an event loop."""

    async def take(self, limit: int, wait: float) -> list[Input]:
        from streams.embedded.queue import NextBatch

        await asyncio.sleep(0)  # other tasks have their turn, cancellation included
        waiting = super().take(limit, wait)
        try:
            wanted = waiting.send(None)
        except StopIteration as done:
            return list(done.value)
        assert isinstance(wanted, NextBatch)
        try:
            self.gather(wanted.limit, wanted.wait)
            waiting.send(self.next(wanted.limit))
        except StopIteration as done:
            return list(done.value)
        raise AssertionError("the queue asked twice")


class SqliteHarness(Harness):
    def __init__(self, directory: Path) -> None:
        self.path = directory / "ledger.db"
        self.inbox = AwaitableQueue(10_000)
        create(self.path, GENESIS, AT)  # an existing file stays as it is

    async def make(self) -> Journal:
        return SqliteJournal(self.path, inbox=self.inbox)

    async def feed(self, source: Source, body: bytes) -> None:
        self.inbox.put(QueuedBody(source, body, AT, NobodyWaits()))

    async def visible(self) -> Visible:
        with reader(self.path) as db:
            decisions: list[Any] = db.execute(
                "SELECT value FROM decisions ORDER BY sequence"
            ).fetchall()
            rows: list[Any] = db.execute("SELECT key, value FROM state").fetchall()
            letters: list[Any] = db.execute(
                "SELECT value FROM dead_letters ORDER BY rowid"
            ).fetchall()
        return Visible(
            [value for (value,) in decisions], dict(rows), [value for (value,) in letters]
        )


def last_of(rows: Sequence[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """Return the last value of each key that was not deleted."""
    return {key: value for key, value in dict(rows).items() if value is not None}


class Player:
    """Plays the processor on a journal, one step at a time."""

    def __init__(self, journal: Journal, genesis: Genesis) -> None:
        self.journal = journal
        self.genesis = genesis
        self.partition = Partition(genesis)

    async def start(self) -> None:
        """Own, refold and seek."""
        await self.journal.own()
        refold = Replay(self.genesis)
        async for key, value in self.journal.rows():
            refold.take_row(key, value)
        async for value in self.journal.decisions(refold.start):
            refold.take_decision(value)
        self.partition = refold.finish()
        await self.journal.seek(self.partition.next)

    async def read(self, limit: int) -> list[Input]:
        """Return the next inputs, however the journal hands them out; none may come at first."""
        records: list[Input] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(records) < limit:
            records += await self.journal.read(limit - len(records), 1.0)
            assert time.monotonic() < deadline, f"{len(records)} of {limit} inputs came"
        return records

    def draft(self, records: Sequence[Input], at: int) -> tuple[Draft, Commit]:
        """Decide at a time, and return what is to be committed."""
        draft = Draft(self.partition)
        decided = [
            (r, decide(draft, Input(r.source, r.offset, r.key, r.value, at), at)) for r in records
        ]
        dead = [
            DeadLetter(record, encoded.decision.reason)
            for record, encoded in decided
            if encoded.decision.reason == "undecodable"
        ]
        return draft, Commit(
            [e for _, e in decided], draft.rows(), dead, draft.next, draft.decided_at
        )

    async def decide(self, count: int, at: int) -> list[bytes]:
        """Read, decide and commit; return the decisions."""
        draft, commit = self.draft(await self.read(count), at)
        await self.journal.commit(commit)
        draft.absorb()
        return [encoded.value for encoded in commit.decisions]
