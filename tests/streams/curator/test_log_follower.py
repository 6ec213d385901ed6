"""The place from which a start reads on lies before every question that is still open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streams.answers.granted import GrantedQuestion
from streams.curator.counts import CuratorCounts
from streams.curator.log_follower import LogFollower
from streams.curator.sessions import Stopping
from tests.faults.ledger import until
from tests.streams.curator.curated import CuratedLedger, opened, question


class Life:
    """One life of a follower, whose questions end only if they are among `finished`.

    Attributes:
        taken: the grants that it has been asked to finish.
    """

    def __init__(self, ledger: CuratedLedger, finished: set[str]) -> None:
        self.taken = set[str]()
        self._finished = finished
        self._stopping = asyncio.Event()
        self._follower = LogFollower(
            ledger.service,
            ledger.store,
            0,
            self._finish,
            counts=CuratorCounts(),
            stopping=self._stopping,
        )

    async def _finish(self, question: GrantedQuestion, *, may_run: bool) -> None:
        assert may_run
        self.taken.add(question.grant)
        if question.grant not in self._finished:
            await self._stopping.wait()
            raise Stopping

    async def run(self, grants: set[str]) -> None:
        """Follow until all these grants were taken, then stop."""
        await self._follower.open_log()
        running = asyncio.create_task(self._follower.run())
        await until(lambda: self.taken >= grants, "they are taken")
        self._stopping.set()
        await running


async def test_an_older_open_question_is_taken_again_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.curator.log_follower._MOVE_S", 0.0)
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        await Life(ledger, set()).run(set())  # a new store takes nothing that was granted before
        done, older, between, newer = [await ledger.ask(question()) for _ in range(4)]
        finished = {done, between}
        await Life(ledger, finished).run({done, older, between, newer})
        place = await ledger.store.place(0)
        last, _ = await ledger.service.log.last(0)
        restarted = Life(ledger, {older, between, newer})
        await restarted.run({newer})
    assert place.number <= last - 2, "it lies before the older one of two open questions"
    assert older in restarted.taken
