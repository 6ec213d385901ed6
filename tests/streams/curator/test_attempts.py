"""A question that kills its process is tried three times, and then fails."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from streams.answers.granted import GrantedQuestion
from streams.curator.curator import CuratorOptions
from tests.streams.curator.curated import Counting, CuratedLedger, opened, question

STARTS = ()

_LIFE = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.streams.curator.curated import Counting, CuratedLedger

def breaks(question):
    if question.request.purpose == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    ledger = CuratedLedger(Path(sys.argv[1]))
    async with ledger.open(), ledger.curated(Counting(ledger.answering, breaks)):
        for grant in sys.argv[2:]:
            await ledger.stored(grant)

asyncio.run(main())
"""


def live(directory: Path, grants: list[str]) -> int:
    """Run a curator in a process until each grant has an answer; return how it ended."""
    run = subprocess.run(
        [sys.executable, "-c", _LIFE, str(directory), *grants], check=False, timeout=120
    )
    return run.returncode


async def test_a_question_that_kills_the_process_fails_after_three_lives(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        await ledger.store.open_log(0, await ledger.id(), 0)
        grants = [await ledger.ask(question(purpose="deadly")), await ledger.ask(question())]
    for _ in range(3):
        assert await asyncio.to_thread(live, tmp_path, grants) == -9
    assert await asyncio.to_thread(live, tmp_path, grants) == 0
    async with ledger.open():
        assert [(await ledger.answer(each)).outcome for each in grants] == ["failed", "answered"]


async def test_a_question_has_a_third_attempt(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        await ledger.store.open_log(0, await ledger.id(), 0)
        grant = await ledger.ask(question())
        await ledger.store.put_step(0, grant, "attempt_1", b"another life")
        await ledger.store.put_step(0, grant, "attempt_2", b"a third one")
        async with ledger.curated():
            assert (await ledger.answer(grant)).outcome == "answered"


async def test_questions_of_earlier_lives_run_one_at_a_time(tmp_path: Path) -> None:
    ledger = CuratedLedger(tmp_path)
    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        await ledger.store.open_log(0, await ledger.id(), 0)
        grants = [await ledger.ask(question()) for _ in range(4)]
        for each in grants:
            await ledger.store.put_step(0, each, "attempt_1", b"another life")
        loop, before, unstored = asyncio.get_running_loop(), list[str](), list[str]()

        def breaks(question: GrantedQuestion) -> None:
            for each in before:
                get = asyncio.run_coroutine_threadsafe(ledger.store.get(each), loop)
                if get.result() is None:
                    unstored.append(each)
            before.append(question.grant)
            time.sleep(0.2)

        answering = Counting(ledger.answering, breaks)
        async with ledger.curated(answering, CuratorOptions(tick=0.05, at_once=4)):
            for each in grants:
                assert (await ledger.answer(each)).outcome == "answered"
        assert len(before) == 4
        assert unstored == [], "one runs only after the answer of the one before is stored"
