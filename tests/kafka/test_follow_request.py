"""A request is followed over Kafka: from the gateway through headers to the worker's log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import httpx
import pytest
from aiokafka import AIOKafkaProducer

from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, request, until
from tests.faults.server_process import ServerProcess
from tests.faults.worker_process import WorkerProcess, settings_of
from tests.kafka.raw_batches import Raw, append, batch
from tests.patience import PATIENCE_S
from tests.streams.collector import Collector
from tests.streams.server.logged_server import events

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
LOGGED = {"ACCOUNTANT_ACCESS_LOG": "requests", "ACCOUNTANT_LOG_FORMAT": "json"}
Headers = Sequence[tuple[str, bytes | None]]


def records(ledger: Ledger, name: str) -> list[tuple[Headers, bytes]]:
    """Return headers and value of every committed record of a topic, read by another client."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ledger.bootstrap,
            "group.id": f"reader-{new_id()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )

    topic, found, ended = ledger.topic(name), list[tuple[Headers, bytes]](), set[int]()
    partitions = ledger.deployment.partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)])
    try:
        while len(ended) < partitions:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is None:
                found.append((message.headers() or [], message.value() or b""))
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                ended.add(message.partition() or 0)
    finally:
        consumer.close()
    return found


def decisions(ledger: Ledger) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in records(ledger, "decisions")]


async def post(address: str, body: bytes, path: str = "/requests", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S, trust_env=False) as http:
        sent = {"content-type": "application/json", "prefer": "wait=30", **named}
        response = await http.post(path, content=body, headers=sent)
    assert response.status_code == 200, response.text
    return response


def opening(dataset: str) -> bytes:
    policy = {"filter": "basic", "epsilon": "1"}
    body = {"version": 1, "type": "open", "request_id": new_id(), "dataset": dataset}
    return json.dumps({**body, "by": "owner", "policy": policy}).encode()


