"""Answers that are ready at one tick are stored in transactions that a broker can take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from streams.answers.store import NewAnswer, StoredAnswer
from streams.clock import SystemClock
from streams.curator.noted_store import NotedStore, NotStored
from streams.curator.publisher import AnswerPublisher
from streams.errors import Unavailable
from tests.patience import PATIENCE_S


class Store:
    """Notes how many answers, and how many bytes, each transaction has."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.transactions: list[tuple[int, int]] = []

    async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
        self.transactions.append((len(answers), sum(len(each.value) for each in answers)))
        return [
            StoredAnswer(
                grant=each.grant,
                partition=each.partition,
                dataset=each.dataset,
                analyst=each.analyst,
                request_id=each.request_id,
                value=each.value,
                number=number,
            )
            for number, each in enumerate(answers, 1)
        ]


@pytest.mark.parametrize(
    ("sizes", "transactions"),
    [
        ([10] * 450, [200, 200, 50]),
        ([3_000_000] * 5, [2, 2, 1]),
        ([10, 15_000_000, 10], [1, 1, 1]),
        ([7_999_990, 10], [2]),
    ],
)
async def test_a_tick_s_answers_are_stored_in_bounded_transactions(
    sizes: list[int], transactions: list[int]
) -> None:
    store = Store()
    publisher = AnswerPublisher(store, tick=0.05, clock=SystemClock())  # type: ignore[arg-type]
    waiting = [
        asyncio.create_task(
            publisher.publish(
                NewAnswer(
                    grant=f"sha256:{number:05}",
                    partition=0,
                    dataset="census",
                    analyst="ana",
                    request_id="",
                    value=b"x" * size,
                )
            )
        )
        for number, size in enumerate(sizes)
    ]
    await asyncio.sleep(0)
    running = asyncio.create_task(publisher.run())
    stored = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_S)
    running.cancel()
    assert [len(each.value) for each in stored] == sizes
    assert [number for number, _ in store.transactions] == transactions


async def test_a_tick_stores_in_the_order_of_grants_whatever_was_ready_first() -> None:
    stored = list[tuple[int, list[str]]]()

    class Noting(Store):
        async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
            stored.append((answers[0].partition, [each.grant for each in answers]))
            return await super().put_first(answers)

    publisher = AnswerPublisher(Noting(), tick=0.05, clock=SystemClock())  # type: ignore[arg-type]
    answers = [
        NewAnswer(
            grant=grant,
            partition=partition,
            dataset="census",
            analyst="ana",
            request_id="",
            value=b"7",
        )
        for grant, partition in [("d", 1), ("c", 0), ("a", 1), ("b", 0)]
    ]
    waiting = [asyncio.create_task(publisher.publish(each)) for each in answers]
    await asyncio.sleep(0)
    running = asyncio.create_task(publisher.run())
    await asyncio.wait(waiting, timeout=PATIENCE_S)
    running.cancel()
    assert sorted(stored) == [(0, ["b", "c"]), (1, ["a", "d"])]


async def test_readiness_says_that_answers_are_not_stored_until_they_are() -> None:
    class Full(Store):
        """Its disk is full at first."""

        get = find = page = subscribe = place = open_log = close = None

        async def put_first(self, answers: Sequence[NewAnswer]) -> list[StoredAnswer]:
            noted.append(not_stored.note())
            if len(noted) < 3:
                raise Unavailable("the disk is full")
            return await super().put_first(answers)

    noted, not_stored = list[str | None](), NotStored()
    store: Any = NotedStore(cast("Any", Full()), not_stored)
    publisher = AnswerPublisher(store, tick=0.05, clock=SystemClock())
    running = asyncio.create_task(publisher.run())
    answer = NewAnswer(
        grant="sha256:1", partition=0, dataset="census", analyst="ana", request_id="", value=b"x"
    )
    await asyncio.wait_for(publisher.publish(answer), PATIENCE_S)
    running.cancel()
    why = (
        "the curator cannot store answers, so questions wait; requests are decided: the disk is "
        "full. Free the disk, make it writable, or bring the broker back: it goes on by itself then"
    )
    assert noted == [None, why, why]
    assert not_stored.note() is None
