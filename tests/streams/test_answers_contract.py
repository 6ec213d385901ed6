"""One contract for a store of answers: of each grant, the first answer that was stored wins."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from streams.answers import AnswerStore, LogPlace, NewAnswer, SqliteAnswers
from streams.answers.heads import StoredHead
from streams.errors import Refused
from streams.testing.answer_heads import MemoryAnswerHeads
from tests.patience import PATIENCE_S

LEDGER = "6b1f0c52a0d94e0e8d5c3b1a7f9e2d44"
Open = Callable[[], Awaitable[AnswerStore]]


@pytest.fixture(params=["file", pytest.param("kafka", marks=pytest.mark.kafka)])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """A function that opens one more store of the same answers."""
    opened = list[AnswerStore]()
    make: Open = partial(_in_file, tmp_path, MemoryAnswerHeads())
    if request.param == "kafka":
        bootstrap = request.getfixturevalue("broker").bootstrap
        make = partial(_on_kafka, bootstrap, request.getfixturevalue("application"))

    async def open_one() -> AnswerStore:
        store = await make()
        opened.append(store)
        await store.open_log(0, LEDGER, 0)
        return store

    yield open_one
    for each in opened:
        await each.close()


async def _in_file(directory: Path, heads: MemoryAnswerHeads) -> AnswerStore:
    return SqliteAnswers.open(directory / "ledger.db.answers", heads)


async def _on_kafka(bootstrap: str, application: str) -> AnswerStore:
    from streams.kafka.deployment import Deployment, TopicNames
    from streams.kafka.log.topics import create
    from streams.kafka.service.answers import KafkaAnswers

    names = TopicNames(f"{application}.")
    deployment = Deployment(
        bootstrap=bootstrap, application=application, topics=names, partitions=2
    )
    await create(deployment)
    return await KafkaAnswers.start(deployment)


def answer(number: int, value: bytes = b'{"values":["7"]}', dataset: str = "census") -> NewAnswer:
    return NewAnswer(
        grant=f"sha256:{number:064x}",
        partition=0,
        dataset=dataset,
        analyst="ana",
        request_id=f"id-{number}",
        value=value,
    )


async def test_the_first_stored_answer_wins(open_store: Open) -> None:
    store = await open_store()
    (first,) = await store.put_first([answer(1, b'["first"]')])
    (again,) = await store.put_first([answer(1, b'["second"]')])
    assert first == again
    assert first.value == b'["first"]'
    assert await store.get(answer(1).grant) == first
    assert await store.get(answer(2).grant) is None


async def test_answers_of_one_call_are_judged_one_by_one(open_store: Open) -> None:
    store = await open_store()
    await store.put_first([answer(2, b'["old"]')])
    stored = await store.put_first([answer(n, b'["new"]') for n in (1, 2, 3)])
    assert [each.value for each in stored] == [b'["new"]', b'["old"]', b'["new"]']
    assert [each.grant for each in stored] == [answer(n).grant for n in (1, 2, 3)]


async def test_an_answer_is_found_by_its_request(open_store: Open) -> None:
    store = await open_store()
    (stored, _) = await store.put_first([answer(1), answer(2, dataset="survey")])
    assert await store.find("census", "ana", "id-1") == stored
    assert await store.find("survey", "ana", "id-1") is None
    assert await store.find("census", "bob", "id-1") is None
    assert await store.find("census", "ana", "id-2") is None


async def test_pages_have_each_answer_of_a_dataset_once_in_order(open_store: Open) -> None:
    store = await open_store()
    for number in range(9):
        await store.put_first([answer(number, dataset="census" if number % 3 else "survey")])
    found, after = [], 0
    while page := await store.page("census", after=after, limit=2):
        assert len(page) <= 2
        found += [each.request_id for each in page]
        after = page[-1].number
    assert found == [f"id-{number}" for number in range(9) if number % 3]
    assert await store.page("absent", after=0, limit=5) == []


async def test_the_first_stored_step_wins(open_store: Open) -> None:
    store = await open_store()
    one, two = answer(1).grant, answer(2).grant
    assert await store.put_step(0, one, "begin", b"[1]") == b"[1]"
    assert await store.put_step(0, one, "begin", b"[2]") == b"[1]"
    assert await store.put_step(0, one, "settle", b"[3]") == b"[3]"
    assert await store.put_step(0, two, "begin", b"[4]") == b"[4]"


async def test_a_step_is_taken_back_by_its_own_body_alone(open_store: Open) -> None:
    store = await open_store()
    one, two = answer(1).grant, answer(2).grant
    for grant in (one, two):
        await store.put_step(0, grant, "attempt_1", b"[1]")
    await store.put_step(0, one, "attempt_2", b"[1]")
    await store.take_back(0, one, "attempt_1", b"[2]")
    assert await store.put_step(0, one, "attempt_1", b"[3]") == b"[1]"
    await store.take_back(0, one, "attempt_1", b"[1]")
    await store.close()
    store = await open_store()
    assert await store.put_step(0, one, "attempt_1", b"[4]") == b"[4]"
    assert await store.put_step(0, one, "attempt_2", b"[4]") == b"[1]"
    assert await store.put_step(0, two, "attempt_1", b"[4]") == b"[1]"


async def test_a_reader_hears_of_each_new_answer_and_of_no_other(open_store: Open) -> None:
    store = await open_store()
    await store.put_first([answer(1)])
    coming = store.subscribe()
    await store.put_first([answer(1, b'["again"]')])
    stored = await store.put_first([answer(2), answer(3)])
    async with asyncio.timeout(PATIENCE_S):
        assert [await anext(coming), await anext(coming)] == stored
    coming.close()


async def test_everything_is_there_after_a_restart(open_store: Open) -> None:
    store = await open_store()
    (stored,) = await store.put_first([answer(1)])
    await store.put_step(0, stored.grant, "begin", b"[1]")
    await store.move(0, LogPlace(7, "sha256:ab"))
    await store.close()
    store = await open_store()
    assert await store.get(stored.grant) == stored
    assert await store.put_step(0, stored.grant, "begin", b"[2]") == b"[1]"
    assert await store.place(0) == LogPlace(7, "sha256:ab")


async def test_a_new_store_begins_where_it_was_opened_first(open_store: Open) -> None:
    store = await open_store()
    assert await store.place(0) == LogPlace(0, "")
    assert await store.open_log(1, LEDGER, 40) == 40
    assert await store.open_log(1, LEDGER, 90) == 40


async def test_another_ledger_is_refused(open_store: Open) -> None:
    store = await open_store()
    with pytest.raises(Refused, match="Give each ledger its own"):
        await store.open_log(0, "another", 0)


async def test_writers_at_once_agree_on_every_answer(open_store: Open) -> None:
    stores = [await open_store() for _ in range(3)]
    stopped = set[int]()

    async def write(which: int) -> dict[str, bytes]:
        seen: dict[str, bytes] = {}
        numbers = list(range(40))
        random.Random(which).shuffle(numbers)
        for start in range(0, 40, 4):
            await asyncio.sleep(0.02)  # a writer that never pauses starves the others
            batch = [answer(n, b'["of %d"]' % which) for n in numbers[start : start + 4]]
            try:
                seen |= {each.grant: each.value for each in await stores[which].put_first(batch)}
            except Refused:  # fenced: another one has started
                stopped.add(which)
                break
        return seen

    for_each = await asyncio.gather(*map(write, range(len(stores))))
    (last,) = {*range(len(stores))} - stopped if stopped else {0}
    assert len(for_each[last]) == 40
    for seen in for_each:
        assert seen.items() <= for_each[last].items()
    if not stopped:
        assert len(set(for_each[last].values())) > 1, "no race"


async def test_a_writer_that_starts_later_knows_the_answers_of_an_earlier_one(
    open_store: Open,
) -> None:
    first = await open_store()
    (stored,) = await first.put_first([answer(1, b'["first"]')])
    second = await open_store()
    assert await second.put_first([answer(1, b'["second"]')]) == [stored]
    with contextlib.suppress(Refused):
        assert await first.put_first([answer(1, b'["again"]')]) == [stored]
    await second.put_first([answer(2, b'["second"]')])
    with contextlib.suppress(Refused):
        (other,) = await first.put_first([answer(2, b'["first"]')])
        assert other.value == b'["second"]'


class SlowHeads(MemoryAnswerHeads):
    """Writes the head of the first answer slowly, and notes the numbers of all."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = list[int]()
        self.is_slow = False

    def write(self, partition: int, head: StoredHead) -> None:
        if head.head.number == 1 and not self.is_slow:
            self.is_slow = True
            time.sleep(0.2)
        super().write(partition, head)
        self.numbers.append(head.head.number)


async def test_answers_stored_at_once_have_their_heads_in_order_and_are_all_announced(
    tmp_path: Path,
) -> None:
    heads = SlowHeads()
    store = SqliteAnswers.open(tmp_path / "ledger.db.answers", heads)
    try:
        await store.open_log(0, LEDGER, 0)
        coming = store.subscribe()
        await asyncio.gather(*(store.put_first([answer(number)]) for number in range(1, 9)))
        assert heads.numbers == sorted(heads.numbers)
        await asyncio.sleep(0)
        announced = {each.grant for _ in range(8) if (each := coming.ready()) is not None}
        assert announced == {answer(number).grant for number in range(1, 9)}
    finally:
        await store.close()