async def test_the_ids_of_a_request_reach_the_workers_log_and_no_decision(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        worker = WorkerProcess(ledger, "w", tmp_path, **LOGGED)
        gateway_log = tmp_path / "gateway.log"
        gateway = ServerProcess("gateway", gateway_log, {**settings_of(ledger), **LOGGED})
        worker.start()
        try:
            with gateway:
                await asyncio.to_thread(gateway.start)
                await post(gateway.address, opening("ds"), "/datasets", X_Request_Id="check-open")
                ids = {"X_Request_Id": "check-1", "traceparent": TRACEPARENT}
                with_ids = await post(gateway.address, request("ds"), **ids)
                other_id = "check-\x7f"
                replaced = await post(gateway.address, request("ds"), X_Request_Id=other_id)
                log = tmp_path / "w.log"
                await until(lambda: len(events(log, "record_decided")) == 3, "lines of 3 records")
                # A server writes its line once the whole response is sent.
                answered = lambda: len(events(gateway_log, "http_request")) == 3  # noqa: E731
                await until(answered, "lines of 3 responses")
        finally:
            worker.kill()
        # From HTTP to the record's headers.
        own = replaced.headers["x-request-id"]
        assert [headers for headers, _ in await asyncio.to_thread(records, ledger, "requests")] == [
            [("x-request-id", b"check-1"), ("traceparent", TRACEPARENT.encode())],
            [("x-request-id", own.encode())],
        ]
        (admin,) = await asyncio.to_thread(records, ledger, "admin")
        assert admin[0] == [("x-request-id", b"check-open")]
        # To the worker's log.
        opened, first, second = events(log, "record_decided")
        assert (opened["source"], opened["http_request_id"]) == ("admin", "check-open")
        assert (first["http_request_id"], first["trace_id"]) == ("check-1", TRACE_ID)
        assert (second["http_request_id"], second["trace_id"]) == (own, None)
        assert first["partition_sequence"] == with_ids.json()["partition_sequence"]
        assert (first["dataset"], first["outcome"]) == ("ds", "granted")
        lines = {each["http_request_id"]: each for each in events(gateway_log, "http_request")}
        assert lines["check-1"]["trace_id"] == TRACE_ID
        assert lines[own]["status"] == 200
        # And to nothing that is stored.
        for name in ("decisions", "state", "dead_letters"):
            for headers, value in await asyncio.to_thread(records, ledger, name):
                assert not headers
                assert not any(text in value for text in (b"check-", TRACE_ID.encode()))


async def test_untrusted_headers_change_no_decision(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    ids: list[list[tuple[str, bytes]]] = [
        [],
        [("x-request-id", b"x" * 65)],
        [("x-request-id", b"a\nb")],
        [("x-request-id", b"one"), ("x-request-id", b"two")],
        [("traceparent", TRACEPARENT.upper().encode())],
        [("traceparent", b"0" * 100_000)],
        [("x-request-id", b"")],
        [("X-Request-Id", b"other-letters"), ("reason", b"undecodable"), ("source", b"admin")],
        [("a", b"")] * 5_000 + [("x-request-id", b"late")],
    ]
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        worker = WorkerProcess(ledger, "w", tmp_path, **LOGGED)
        worker.start()
        producer = AIOKafkaProducer(bootstrap_servers=ledger.bootstrap, acks="all")
        await producer.start()
        try:
            topic, log = ledger.topic("requests"), tmp_path / "w.log"
            first = [("x-request-id", b"open")]
            await producer.send_and_wait(
                ledger.topic("admin"), opening("ds"), key=b"ds", headers=first
            )
            await until(lambda: bool(events(log, "record_decided")), "an open dataset")
            for headers in ids:
                await producer.send_and_wait(
                    topic, request("ds"), key=b"ds", partition=0, headers=headers
                )
            # A name that is not UTF-8 makes the worker bypass the client's parser.
            damaged = Raw(b"ds", request("ds"), headers=[(b"\xff", b""), (b"x-request-id", None)])
            await append(ledger.bootstrap, topic, 0, batch([damaged]))
            valid = [("other", b"\xff"), ("x-request-id", b"valid")]
            await producer.send_and_wait(topic, request("ds"), key=b"ds", headers=valid)
            await until(lambda: len(events(log, "record_decided")) == 2, "the line of a valid id")
        finally:
            await producer.stop()
            worker.kill()
        _, line = events(log, "record_decided")
        assert line["http_request_id"] == "valid"
        outcomes = [each["outcome"] for each in await asyncio.to_thread(decisions, ledger)]
        assert outcomes == ["genesis", "opened", *["granted"] * (len(ids) + 2)]


async def test_the_spans_of_gateway_and_worker_are_one_trace(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        with Collector() as collector:
            traced = {**LOGGED, **collector.settings()}
            worker = WorkerProcess(ledger, "w", tmp_path, **traced)
            settings = {**settings_of(ledger), **traced}
            worker.start()
            try:
                with ServerProcess("gateway", tmp_path / "gateway.log", settings) as gateway:
                    await asyncio.to_thread(gateway.start)
                    await post(gateway.address, opening("ds"), "/datasets")
                    sent = await post(gateway.address, request("ds"), traceparent=TRACEPARENT)

                    def spans() -> dict[str, dict[str, Any]]:
                        found = [x for x in collector.spans() if x["trace"] == TRACE_ID]
                        return {each["name"]: each for each in found}

                    await until(lambda: len(spans()) == 2, "a span of each process")
            finally:
                worker.stop()
            http, decided = spans()["POST /requests"], spans()["decide"]
            assert http["parent"] == PARENT_ID
            assert decided["parent"] == http["span"]
            assert decided["ns"][0] <= decided["ns"][1]
            assert decided["attributes"] == {
                "messaging.system": "kafka",
                "messaging.destination.partition.id": "0",
                "messaging.kafka.offset": 0,
                "accountant.partition_sequence": sent.json()["partition_sequence"],
                "accountant.outcome": "granted",
            }
            assert not [each for each in collector.raw if b"ana" in each or b"ds" in each]


@pytest.mark.parametrize("path", ["/datasets/SECRET", "/datasets?a=SECRET-QUERY"])
async def test_a_workers_own_server_has_an_access_log(
    broker: LocalBroker, application: str, tmp_path: Path, path: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        worker = WorkerProcess(ledger, "w", tmp_path, **LOGGED)
        worker.start()
        log = tmp_path / "w.log"
        try:
            await until(lambda: bool(events(log, "worker_listens")), "listening")
            (listens,) = events(log, "worker_listens")
            url = f"http://127.0.0.1:{listens['port']}{path}"
            async with httpx.AsyncClient(trust_env=False) as http:
                found = await http.get(url, headers={"X-Request-Id": "check-worker"})
            assert found.headers["x-request-id"] == "check-worker"
            await until(lambda: bool(events(log, "http_request")), "its line")
        finally:
            worker.kill()
        (line,) = events(log, "http_request")
        assert (line["path"], line["status"]) == (path.partition("?")[0], found.status_code)
        assert "SECRET-QUERY" not in log.read_text()
