"""A topic of answers that was lost or restored: no question is drawn a second time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from accountant.answers import decode_answer
from accountant.partition import Partition
from streams.answers.store import LogPlace
from streams.audit.answer_comparison import AnswerComparison, AnswersReport
from streams.audit.log_audit import run_audit
from streams.errors import Refused
from streams.evidence.answers_head import is_answers_head, open_head
from streams.evidence.store import signing_key_at
from streams.kafka.log.kafka_log import KafkaLog
from streams.kafka.log.topics import create
from streams.kafka.service.answers import (
    AnswerTopic,
    ChainBroken,
    KafkaAnswers,
    open_answer_chain,
    read_all_answers,
)
from streams.settings import Settings
from streams.testing import LocalBroker
from streams.worker.answers_heads import PartitionAnswersHeads
from streams.worker.partition_checkpoints import partition_store
from tests.faults import oracle
from tests.faults.ledger import until
from tests.faults.operator import Operator
from tests.kafka.curated_on_kafka import OnKafka, address_of, answer_of, curated_on_kafka
from tests.patience import PATIENCE_S
from tests.streams.cli.here import run_here
from tests.streams.curator.curated import comes_true, question

pytestmark = pytest.mark.kafka

Values = list[list[bytes]]


@pytest.fixture
async def on_kafka(broker: LocalBroker, application: str, tmp_path: Path) -> AsyncIterator[OnKafka]:
    async with curated_on_kafka(broker.bootstrap, application, tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def curator(on_kafka: OnKafka, name: str) -> AsyncIterator[None]:
    """Run a curator, which ends as at an orderly stop."""
    process = on_kafka.start(name)
    try:
        await until(lambda: b"worker_listens" in on_kafka.log(name), "the curator runs")
        yield
        process.send_signal(signal.SIGTERM)
        await until(lambda: process.poll() is not None, "it ends by a signal")
        assert process.returncode == 0, on_kafka.log(name)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


async def refusal(on_kafka: OnKafka, name: str, **more: str) -> str:
    """Return what a curator says that does not start."""
    process = on_kafka.start(name, **more)
    try:
        await until(
            lambda: process.poll() is not None or b"worker_listens" in on_kafka.log(name),
            "it has ended, or runs",
        )
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    assert process.returncode == 4, on_kafka.log(name)
    return on_kafka.log(name).decode()


async def answered(on_kafka: OnKafka, grant: str) -> bytes:
    topic = await AnswerTopic.start(on_kafka.ledger.deployment)
    try:
        return (await answer_of(topic, grant)).value
    finally:
        await topic.close()


def outcome(value: bytes) -> str:
    return decode_answer(value).outcome


def values(on_kafka: OnKafka) -> Values:
    """Return the committed records of the topic."""
    ledger = on_kafka.ledger
    found = oracle.read(ledger.bootstrap, ledger.topic("answers"), 2)
    return [[each.value or b"" for each in some] for some in found]


async def restore(on_kafka: OnKafka, copy: Values) -> None:
    """Delete the topic, make it again, and write an older copy back."""
    ledger = on_kafka.ledger
    await asyncio.to_thread(Operator(ledger).delete, "answers")
    await create(ledger.deployment)
    await asyncio.to_thread(write, on_kafka, copy)


def write(on_kafka: OnKafka, copy: Values) -> None:
    ledger = on_kafka.ledger
    producer = Producer({"bootstrap.servers": ledger.bootstrap})
    for partition, some in enumerate(copy):
        for value in some:
            producer.produce(ledger.topic("answers"), value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


class Marks:
    """The offsets of the curator's consumer group."""

    def __init__(self, on_kafka: OnKafka) -> None:
        self._bootstrap = on_kafka.ledger.bootstrap
        self._topic = on_kafka.ledger.topic("answers")
        self._group = f"{on_kafka.ledger.deployment.application}-answers"

    async def read(self) -> dict[TopicPartition, tuple[int, str]]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        try:
            found = await admin.list_consumer_group_offsets(self._group)
        finally:
            await admin.close()
        return {tp: (each.offset, each.metadata) for tp, each in found.items()}

    async def write(self, marks: dict[TopicPartition, tuple[int, str]]) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, group_id=self._group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign(list(marks))
            await consumer.commit(marks)
        finally:
            await consumer.stop()

    def delete(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for each in admin.delete_consumer_groups([self._group]).values():
            each.result(PATIENCE_S)


def marks_of(on_kafka: OnKafka, copy: Values) -> dict[TopicPartition, tuple[int, str]]:
    """Return the marks that a topic had when it had these records."""
    topic, found = on_kafka.ledger.topic("answers"), dict[TopicPartition, tuple[int, str]]()
    for partition, some in enumerate(copy):
        hashed = b""
        for value in some:
            hashed = hashlib.sha256(hashed + value).digest()
        found[TopicPartition(topic, partition)] = len(some), hashed.hex()
    return found


async def two_answers(on_kafka: OnKafka) -> tuple[str, Values, str]:
    """Return a grant, the topic when it was answered, and a grant answered later."""
    async with curator(on_kafka, "first"):
        old = await on_kafka.ask(question())
        assert outcome(await answered(on_kafka, old)) == "answered"
        copy = await asyncio.to_thread(values, on_kafka)
        later = await on_kafka.ask(question())
        assert outcome(await answered(on_kafka, later)) == "answered"
    return old, copy, later


def audited(on_kafka: OnKafka) -> AnswersReport:
    """Compare the topic with the log, in a thread."""
    deployment = on_kafka.ledger.deployment
    answers = asyncio.run(read_all_answers(deployment))
    assert answers is not None
    comparison = AnswerComparison(answers)
    reports = run_audit(KafkaLog(deployment), None, None, comparison)
    return comparison.report({number: each.ledger for number, each in reports})


async def test_an_older_copy_of_the_answers_is_refused(on_kafka: OnKafka) -> None:
    old, copy, later = await two_answers(on_kafka)
    report = await asyncio.to_thread(audited, on_kafka)
    assert (report.ok, report.compared, report.waiting) == (True, 2, 0)
    assert (report.ledger_head, report.last_signed) == (None, None)
    newest, marks = values(on_kafka), Marks(on_kafka)
    found = await marks.read()
    assert {tp.partition: offset for tp, (offset, _) in found.items()} == {
        partition: len(some) for partition, some in enumerate(newest)
    }
    shown = await answered(on_kafka, later)

    await restore(on_kafka, copy)
    assert (await asyncio.to_thread(audited, on_kafka)).waiting == 1  # no head was compared
    await marks.write(found)  # as if the brokers had lost the end of this topic alone
    said = await refusal(on_kafka, "second")
    assert "it is an older copy" in said
    assert "delete the consumer group" in said

    await restore(on_kafka, newest)
    await marks.write(found)
    async with curator(on_kafka, "third"):
        assert await answered(on_kafka, later) == shown

    await restore(on_kafka, copy)
    await asyncio.to_thread(marks.delete)
    async with curator(on_kafka, "fourth"):
        assert outcome(await answered(on_kafka, later)) == "failed"
        assert outcome(await answered(on_kafka, old)) == "answered"
        new = await on_kafka.ask(question())
        assert outcome(await answered(on_kafka, new)) == "answered"
    assert b"answers_may_be_missing" in on_kafka.log("fourth")
    async with curator(on_kafka, "fifth"):
        assert outcome(await answered(on_kafka, new)) == "answered"
    assert b"answers_may_be_missing" not in on_kafka.log("fifth")


async def test_a_deleted_topic_of_answers_draws_nothing_again(on_kafka: OnKafka) -> None:
    old, copy, later = await two_answers(on_kafka)
    marks = Marks(on_kafka)
    for copied in True, False:
        await restore(on_kafka, copy if copied else [])
        # A broker forgets the offsets of a topic that was deleted, but perhaps not at once.
        for _ in range(300):
            if not await marks.read():
                break
            await asyncio.sleep(0.1)
        async with curator(on_kafka, f"copied {copied}"):
            assert outcome(await answered(on_kafka, later)) == "failed"
            assert (outcome(await answered(on_kafka, old)) == "answered") is copied
            new = await on_kafka.ask(question())
            assert outcome(await answered(on_kafka, new)) == "answered"


async def signed(
    on_kafka: OnKafka, directory: Path, heads: PartitionAnswersHeads | None = None
) -> list[str]:
    """Have a worker's task sign the heads of what the topic has now; return its notes.

    Args:
        heads: the task, which has read the topic before; None for a new one.
    """
    deployment = on_kafka.ledger.deployment
    chain = await open_answer_chain(deployment)
    assert chain is not None
    try:
        heads = heads or await signing(on_kafka, directory)
        await heads.sign(chain)
    finally:
        await chain.close()
    return heads.notes


async def signing(on_kafka: OnKafka, directory: Path) -> PartitionAnswersHeads:
    """Return the task of a worker that serves all partitions."""
    deployment = on_kafka.ledger.deployment
    heads = PartitionAnswersHeads(deployment, Settings(), directory, None)
    for each in await on_kafka.service.heads():
        genesis = msgspec.structs.replace(deployment.genesis(each.partition), ledger=each.ledger)
        checkpoints = partition_store(directory, Settings(), each.ledger, each.partition)
        checkpoints.put(each.partition_sequence, each.head, 0, 0)  # with the key that signs
        heads.replayed(Partition(genesis), 0)
    return heads


async def test_a_worker_signs_the_head_of_what_it_reads_and_names_an_older_copy(
    on_kafka: OnKafka, tmp_path: Path
) -> None:
    _, copy, _ = await two_answers(on_kafka)
    newest = values(on_kafka)
    running = await signing(on_kafka, tmp_path / "notes")
    assert await signed(on_kafka, tmp_path / "notes", running) == []
    found = sorted((tmp_path / "notes").rglob("*.head"))
    assert [is_answers_head(each.read_bytes()) for each in found] == [True] * len(found)
    assert found
    keys = [signing_key_at(tmp_path / "notes", None).verifier]
    shown = open_head(found[0].read_bytes(), keys)
    assert shown.number == len(newest[shown.partition])
    assert await signed(on_kafka, tmp_path / "notes") == []

    # A worker that was running reads the topic again, and compares it again. An empty one, too.
    signed_of = {open_head(each.read_bytes(), keys).partition for each in found}
    for copied in [[], []], copy:
        older = [n for n in signed_of if len(copied[n]) < len(newest[n])]
        await restore(on_kafka, copied)
        for heads in running, None:
            notes = await signed(on_kafka, tmp_path / "notes", heads)
            assert len(notes) == len(older) > 0, "one for each partition that is an older copy"
            assert all("older copy of the answers" in note for note in notes)
    assert sorted((tmp_path / "notes").rglob("*.head")) == found
    await Marks(on_kafka).write(marks_of(on_kafka, copy))  # a restore of both
    said = await refusal(on_kafka, "later", ACCOUNTANT_CHECKPOINTS=str(tmp_path / "notes"))
    assert "an older copy of the answers" in said
    assert "a signed head" in said

    signed_by = {"ACCOUNTANT_CHECKPOINTS": str(tmp_path / "notes")}
    gateway = on_kafka.start("gateway", "gateway", "--port", "0", **signed_by)
    try:
        url = await address_of(on_kafka)
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            notes = (await http.get("/readyz")).json().get("notes", [])
            assert any("a signed head" in note for note in notes)
            assert (await http.get("/datasets/census/answers")).status_code == 503
    finally:
        gateway.kill()
        gateway.wait()


async def test_a_record_that_does_not_continue_the_chain_is_refused(on_kafka: OnKafka) -> None:
    """Also one of the form that a version without a chain wrote."""
    async with curator(on_kafka, "only"):
        for _ in range(4):  # two of one partition at least
            assert outcome(await answered(on_kafka, await on_kafka.ask(question()))) == "answered"
    sound = values(on_kafka)
    places = [
        [place for place, value in enumerate(some) if b'"type":"answer"' in value] for some in sound
    ]
    busy = max(range(len(places)), key=lambda number: len(places[number]))
    answers = places[busy]
    changed = sound[busy][answers[0]].replace(b'"0.95"', b'"0.99"')
    assert changed != sound[busy][answers[0]]
    earlier = msgspec.json.decode(sound[busy][answers[-1]])
    del earlier["previous"], earlier["random"]
    forgeries = {
        "changed": {answers[0]: changed},
        "without a chain": {answers[-1]: msgspec.json.encode(earlier)},
        "cut out": {answers[0]: None},
        "twice": {answers[-1]: sound[busy][answers[0]]},
    }
    for name, forged in forgeries.items():
        copy = [list(some) for some in sound]
        copy[busy] = [
            value
            for place, each in enumerate(sound[busy])
            if (value := forged.get(place, each)) is not None
        ]
        if name == "changed":
            copy[busy].append(sound[busy][-1])  # so that a record follows the changed one
        await restore(on_kafka, copy)
        with pytest.raises(Refused, match="does not continue"):
            await AnswerTopic.start(on_kafka.ledger.deployment)


async def test_deleted_records_are_named_by_each_reader_and_by_an_audit(
    on_kafka: OnKafka,
) -> None:
    """As by `DeleteRecords`. The way out that they print works."""
    deployment = on_kafka.ledger.deployment
    head = (await on_kafka.service.heads())[1]
    store = await KafkaAnswers.start(deployment)
    gateway = await AnswerTopic.start(deployment)
    deleted = "partition 1, begins at offset 1: the records before it were deleted"
    try:
        await store.open_log(1, head.ledger, 0)
        await store.move(1, LogPlace(0, head.head))
        assert gateway.trouble is None
        await asyncio.to_thread(Operator(on_kafka.ledger).delete_before, "answers", 1, 1)

        async def named() -> bool:
            return None not in {gateway.trouble, store.trouble}

        assert await comes_true(named)
        assert deleted in str(gateway.trouble)
        with pytest.raises(ChainBroken, match=deleted):
            await store.move(1, LogPlace(1, head.head))
        with pytest.raises(ChainBroken, match="run `accountant topics create`"):
            await AnswerTopic.start(deployment)
    finally:
        await gateway.close()
        await store.close()

    run = partial(run_here, on_kafka.directory, **on_kafka.variables())
    for words in (), ("--json",):
        audit = ("audit", "--url", f"kafka://{deployment.bootstrap}", *words)
        done = await asyncio.to_thread(run, *audit)
        assert done.code == 1
        assert deleted in done.out
    assert done.json["answers"]["first_disagreement"]["what"] == "chain"
    assert [each["report"]["ok"] for each in done.json["partitions"]] == [True, True]

    await restore(on_kafka, [])
    again = await KafkaAnswers.start(deployment)
    try:
        assert await again.open_log(1, head.ledger, 7) == 7, "nothing granted before is run"
    finally:
        await again.close()
