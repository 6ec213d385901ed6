"""Random lives of a partition: crashes, takeovers, lost state, bad input; then the invariants."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, Final

import msgspec
import pytest

from accountant.errors import LedgerFault
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from streams.errors import CommitUnknown, Unavailable
from streams.processing.journal import Commit
from streams.testing import Crash, CrashPoints, MemoryJournal
from tests.nightly import rounds
from tests.streams.bodies import asking, closing, opening, request_id
from tests.streams.model import POISON
from tests.streams.processing.stage import GENESIS, Stage, play

SEEDS: Final = rounds(40, 300)
INPUTS: Final = 100
BLOCKS: Final = 4
POINTS = ("owned", "decided", "commit_begun", "commit_done", "committed")
SHORT = msgspec.structs.replace(GENESIS, window_ms=30_000, skew_ms=5_000)


def planted(draft: Draft, record: Input, clock: int) -> EncodedDecision:
    """Decide, but raise on a poisoned body, before or after the charge."""
    value = record.value or b""
    if POISON.encode() in value and len(value) % 2:
        raise ZeroDivisionError("planted before")
    encoded = decide(draft, record, clock)
    if POISON.encode() in value:
        raise ZeroDivisionError("planted after")
    return encoded


class Life:
    """One random life, the same for each seed."""

    def __init__(self, seed: int, journal: type[MemoryJournal] = MemoryJournal) -> None:
        self.journal = journal
        self.chance = random.Random(seed)
        self.stage = Stage(SHORT)
        self.held: list[tuple[asyncio.Task[None], CrashPoints]] = []

    async def run(self) -> Counter[Any]:
        while self.stage.wait_for_input < INPUTS:
            for _ in range(self.chance.randrange(12)):
                self.feed_one()
            self.stage.clock.pass_(self.chance.randrange(4_000))
            if self.chance.random() < 0.15:
                self.lose_state()
            await self.one_owner()
        observer = await self.stage.settle(decide=planted)
        assert observer.halt is None, observer.halt
        before = list(self.stage.log.decisions)
        for task, points in self.held:
            points.resume()
            await asyncio.wait([task], timeout=5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert self.stage.log.decisions == before, "a fenced owner made something visible"
        return self.stage.check().outcomes

    async def one_owner(self) -> None:
        """Let one processor live until it is done, cancelled, held, or its time is up."""
        chance = self.chance
        crashes = [
            Crash(
                point=chance.choice(POINTS),
                nth=chance.randrange(1, 6),
                action=chance.choice(["raise", "raise", "cancel", "pause"]),
                error=chance.choice([CommitUnknown, Unavailable, KeyError]),
            )
            for _ in range(chance.randrange(4))
        ]
        points = CrashPoints(*crashes)
        batch = chance.choice([1, 3, 10, 500])
        journal = self.journal(self.stage.log, reach=points)
        task, _ = self.stage.start(points, batch=batch, decide=planted, journal=journal)
        await asyncio.wait([task], timeout=chance.choice([0.01, 0.3, 3.0]))
        if points.paused:
            self.held.append((task, points))
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def lose_state(self) -> None:
        state = self.stage.log.state
        kind = self.chance.randrange(4)
        if kind == 0:
            state.clear()
        elif kind == 1:
            del state[self.chance.randrange(len(state) + 1) :]
        elif kind == 2 and state:
            del state[self.chance.randrange(len(state))]
        else:
            state.append((b"d0", b"damaged"))

    def feed_one(self) -> None:
        stage, chance = self.stage, self.chance
        now, dataset = stage.clock.wall, f"d{chance.randrange(4)}"
        kind = chance.randrange(20)
        past = [r.value for r in stage.log.inputs["requests"]]
        if kind == 0:
            stage.feed("admin", opening(dataset, now, stage.number(), epsilon="0.7"))
        elif kind == 1:
            stage.feed("requests", chance.choice([b"", b"{", b"[]", b"\xff", b"null", None]))
        elif kind == 2:
            stage.ask(dataset=dataset, epsilon=chance.choice(["nan", "-1", "1e999", " 1", "0x1"]))
        elif kind == 3:
            stage.ask(dataset=dataset, purpose=POISON)
        elif kind == 4:
            age = chance.choice([-4_000, -6_000, 29_000, 31_000, 90_000])
            stage.feed("requests", asking(dataset, now - age, stage.number()))
        elif kind <= 7 and past:
            stage.feed("requests", chance.choice(past))
        elif kind == 8 and past:
            changed = (chance.choice(past) or b"").replace(b'"0.05"', b'"0.01"')
            stage.feed("requests", changed)
        elif kind == 9:
            stage.ask(dataset=dataset, unit="household")
        elif kind == 10 and chance.random() < 0.3:
            stage.feed("admin", closing(dataset, now, stage.number()))
        else:
            stage.ask(dataset=dataset, epsilon=chance.choice(["0.05", "0.2", "1e-12"]))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_lives_keep_every_invariant(block: int) -> None:
    outcomes: Counter[Any] = Counter()
    for seed in range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS):
        try:
            outcomes += play(Life(seed).run())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    # A simulation that never gets anywhere would pass as well.
    codes = {reason or outcome for outcome, reason in outcomes}
    assert codes >= {
        *("opened", "granted", "repeated", "conflict", "expired", "undecodable", "closed"),
        *("invalid_field", "issued_in_future", "unknown_dataset", "exhausted"),
        *("already_opened", "unit_mismatch", "internal_error"),
    }


class Unfenced(MemoryJournal):
    """Lets whoever was fenced write all the same."""

    async def commit(self, commit: Commit) -> None:
        await super().own()
        await super().commit(commit)


class Forgetful(MemoryJournal):
    """Reports a commit that it sometimes has not made."""

    async def commit(self, commit: Commit) -> None:
        if len(self.log.decisions) % 7:
            await super().commit(commit)


@pytest.mark.parametrize("broken", [Unfenced, Forgetful])
def test_a_broken_journal_does_not_survive_the_simulation(broken: type[MemoryJournal]) -> None:
    caught = 0
    for seed in range(20):
        try:
            play(Life(seed, broken).run())
        except (AssertionError, TimeoutError, LedgerFault):
            caught += 1
    assert caught > 5


def test_bodies_carry_sound_ids() -> None:
    assert request_id(0x0123456789AB, 5) == "01234567-89ab-7000-8000-000000000005"
