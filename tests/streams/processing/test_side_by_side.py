"""Whatever owners do, in whatever order: SQLite does as the reference in memory does."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from accountant.replay.replay import state_rows
from streams.errors import JournalFault
from streams.processing.journal import Commit
from tests.nightly import rounds
from tests.streams.bodies import asking, opening
from tests.streams.processing.contract import AT, GENESIS, MemoryHarness, Player, SqliteHarness

_T = TypeVar("_T")
OWNERS = st.sampled_from([0, 1])


class SideBySide(RuleBasedStateMachine):
    """Two competing owners on each of two logs."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.memory, self.sqlite = MemoryHarness(), SqliteHarness(self.directory)
        self.players = [
            [Player(self.run(harness.make()), GENESIS) for _ in range(2)]
            for harness in (self.memory, self.sqlite)
        ]
        self.at = AT
        self.number = 0
        self.owns = [False, False]
        self.has_owned = False

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.runner.run(work)

    @rule(who=OWNERS)
    def own(self, who: int) -> None:
        for log in self.players:
            self.run(log[who].journal.drop())
            self.run(log[who].start())
        assert self._bytes(0, who) == self._bytes(1, who)
        self.owns[who] = self.has_owned = True

    @rule(who=OWNERS)
    def drop(self, who: int) -> None:
        for log in self.players:
            self.run(log[who].journal.drop())
        self.owns[who] = False

    @precondition(lambda self: any(self.owns))
    @rule(who=OWNERS, count=st.integers(1, 4), passed=st.integers(0, 5000), data=st.data())
    def decide(self, who: int, count: int, passed: int, data: st.DataObject) -> None:
        """Decide new inputs: as both owners would have read them, whoever is fenced."""
        if not self.owns[who]:
            return
        self.at += passed
        bodies = [self._body(data.draw(st.integers(0, 3))) for _ in range(count)]
        results = []
        for log in self.players:
            draft, commit = log[who].draft(self._inputs(log[who], bodies), self.at)
            results.append(self._commit(log[who], commit))
            if results[-1]:
                draft.absorb()
            else:
                self.run(log[who].journal.drop())
        assert results[0] == results[1]
        self.owns[who] = results[0]

    @rule(passed=st.integers(-10_000, 10_000))
    def look_back(self, passed: int) -> None:
        """Read from some time on; an adapter may begin earlier, never end earlier."""
        values = [self.run(self._since(log, self.at + passed)) for log in self.players]
        shorter, longer = sorted(values, key=len)
        assert longer[len(longer) - len(shorter) :] == shorter
        self.owns = [False, False]

    @invariant()
    def both_show_the_same(self) -> None:
        memory, sqlite = self.run(self.memory.visible()), self.run(self.sqlite.visible())
        assert memory.decisions == sqlite.decisions
        assert memory.rows == sqlite.rows
        assert memory.dead_letters == sqlite.dead_letters

    def teardown(self) -> None:
        for log in self.players:
            for player in log:
                self.run(player.journal.drop())
        self.runner.close()
        shutil.rmtree(self.directory)

    def _bytes(self, log: int, who: int) -> object:
        return state_rows(self.players[log][who].partition)

    def _body(self, kind: int) -> bytes:
        self.number += 1
        if kind == 0:
            return b"nonsense %d" % self.number
        if kind == 1:
            return opening(f"d{self.number % 3}", self.at, self.number)
        return asking(f"d{self.number % 3}", self.at, self.number)

    def _inputs(self, player: Player, bodies: list[bytes]) -> Any:
        from accountant.records.inputs import Input

        first = player.partition.next["requests"]
        offset = {"requests": first, "admin": player.partition.next["admin"]}
        records = []
        for body in bodies:
            source: Any = "admin" if b'"open"' in body else "requests"
            records.append(Input(source, offset[source], None, body, self.at))
            offset[source] += 1
        return records

    def _commit(self, player: Player, commit: Commit) -> bool:
        try:
            self.run(player.journal.commit(commit))
        except JournalFault:
            return False
        return True

    async def _since(self, log: list[Player], since: int) -> list[bytes]:
        for player in log:
            await player.journal.drop()
        await log[0].journal.own()
        values = [value async for value in log[0].journal.decisions(since)]
        await log[0].journal.drop()
        return values


SideBySide.TestCase.settings = settings(
    max_examples=rounds(20, 60), stateful_step_count=25, deadline=None
)
TestSideBySide = SideBySide.TestCase
