"""An embedded ledger killed at any moment loses, tears and charges twice nothing."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from accountant.records import Source
from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.settings import Settings
from tests.faults.edges import SPREAD_MS, edge_time
from tests.faults.oracle.texts import at_text
from tests.faults.sqlite_life import (
    Disk,
    DiskFile,
    copied,
    decisions_of,
    die,
    forked,
    since,
    verdict,
)
from tests.nightly import rounds
from tests.streams.bodies import asking, enrolment, limiting, opening, releasing
from tests.streams.model import repeated_body
from tests.streams.processing.contract import Player, SqliteHarness

pytestmark = pytest.mark.faults

FILES: Final = rounds(2, 20)
KILLS_EACH: Final = 50
COSTS: Final = ("0.001", "0.003", "0.0007")
RECORD: Final = 32
FAST_LIFE_MS: Final = 180_000
"""Of a fast clock: the ids of 20 lives before have expired."""
SLOW_LIFE_MS: Final = SPREAD_MS // KILLS_EACH
READINGS: Final = 45
"""A clock has read so many times when it reaches the end of its life, and stands there."""


class LifeClock:
    """A clock that moves as it is read, so that no machine is too slow for it.

    Args:
        at: milliseconds since 1970.
        end: where it stops. The clock of the next life starts there.
    """

    def __init__(self, at: int, end: int) -> None:
        self._at, self._end = at, end
        self._step = (end - at) // READINGS

    def now(self) -> int:
        self._at = min(self._at + self._step, self._end)
        return self._at

    def monotonic(self) -> float:
        return self._at / 1000


class Plan(NamedTuple):
    """What the lives of one file send.

    Attributes:
        born: when the first begins, milliseconds since 1970.
        life_ms: how long each lasts by its clock.
    """

    born: int
    life_ms: int

    @property
    def is_fast(self) -> bool:
        """Whether ids expire that were decided some lives before."""
        return self.life_ms == FAST_LIFE_MS

    def start(self, life: int) -> int:
        return self.born + life * self.life_ms

    @property
    def all(self) -> tuple[int, int]:
        """When the first life begins, and when the ledger closes after the last one."""
        return self.born, self.start(KILLS_EACH + 1)

    def service(self, file: Path, life: int) -> EmbeddedService:
        clock = LifeClock(self.start(life), self.start(life + 1))
        return EmbeddedService.open(file, Settings(), clock=clock)

    @property
    def openings(self) -> list[bytes]:
        tight = {"filter": "zcdp_tight", "delta": "1e-6"}
        return [
            opening("census", self.born, 0, epsilon="0.5"),
            opening("tight", self.born, 0, **tight),
            opening("circle", self.born, 0, access="members"),
            opening("shared", self.born, 0),
            *(
                limiting("shared", self.born, 1_000_000 + number, "team", team, reserved="0.4")
                for number, team in enumerate(("blue", "red"))
            ),
        ]

    def body(self, number: int) -> bytes:
        """Return an input; each third one's id expires, or becomes due, while the test runs."""
        at = self.start(number // 100) if self.is_fast else self.born
        if not number % 3:
            at = edge_time(at, number)
        if number % 8 == 5:
            member = ("ana", "engine-1")[number % 3 % 2]
            role = {"ana": "analyst"}.get(member, "engine")
            ends = at_text(at + 20 * self.life_ms)
            fields = {"until": ends} if number % 5 else {"team": "blue"}
            gone = number % 7 == 0
            return enrolment("circle", at, number, member, *([] if gone else [role]),
                             **({} if gone else fields))  # fmt: skip
        if number % 8 == 1:
            return releasing("shared", at, number, ("green", "red")[number % 3 % 2], epsilon="0.05")
        if number % 4 == 2:
            more = {"via": "engine-1"} if number % 8 == 2 else {}
            return asking("circle", at, number, epsilon=COSTS[number % 7 % 3], **more)
        name = ("census", "census", "tight")[number % 5 % 3]
        return asking(name, at, number, epsilon=COSTS[number % 7 % 3])

    def was_sent(self, body: bytes) -> bool:
        """Return whether a body is one of those that the lives send."""
        found = json.loads(body)
        if found["type"] in {"open", "limit"}:
            return body in self.openings
        digits = found["request_id"].replace("-", "")
        return body == self.body(int(digits[17:], 16))


def source_of(body: bytes) -> Source:
    return "requests" if b'"type": "request"' in body else "admin"


def live(file: Path, plan: Plan, life: int, answers: int) -> None:
    """Decide until killed: new requests and old ones, alone and together."""
    chance = random.Random(life)
    service = plan.service(file, life)
    for body in plan.openings:
        service.submit_sync("admin", body, 10)

    new = itertools.count(life * 100 + 1)

    def pick() -> bytes:
        old = chance.random() < 0.3
        return plan.body(chance.randrange(1, life * 100 + 2) if old else next(new))

    def tell(decision: bytes | None) -> None:
        assert decision is not None
        os.write(answers, hashlib.sha256(decision).digest())

    async def together() -> None:
        asked = [
            service.submit(source_of(body), body, wait=10)
            for body in [pick() for _ in range(chance.randrange(2, 20))]
        ]
        for answer in await asyncio.gather(*asked):
            tell(answer.decision)

    while True:
        if chance.random() < 0.2:
            asyncio.run(together())
        else:
            body = pick()
            tell(service.submit_sync(source_of(body), body, 10).decision)


def killed_at(disk: Disk, nth: int, torn: bool) -> None:
    """Be killed at the n-th operation on the disk, perhaps in the middle of a write."""

    def at(count: int, file: DiskFile, what: str, data: bytes, offset: int) -> None:
        if count == nth:
            if torn and what == "write":
                file.write(data[: len(data) // 2], offset)
            die()

    disk.at, disk.counting = at, True


def one_life(file: Path, plan: Plan, life: int, chance: random.Random) -> list[bytes]:
    """Run the ledger, kill it at a random moment; return the hashes of its answers."""
    reading, writing = os.pipe()
    nth = chance.choice([None, chance.randrange(1, 30), chance.randrange(1, 300)])
    torn = chance.random() < 0.5

    def run() -> None:
        with Disk() as disk:
            if nth is not None:
                killed_at(disk, nth, torn)
            live(file, plan, life, writing)

    child = forked(run)
    os.close(writing)
    answers = b""
    if nth is None:
        # Some are killed while they open the ledger, others after a number of answers.
        enough = chance.choice([0, chance.randrange(1, 10)]) * RECORD
        while len(answers) < enough and (part := os.read(reading, RECORD)):
            answers += part
        time.sleep(chance.uniform(0, 0.005 if enough else 0.03))
        os.kill(child, signal.SIGKILL)
    while part := os.read(reading, 1 << 16):
        answers += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, "it ended by itself"
    return [answers[i : i + RECORD] for i in range(0, len(answers), RECORD)]


@pytest.mark.parametrize("number", range(FILES))
def test_a_killed_ledger_has_every_decision_that_it_answered(number: int, tmp_path: Path) -> None:
    chance = random.Random(number)
    file = tmp_path / "ledger.db"
    plan = Plan(time.time_ns() // 1_000_000, FAST_LIFE_MS if number % 2 else SLOW_LIFE_MS)
    before: list[bytes] = []
    answered = 0
    for life in range(KILLS_EACH):
        answers = one_life(file, plan, life, chance)
        answered += len(answers)
        if not file.exists():
            assert not before
            continue
        decisions = [*decisions_of(copied(file, tmp_path / "copy"))]
        assert decisions[: len(before)] == before
        hashes = {hashlib.sha256(value).digest() for value in decisions}
        assert hashes.issuperset(answers), f"answered and lost, in life {life} of file {number}"
        before = decisions
    verdict(file, tmp_path / "copy", plan.was_sent, plan.all)
    # The ledger itself must reach the same state, and continue.
    service = plan.service(file, KILLS_EACH)
    try:
        granted = next(value for value in before if b'"outcome":"granted"' in value)
        again = service.submit_sync("requests", repeated_body(granted) or b"", 10).decision
        assert again is not None
        assert json.loads(again)["outcome"] in {"repeated", "expired"}
    finally:
        service.close_sync()
    judged = verdict(file, tmp_path / "copy", plan.was_sent, plan.all)
    outcomes = Counter(each["outcome"] for each in judged.decisions)
    assert answered > 50
    assert outcomes["granted"] > 10
    assert outcomes.keys() >= {"repeated", "expired", "member_set", "recorded"}
    assert any("shares_cut" in each for each in judged.decisions)
    assert any(each.get("reason") == "not_permitted" for each in judged.decisions)
    assert plan.is_fast or outcomes["invalid"] > 0  # issued in the future


class LedgerProcess:
    """A ledger in another process, controlled over a pipe."""

    def __init__(self, act: Callable[[EmbeddedService], str], file: Path) -> None:
        commands, self._tell = os.pipe()
        self._answers, answer = os.pipe()

        def run() -> None:
            service = EmbeddedService.open(file, Settings())
            service.publish_address("http://127.0.0.1:4711")
            os.write(answer, b"ready")
            os.read(commands, 1)
            os.write(answer, act(service).encode())

        self.pid = forked(run)
        os.close(answer)
        os.close(commands)
        assert os.read(self._answers, 100) == b"ready"

    def act(self) -> str:
        """Run one command; return its output."""
        os.write(self._tell, b"!")
        said = os.read(self._answers, 10_000).decode()
        os.waitpid(self.pid, 0)
        os.close(self._answers)
        os.close(self._tell)
        return said


def test_a_second_process_learns_the_owner_and_address_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    other = LedgerProcess(lambda service: "bye", file)
    with pytest.raises(Refused, match=rf"process {other.pid} .*http://127\.0\.0\.1:4711"):
        EmbeddedService.open(file, Settings())
    assert other.act() == "bye"
    EmbeddedService.open(file, Settings()).close_sync()


def test_a_writer_that_got_past_the_lock_is_stopped_by_the_epoch(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    at = time.time_ns() // 1_000_000

    def ask(service: EmbeddedService) -> str:
        try:
            return str(service.submit_sync("admin", opening("stolen", at, 1), 5))
        except Unavailable as error:
            return f"unavailable: {error}"

    other = LedgerProcess(ask, file)

    async def steal() -> None:
        harness = SqliteHarness(tmp_path)  # on the same file, without its lock
        thief = Player(await harness.make(), Settings().genesis(0, 1))
        await thief.start()
        await harness.feed("admin", opening("census", at, 2))
        await thief.decide(1, at)
        await thief.journal.drop()

    asyncio.run(steal())
    said = other.act()
    assert said.startswith("unavailable: ")
    assert "another process owns" in said
    decisions = decisions_of(copied(file, tmp_path / "copy"))
    assert [b"stolen" in value for value in decisions] == [False, False]
    verdict(file, tmp_path / "copy", [opening("census", at, 2)], since(at))
