"""Places are given in turns: by analyst, and within an analyst by dataset."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack

import pytest

from streams.curator.turns import Ended, Turns

STARTS = ()


class Queue:
    """Whoever waits for the one place, and the order in which they had it."""

    def __init__(self) -> None:
        self.turns = Turns(1)
        self.order = list[str]()
        self.tasks = list[asyncio.Task[None]]()

    async def _run(self, asker: str) -> None:
        *engine, analyst, dataset = asker.split("/")
        async with self.turns.place(dataset, analyst, engine=engine[0] if engine else None):
            self.order.append(asker)
            await asyncio.sleep(0)

    async def add(self, *askers: str) -> None:
        for each in askers:
            self.tasks.append(asyncio.create_task(self._run(each)))
        await asyncio.sleep(0)

    async def run(self, *askers: str) -> list[str]:
        """Return the order of askers that come while the place is taken."""
        async with self.turns.place("other", "first"):
            await self.add(*askers)
        await asyncio.gather(*self.tasks)
        return self.order


async def test_analysts_take_turns() -> None:
    found = await Queue().run("ana/d", "ana/d", "ana/d", "bob/d", "bob/d", "eva/d")
    assert found == ["ana/d", "bob/d", "eva/d", "ana/d", "bob/d", "ana/d"]


async def test_more_datasets_are_no_more_turns() -> None:
    found = await Queue().run("ana/d", "ana/e", "ana/f", "ana/d", "bob/d", "bob/d")
    assert found == ["ana/d", "bob/d", "ana/e", "bob/d", "ana/f", "ana/d"]


async def test_more_analysts_of_an_engine_are_no_more_turns() -> None:
    asked = ["app/ana/d", "app/eva/d", "app/ana/d", "app/eva/e", "app/eva/d", "app/zoe/d"]
    found = await Queue().run(*asked, "bob/d", "bob/d", "ana/d")
    assert found == [
        *("app/ana/d", "bob/d", "ana/d", "app/eva/d", "bob/d"),
        *("app/zoe/d", "app/ana/d", "app/eva/e", "app/eva/d"),
    ]


async def test_an_engine_with_the_name_of_an_analyst_takes_none_of_their_turns() -> None:
    found = await Queue().run("bob/ana/d", "bob/eva/d", "bob/d")
    assert found == ["bob/ana/d", "bob/d", "bob/eva/d"]


async def test_a_wait_ends_whoever_asks_for_an_analyst() -> None:
    queue = Queue()
    async with queue.turns.place("other", "first"):
        await queue.add("app/ana/d", "ana/d", "app/ana/e", "app/eva/d")
        queue.turns.end("d", "ana")
    await asyncio.gather(*queue.tasks, return_exceptions=True)
    assert queue.order == ["app/ana/e", "app/eva/d"]


async def test_a_newcomer_waits_for_one_turn_of_each_other() -> None:
    queue = Queue()
    async with queue.turns.place("other", "first"):
        await queue.add(*["ana/d"] * 1_000)
        await queue.add("bob/d")
    await asyncio.gather(*queue.tasks)
    assert queue.order.index("bob/d") == 1


@pytest.mark.parametrize(
    ("analyst", "order"),
    [("ana", ["ana/e", "bob/d", "eva/d"]), (None, ["ana/e"]), ("nobody", None)],
)
async def test_a_wait_can_be_ended(analyst: str | None, order: list[str] | None) -> None:
    queue, askers = Queue(), ["ana/d", "ana/e", "bob/d", "ana/d", "eva/d"]
    async with queue.turns.place("other", "first"):
        await queue.add(*askers)
        queue.turns.end("d", analyst)
    results = await asyncio.gather(*queue.tasks, return_exceptions=True)
    assert queue.order == (order or ["ana/d", "bob/d", "eva/d", "ana/e", "ana/d"])
    ended = [isinstance(each, Ended) for each in results]
    assert sum(ended) == len(askers) - len(queue.order)
    assert await Queue().run("zoe/d") == ["zoe/d"], "the place is free again"


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_whoever_gives_up_takes_no_place_along(cancelled: int) -> None:
    queue = Queue()
    async with queue.turns.place("other", "first"):
        await queue.add("ana/d", "bob/d", "eva/d")
        queue.tasks[cancelled].cancel()
    await asyncio.gather(*queue.tasks, return_exceptions=True)
    assert len(queue.order) == 2


async def test_whoever_gives_up_as_the_turn_comes_passes_it_on() -> None:
    queue = Queue()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(queue.turns.place("other", "first"))
        await queue.add("ana/d", "bob/d")
        await stack.aclose()  # ana's turn has come, but her task has not run since
        queue.tasks[0].cancel()
    await asyncio.gather(*queue.tasks, return_exceptions=True)
    assert queue.order == ["bob/d"]


async def test_a_wait_ends_beside_one_that_was_given_up() -> None:
    queue = Queue()
    await queue.turns.place("other", "first").__aenter__()
    await queue.add("ana/d", "ana/d", "bob/d")
    queue.tasks[0].cancel()
    with contextlib.suppress(asyncio.InvalidStateError):
        queue.turns.end("d", None)
    await asyncio.sleep(0)
    assert [each.done() for each in queue.tasks] == [True] * 3
    assert all(isinstance(each.exception(), Ended) for each in queue.tasks[1:])
