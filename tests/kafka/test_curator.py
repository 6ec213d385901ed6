"""A curator of a ledger on Kafka: answers in a topic, and one writer at a time."""

from __future__ import annotations

import asyncio
import platform
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from accountant.answers import decode_answer
from streams.answers.granted import GrantedQuestion
from streams.answers.unanswered import UnansweredQuestions
from streams.client.http.readiness import read_readiness
from streams.clock import SystemClock
from streams.curator.counts import CuratorCounts
from streams.curator.curator import Curator, CuratorOptions
from streams.curator.data_answering import DataAnswering
from streams.curator.state_watch import StateWatch
from streams.kafka.service.answers import AnswerTopic, KafkaAnswers
from streams.server.monitoring import with_answers
from streams.sources import DataSources
from streams.sources.confirmed_facts import ConfirmedFacts
from streams.sources.source_access import SourceAccess
from streams.sources.source_facts import read_facts
from streams.sources.source_settings import CsvSource
from streams.sources.source_states import SourceStates
from streams.testing import LocalBroker
from tests.faults.ledger import until
from tests.kafka.curated_on_kafka import (
    DATASETS,
    OnKafka,
    address_of,
    answer_of,
    curated_on_kafka,
)
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import Counting, comes_true, opened, question, session

STARTS = ()

pytestmark = pytest.mark.kafka


@pytest.fixture
async def on_kafka(broker: LocalBroker, application: str, tmp_path: Path) -> AsyncIterator[OnKafka]:
    async with curated_on_kafka(broker.bootstrap, application, tmp_path) as made:
        yield made


async def test_curators_take_over_from_one_another(on_kafka: OnKafka) -> None:
    topic = await AnswerTopic.start(on_kafka.ledger.deployment)
    first = on_kafka.start("first")
    second: subprocess.Popen[bytes] | None = None
    try:
        await until(lambda: b"worker_listens" in on_kafka.log("first"), "the first one runs")
        grants = [await on_kafka.ask(question(name)) for name in DATASETS]
        grants.append(await on_kafka.ask(session(dataset="census")))
        before = [await answer_of(topic, each) for each in grants]
        assert {decode_answer(each.value).outcome for each in before} == {"answered"}
        # Its source is for the others: what was written past a gateway reads no row.
        await on_kafka.send(opened("mine", population="people"), "admin")
        refused = await answer_of(topic, await on_kafka.ask(question("mine")))
        assert decode_answer(refused.value).outcome == "failed"
        await until(lambda: b"question_on_another_source" in on_kafka.log("first"), "it is said")
        second = on_kafka.start("second")
        await until(lambda: b"worker_listens" in on_kafka.log("second"), "the second one runs")
        later = [await on_kafka.ask(question(name)) for name in DATASETS]
        for grant in later:
            assert decode_answer((await answer_of(topic, grant)).value).outcome == "answered"
        await until(lambda: first.poll() is not None, "the first one has ended, at its next write")
        assert first.returncode == 4, on_kafka.log("first")
        said = f"another curator has started (process {second.pid} on {platform.node()}, since 20"
        assert said.encode() in on_kafka.log("first")
        assert [await topic.get(each) for each in grants] == before
        find = on_kafka.service.open_reservation
        await until(lambda: find("census", grants[-1]) is None, "the session is settled")
        second.send_signal(signal.SIGTERM)
        await until(lambda: second.poll() is not None, "it ends by a signal")
        assert second.returncode == 0, on_kafka.log("second")
    finally:
        for each in (first, second):
            if each is not None and each.poll() is None:
                each.kill()
                each.wait()
        await topic.close()


async def test_many_costly_questions_of_one_name_stop_nobody_elses(
    on_kafka: OnKafka,
) -> None:
    sources = {"census": CsvSource(path=str(on_kafka.directory / "census.csv"), datasets=DATASETS)}
    turns = list[str]()

    def breaks(question: GrantedQuestion) -> None:
        turns.append(question.request.analyst)
        if question.request.analyst == "ana":
            time.sleep(0.05)

    answering = Counting(DataAnswering(DataSources(sources), b"k" * 32), breaks)
    store = await KafkaAnswers.start(on_kafka.ledger.deployment)
    # As a gateway does.
    topic = await AnswerTopic.start(on_kafka.ledger.deployment)
    unanswered = UnansweredQuestions(on_kafka.service, topic, SystemClock())
    following = asyncio.create_task(unanswered.run())
    access, options = SourceAccess(sources, "nobody"), CuratorOptions(tick=0.1)
    curator = Curator(on_kafka.service, store, answering, options, access=access)
    await curator.open()
    running = asyncio.create_task(curator.run())
    try:
        costly = (on_kafka.ask(question("census", epsilon="0.0001")) for _ in range(300))
        grants = await asyncio.gather(*costly)
        await until(lambda: len(curator.counts.waiting) > 250, "they wait")
        await until(lambda: len(unanswered.waiting) > 250, "and a gateway knows it")
        # Of the same partition, whose log has all of them before it.
        before = len(turns)
        cheap = await on_kafka.ask(question("census", analyst="bob"))
        assert decode_answer((await answer_of(store, cheap)).value).outcome == "answered"
        assert "bob" in turns[before : before + 2 * 3]
        assert curator.end_questions("census", "ana") > 200
        await until(lambda: not len(curator.counts.waiting), "nothing waits")
        await until(lambda: not len(unanswered.waiting), "and a gateway knows it")
        found = [await answer_of(store, each) for each in (grants[0], grants[-1])]
        outcomes = [decode_answer(each.value).outcome for each in found]
        assert outcomes == ["answered", "failed"]
    finally:
        curator.stop()
        await asyncio.wait({running}, timeout=PATIENCE_S)
        following.cancel()
        await topic.close()
        await store.close()


