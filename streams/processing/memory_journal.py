"""A journal in memory: the reference implementation of the contract, and a double for tests.

It keeps every promise of `Journal` except durability. Two `MemoryJournal`s on one `MemoryLog`
compete like two processes: when one takes the log, it fences the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from accountant.partition.draft import genesis_decision
from accountant.records import Genesis, Source
from accountant.records.inputs import Input
from streams.errors import Fenced
from streams.processing.journal import Commit, DeadLetter, decided_at


class MemoryLog:
    """The data that outlive an owner: inputs, decisions, state rows and dead letters.

    Attributes:
        inputs: by source, in order of their offsets; like a topic, this deletes nothing.
        decisions: values, in order.
        state: every record of `state` ever written, in order.
        dead_letters: in order.
        epoch: number of the current owner.
    """

    def __init__(self, genesis: Genesis | None = None, *, at: int = 0) -> None:
        self.inputs: dict[Source, list[Input]] = {"admin": [], "requests": []}
        self.decisions: list[bytes] = []
        self.state: list[tuple[bytes, bytes | None]] = []
        self.dead_letters: list[DeadLetter] = []
        self.epoch = 0
        self._waiting: set[asyncio.Event] = set()
        if genesis is not None:
            self.decisions.append(genesis_decision(genesis, at).value)

    def feed(
        self, source: Source, value: bytes | None, at: int, *, key: bytes | None = None
    ) -> int:
        """Append an input received at `at`, milliseconds since 1970; return its offset."""
        records = self.inputs[source]
        records.append(Input(source, len(records), key, value, at))
        for waiting in self._waiting:
            waiting.set()
        return len(records) - 1

    async def wait_for_input(self, wait: float) -> None:
        """Return at the next `feed`, or after `wait` seconds."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(wait):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(event)


async def _no_hook(_point: str) -> None:
    pass


class MemoryJournal:
    """One owner's view of a `MemoryLog`.

    Args:
        reach: called at `commit_begun` and `commit_done`; an error that it raises acts like
            a crash before or after the commit becomes visible.
    """

    def __init__(
        self,
        log: MemoryLog,
        *,
        partition: int = 0,
        reach: Callable[[str], Awaitable[None]] = _no_hook,
    ) -> None:
        self.log = log
        self._partition = partition
        self._reach = reach
        self._epoch = -1
        self._next: dict[Source, int] = {}

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def gapless(self) -> bool:
        """False: tests may leave out offsets."""
        return False

    async def own(self) -> None:
        self.log.epoch += 1
        self._epoch = self.log.epoch

    async def rows(self) -> AsyncIterator[tuple[bytes, bytes | None]]:
        for row in list(self.log.state):
            yield row

    async def decisions(self, since: int | None) -> AsyncIterator[bytes]:
        values = list(self.log.decisions)
        for i, value in enumerate(values):
            last = i == len(values) - 1
            if since is None or last or decided_at(value) >= since:
                yield value

    async def read_snapshot(self) -> None:
        """Return None: this journal has no archives."""

    async def last_decisions(self, changed_at: Mapping[str, int]) -> list[bytes]:
        return list(self.log.decisions)

    async def admin_decisions(self) -> list[bytes]:
        return list(self.log.decisions)

    async def seek(self, offsets: Mapping[Source, int]) -> None:
        self._next = dict(offsets)

    async def read(self, limit: int, wait: float) -> list[Input]:
        records = self._take(limit)
        if not records:
            await self.log.wait_for_input(wait)
            records = self._take(limit)
        return records

    def _take(self, limit: int) -> list[Input]:
        taken: list[Input] = []
        for source, records in self.log.inputs.items():
            start = self._next.get(source, 0)
            taken += records[start : start + limit - len(taken)]
        for record in taken:
            self._next[record.source] = record.offset + 1
        return taken

    async def commit(self, commit: Commit) -> None:
        await self._reach("commit_begun")
        if self._epoch != self.log.epoch:
            raise Fenced(f"owner {self.log.epoch} has taken over from owner {self._epoch}")
        self.log.decisions += [encoded.value for encoded in commit.decisions]
        self.log.state += commit.rows
        self.log.dead_letters += commit.dead_letters
        await self._reach("commit_done")

    async def drop(self) -> None:
        self._epoch = -1
