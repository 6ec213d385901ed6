"""`head --to` and `audit --checkpoints` with places outside of the machine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import environment
from tests.streams.evidence.sinks.kinds import make_topic
from tests.streams.evidence.sinks.receiver import SECRET, CheckpointReceiver


@pytest.fixture
def key(opened) -> str:
    """The public half of a key in the file `key`."""
    done = opened("key", "create", "key", "--name", "census.example.org")
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[CheckpointReceiver]:
    with CheckpointReceiver(tmp_path / "received") as running:
        yield running


def store_three_checkpoints(accountant, place: str) -> None:
    """Have three heads of a growing log kept in a place."""
    for _ in range(3):
        assert accountant("ask", "census", "pure:0.001", "--analyst", "ana").code == 0
        done = accountant("head", "--key", "key", "--to", place)
        assert done.code == 0, done.err


def test_an_auditor_reads_a_topic_from_its_beginning(opened, key, broker, application, tmp_path):
    make_topic(broker.bootstrap, application, partitions=2)
    place = f"kafka://{broker.bootstrap}/{application}"
    store_three_checkpoints(opened, place)
    run_audit = ("audit", "--checkpoints", place, "--key", key)
    done = opened(*run_audit)
    assert (done.code, "3 checkpoints agree, the last of decision 4" in done.out) == (0, True)
    reported = opened("head", "--key", "key", "--to", place, "--json").json
    assert reported["kept"] == f"{place}, partition 0, offset 3"

    log = opened("log", "export").out.splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join(log[:-1]))
    cut = opened("audit", "cut.jsonl", *run_audit[1:])
    assert (cut.code, "truncated" in cut.out) == (1, True), cut.out

    stranger = Producer({"bootstrap.servers": broker.bootstrap})
    stranger.produce(application, b"no note", partition=1)
    stranger.flush(PATIENCE_S)
    spoilt = opened(*run_audit)
    assert spoilt.code == 1
    assert "not trusted partition 1, offset 0: it is not a signed checkpoint" in spoilt.out


def test_a_webhook_takes_heads_and_cannot_be_read(opened, key, receiver):
    store_three_checkpoints(opened, receiver.url)
    assert len(receiver.notes()) == 3
    done = opened("audit", "--checkpoints", str(receiver.directory), "--key", key)
    assert (done.code, "3 checkpoints agree" in done.out) == (0, True), done.out
    done = opened("audit", "--checkpoints", receiver.url, "--key", key)
    assert done.code == 4
    assert f"{receiver.name} is a webhook, whose checkpoints cannot be read back" in done.err
    receiver.answer(503)
    refused = opened("head", "--key", "key", "--to", receiver.url)
    assert (refused.code, "status 503" in refused.err) == (3, True), refused.err
    for reported in (done, refused):
        assert SECRET not in reported.err + reported.out


def test_a_webhook_receives_the_authorization_of_the_settings(opened, key, receiver):
    secret = {"ACCOUNTANT_CHECKPOINT_PLACES_AUTHORIZATION": "Bearer header-secret"}
    done = opened("head", "--key", "key", "--to", receiver.url, "--json", **secret)
    assert json.loads(done.out)["kept"] == receiver.name
    ((_, headers, _),) = receiver.posts
    assert headers["authorization"] == "Bearer header-secret"


def test_an_invalid_sink_is_reported(opened, key):
    for place, why in {
        "http://192.0.2.7/x": "is another machine: use https://",
        "kafka://h:1": "must be followed by /TOPIC",
        "kafka://h:1/decisions": "is a topic of a ledger",
        "s3://bucket": "a sink must be",
    }.items():
        done = opened("head", "--key", "key", "--to", place)
        assert (done.code, why in done.err) == (4, True), done.err
    own = opened(
        "head", "--key", "key", "--to", "kafka://h:1/a-state", ACCOUNTANT_TOPIC_PREFIX="a-"
    )
    assert "is a topic of a ledger" in own.err


def test_a_server_reports_an_unreachable_sink_without_its_secret(accountant, receiver, tmp_path):
    receiver.down()
    env = environment(
        ACCOUNTANT_CHECKPOINTS=str(tmp_path / "kept"),
        ACCOUNTANT_CHECKPOINT_PLACES=receiver.url,
        ACCOUNTANT_CHECKPOINT_PLACES_SECONDS="1",
        ACCOUNTANT_CHECKPOINT_PLACES_AUTHORIZATION="Bearer header-secret",
        ACCOUNTANT_LOG_LEVEL="debug",
    )
    process = accountant.start("serve", "--port", "0", env=env)
    assert process.stdout is not None
    server = process.stdout.readline().split()[-1]
    metric = 'privacy_checkpoint_place_overdue_seconds{kind="webhook",place="1"}'

    def overdue() -> float:
        lines = httpx.get(f"{server}/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(metric))

    while not overdue():
        time.sleep(0.05)
    ready = httpx.get(f"{server}/readyz")
    assert ready.status_code == 200
    assert ready.json()["notes"][0].startswith(f"checkpoint sink 1: {receiver.name} ")
    reported = ready.text + httpx.get(f"{server}/metrics").text
    receiver.up()
    while httpx.get(f"{server}/readyz").json().get("notes"):
        time.sleep(0.05)
    assert overdue() == 0
    process.terminate()
    reported += "".join(process.communicate(timeout=PATIENCE_S))
    assert f"where={receiver.name}" in reported
    for secret in (SECRET, "header-secret"):
        assert secret not in reported
    assert receiver.notes()
