"""One contract for every sink of checkpoints, and the extra rules of each kind."""

from __future__ import annotations

import resource
import traceback
from pathlib import Path

import pytest

from streams.errors import LedgerFault, Refused, Unavailable
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint, sign_checkpoint
from streams.evidence.sink_webhook import CheckpointWebhook
from streams.evidence.sinks import Sink
from streams.evidence.store import Directory
from streams.kafka.log.checkpoint_topic import Topic
from streams.kafka.wire.security import Cluster
from tests.faults.proxy import FaultProxy
from tests.patience import PATIENCE_S
from tests.streams.evidence.sinks.kinds import Kind, OnTopic, deaf, make_topic
from tests.streams.evidence.sinks.receiver import SECRET, CheckpointReceiver

KEY = SigningKey("census.example.org", b"\x07" * 32)
ONE = Checkpoint("5d0c" * 8, 0, 0, 41, "sha256:" + "ab" * 32, 1_764_000_000_000)
FORK = ONE._replace(head="sha256:" + "cd" * 32)
LATER = ONE._replace(sequence=42, at=ONE.at + 1_000)
OTHERS = [ONE._replace(partition=3), ONE._replace(ledger="sha256:" + "0e" * 32), LATER]


def signed(checkpoint: Checkpoint) -> bytes:
    return sign_checkpoint(checkpoint, KEY)


def put(sink: Sink, checkpoint: Checkpoint) -> str:
    return sink.put(checkpoint, signed(checkpoint))


def test_a_sink_stores_a_checkpoint_byte_for_byte(kind: Kind) -> None:
    assert put(kind.sink, ONE).startswith(kind.sink.name)
    assert kind.notes() == [signed(ONE)]


def test_storing_a_checkpoint_twice_stores_it_once(kind: Kind) -> None:
    for _ in range(2):
        put(kind.sink, ONE)
    assert {*kind.notes()} == {signed(ONE)}


def test_a_checkpoint_never_replaces_another(kind: Kind) -> None:
    each = [ONE, FORK, *OTHERS]
    for checkpoint in each:
        put(kind.sink, checkpoint)
    assert sorted(kind.notes()) == sorted(map(signed, each))


def test_an_unreachable_sink_raises_and_accepts_later_checkpoints(kind: Kind) -> None:
    put(kind.sink, ONE)
    with kind.gone(), pytest.raises(Unavailable) as away:
        put(kind.sink, LATER)
    assert kind.sink.name in str(away.value)
    put(kind.sink, LATER)
    assert {*kind.notes()} == {signed(ONE), signed(LATER)}


def test_a_full_disk_raises_and_leaves_no_partial_file(tmp_path: Path) -> None:
    sink = Directory(tmp_path)
    file = Path(put(sink, ONE))
    file.unlink()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))  # as on a disk without room
    try:
        with pytest.raises(Unavailable, match="File too large"):
            put(sink, ONE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*file.parent.iterdir()]
    put(sink, ONE)
    assert [note for _, note in sink.notes()] == [signed(ONE)]


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 404, 413, 429, 500, 503])
def test_a_webhook_status_other_than_2xx_raises(receiver: CheckpointReceiver, status: int) -> None:
    receiver.answer(status)
    receiver.location = f"{receiver.name}/elsewhere"
    sink = CheckpointWebhook(receiver.url, receiver.name)
    with pytest.raises(Unavailable, match=f"status {status}"):
        put(sink, ONE)
    assert len(receiver.posts) == 1  # no redirection is followed


def test_a_webhook_receives_the_checkpoint_as_text(receiver: CheckpointReceiver) -> None:
    put(CheckpointWebhook(receiver.url, receiver.name, "Bearer header-secret"), ONE)
    ((path, headers, body),) = receiver.posts
    assert path == f"/notes/{SECRET}?token={SECRET}"
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["authorization"] == "Bearer header-secret"
    assert body == signed(ONE)


def hanging(kind: str, port: int) -> Sink:
    if kind == "topic":
        return Topic(Cluster(f"127.0.0.1:{port}"), "checkpoints", whole=0.5)
    url = f"http://127.0.0.1:{port}/{SECRET}"
    return CheckpointWebhook(url, f"http://127.0.0.1:{port}", "Bearer header-secret", whole=0.5)


@pytest.mark.parametrize("kind", ["topic", "webhook"])
def test_a_sink_that_does_not_respond_raises_after_its_time_limit(kind: str) -> None:
    # Without a bound the test's own time limit ends it.
    with deaf() as port, pytest.raises(Unavailable, match="answer"):
        put(hanging(kind, port), ONE)


def test_errors_of_a_webhook_contain_no_secret(
    receiver: CheckpointReceiver,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = CheckpointWebhook(receiver.url, receiver.name, "Bearer header-secret", whole=0.5)
    result = ""
    with caplog.at_level("DEBUG"):
        receiver.answer(500)
        for way in ("status", "slow", "away"):
            if way == "slow":
                receiver.slow = 2.0
            if way == "away":
                receiver.down()
            try:
                put(sink, ONE)
            except LedgerFault as error:
                result += "".join(traceback.format_exception(error))
    result += caplog.text + "".join(capfd.readouterr())
    assert result.count(receiver.name) >= 3
    for secret in (SECRET, "header-secret", "token="):
        assert secret not in result


@pytest.mark.kafka
def test_a_missing_topic_is_refused_and_not_created(proxy: FaultProxy, application: str) -> None:
    sink = Topic(Cluster(proxy.bootstrap), application)
    for _ in range(2):
        with pytest.raises(Refused, match="there is no such topic"):
            put(sink, ONE)
        with pytest.raises(Refused, match="there is no such topic"):
            [*sink.notes()]


@pytest.mark.kafka
def test_a_compacted_topic_is_refused(proxy: FaultProxy, application: str) -> None:
    kind = OnTopic(proxy, application, **{"cleanup.policy": "compact"})
    with pytest.raises(Refused, match="compacted"):
        put(kind.sink, ONE)


@pytest.mark.kafka
def test_a_topic_is_read_to_its_end_despite_foreign_records(
    proxy: FaultProxy, application: str
) -> None:
    from confluent_kafka import Producer

    make_topic(proxy.bootstrap, application, partitions=3)
    sink = Topic(Cluster(proxy.bootstrap), application)
    many = [ONE._replace(partition=number % 3, sequence=number) for number in range(9)]
    for checkpoint in many[:5]:
        put(sink, checkpoint)
    stranger = Producer(
        {"bootstrap.servers": proxy.bootstrap, "compression.type": "gzip", "linger.ms": 50}
    )
    for value in (None, b"", b"no note" * 2_000, b"\xff\xfe"):
        stranger.produce(application, value, key=b"k")
    stranger.flush(PATIENCE_S)
    # Whoever may write here must not keep an auditor waiting by a transaction without an end.
    endless = Producer({"bootstrap.servers": proxy.bootstrap, "transactional.id": application})
    endless.init_transactions(PATIENCE_S)
    endless.begin_transaction()
    endless.produce(application, signed(LATER), partition=0)
    endless.flush(PATIENCE_S)
    for checkpoint in many[5:]:
        put(sink, checkpoint)
    found = [*sink.notes()]
    endless.abort_transaction(PATIENCE_S)
    assert len({name for name, _ in found}) == len(found) == 9 + 4 + 1
    assert {note for _, note in found} >= {*map(signed, [*many, LATER])}
    assert found[0][0].startswith("partition 0, offset 0")