async def counts_unanswered(http: httpx.AsyncClient, on_kafka: OnKafka) -> None:
    """Check that a gateway counts a question that no curator answers, and ends none."""
    await on_kafka.ask(question("census"))
    shown = list[str]()

    async def look() -> bool:
        shown[:] = (await http.get("/metrics")).text.splitlines()
        return 'privacy_questions_unanswered{dataset="census"} 1.0' in shown

    assert await comes_true(look), shown
    answer = await http.post("/datasets/census/questions/end", json={})
    assert (answer.status_code, answer.json()["error"]) == (404, "no_curator")


async def test_gateways_refuse_by_what_the_curator_has_published(on_kafka: OnKafka) -> None:
    data = on_kafka.directory / "census.csv"
    source = CsvSource(path=str(data), datasets=DATASETS)
    sources, deployment = {"census": source}, on_kafka.ledger.deployment
    confirmed = ConfirmedFacts(on_kafka.directory / "own.confirmed")
    states, access = SourceStates(sources, confirmed), SourceAccess(sources, "nobody")
    store: KafkaAnswers | None = None
    # It has the setting, and no file: it knows no source.
    away = {"ACCOUNTANT_DATA_SOURCES": str(on_kafka.directory / "away.json")}
    gateway = on_kafka.start("gateway", "gateway", "--port", "0", **away)
    try:
        url = await address_of(on_kafka)
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            await counts_unanswered(http, on_kafka)
            store = await KafkaAnswers.start(deployment)
            watch = StateWatch(on_kafka.service, access, states, CuratorCounts(), store)

            async def ask(**more: Any) -> tuple[int, dict[str, Any]]:
                headers = {"content-type": "application/json", "prefer": "wait=30"}
                body = question("census", **more)
                answer = await http.post("/requests", content=body, headers=headers)
                return answer.status_code, answer.json()

            async def error(**more: Any) -> bool:
                shown[:] = [(await ask(**more))[1].get("error")]
                return shown == ["source_closed"]

            shown = list[str | None]()
            await watch.start()
            assert (await ask())[1]["outcome"] == "granted"
            data.write_text(data.read_text().replace("region", "area", 1))
            await watch.look()
            assert await comes_true(error, seconds=60), shown
            (await http.get("/readyz")).json()["notes"].index(states.note())
            assert b"area" not in (await http.get("/readyz")).content
            confirmed.confirm("census", read_facts(source))
            await watch.look()
            await until(lambda: store.states["census"].is_closed is False, "it is read back")

            async def granted() -> bool:
                return (await ask())[0] == 200

            assert await comes_true(granted, seconds=60)
            by_region = {"ask": "count", "by": ["region"]}
            status, lacking = await ask(question=by_region)
            assert (status, lacking["error"]) == (422, "not_in_source")
        # What is published says no name of the source, and another curator's start reads it.
        assert "area" not in str(store.states)
        await store.close()
        again = await KafkaAnswers.start(deployment)
        assert again.states == store.states
        await again.close()
    finally:
        gateway.kill()
        gateway.wait()
        if store is not None:
            await store.close()


async def test_a_reader_that_ends_at_a_record_says_so(on_kafka: OnKafka) -> None:
    deployment = on_kafka.ledger.deployment
    topic = await AnswerTopic.start(deployment)
    try:
        producer = Producer({"bootstrap.servers": deployment.bootstrap})
        producer.produce(deployment.topics.answers, b"forged", partition=0)
        assert await asyncio.to_thread(producer.flush, PATIENCE_S) == 0
        await until(lambda: topic.trouble is not None, "it has ended")
        state = with_answers(on_kafka.service.readiness, topic)()
        assert state.ready
        assert "no record of this version" in " ".join(state.notes)
        # A gateway that starts now takes requests, and says the same.
        gateway = on_kafka.start("gateway", "gateway", "--port", "0")
        try:
            ready = await asyncio.to_thread(read_readiness, await address_of(on_kafka), None)
            assert ready.ready
            (note,) = [each for each in ready.notes if "no question gets an answer" in each]
            assert "Run the version that wrote it" in note
        finally:
            gateway.kill()
            gateway.wait()
    finally:
        await topic.close()
