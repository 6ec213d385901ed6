"""The newest checkpoint goes to every sink, even if one of them fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streams.evidence.signed_checkpoint import Checkpoint, SignedHead, open_signed
from streams.evidence.sink_sender import Sender, Senders
from streams.evidence.sink_webhook import CheckpointWebhook
from streams.evidence.store import Directory
from streams.testing import ManualBackground, ManualClock
from tests.streams.evidence.sinks.kinds import Kind, deaf
from tests.streams.evidence.sinks.receiver import SECRET, CheckpointReceiver
from tests.streams.evidence.sinks.test_contract import KEY, ONE, signed
from tests.streams.waiting import eventually


def of(number: int, partition: int = 0) -> Checkpoint:
    return ONE._replace(sequence=number, partition=partition)


def send_checkpoints(to: Senders, *numbers: int, partition: int = 0) -> None:
    for number in numbers:
        checkpoint = of(number, partition)
        to.take(checkpoint, signed(checkpoint))


def numbers(notes: list[bytes], partition: int = 0) -> list[int]:
    """Return the decisions that notes are of, each signed by the key."""
    found = [open_signed(note, [KEY.verifier]) for note in notes]
    return sorted(each.sequence for each in found if each.partition == partition)


def overdue(senders: Senders) -> float:
    (family,) = senders.collect()
    return max(sample.value for sample in family.samples)


def test_a_sink_that_returns_receives_the_newest_checkpoint(kind: Kind) -> None:
    senders = Senders([kind.sink], 1)
    send_checkpoints(senders, 1)
    eventually(lambda: 1 in numbers(kind.notes()))
    with kind.gone():
        send_checkpoints(senders, *range(2, 500))
        eventually(lambda: senders.notes)
        assert senders.notes[0].startswith("checkpoint sink 1: ")
        assert kind.sink.name in senders.notes[0]
        eventually(lambda: overdue(senders) > 0)
        send_checkpoints(senders, *range(500, 1_000))
    eventually(lambda: 999 in numbers(kind.notes()))
    eventually(lambda: not senders.notes)
    assert overdue(senders) == 0
    # One that was on its way, perhaps, and the newest: no other one was held.
    assert len(numbers(kind.notes())) <= 3
    senders.close()


def test_closing_sends_the_newest_checkpoint_of_every_partition(kind: Kind) -> None:
    senders = Senders([kind.sink], 3_600)
    for partition in range(5):
        send_checkpoints(senders, 1, partition=partition)
    eventually(lambda: len(kind.notes()) == 5)
    for partition in range(5):  # not due for half an hour
        send_checkpoints(senders, 2, 3, partition=partition)
    senders.close()
    for partition in range(5):
        assert numbers(kind.notes(), partition) == [1, 3]


def test_an_older_checkpoint_does_not_replace_a_waiting_newer_one(tmp_path: Path) -> None:
    senders = Senders([Directory(tmp_path)], 3_600)
    send_checkpoints(senders, 1)
    eventually(lambda: [*Directory(tmp_path).notes()])
    send_checkpoints(senders, 7, 5)
    senders.close()
    assert numbers([note for _, note in Directory(tmp_path).notes()]) == [1, 7]


def test_a_checkpoint_that_arrives_during_a_sending_is_sent_next(tmp_path: Path) -> None:
    sink = Directory(tmp_path)

    class Busy(Directory):
        def put(self, checkpoint: SignedHead, signed_text: bytes) -> str:
            if checkpoint == of(1):
                sender.take(of(2), signed(of(2)))
            return super().put(checkpoint, signed_text)

    background = ManualBackground(ManualClock(0))
    sender = Sender(Busy(tmp_path), 1, 60, background=background)
    sender.take(of(1), signed(of(1)))
    background.pass_(60_000)
    assert numbers([note for _, note in sink.notes()]) == [1, 2]
    assert sender.overdue == 0


def test_of_two_heads_of_one_decision_the_later_is_sent_too(tmp_path: Path) -> None:
    background = ManualBackground(ManualClock(0))
    sender = Sender(Directory(tmp_path), 1, 60, background=background)
    fork = of(2)._replace(head=f"sha256:{'f' * 64}")
    for each in (of(2), fork):
        sender.take(each, signed(each))
    background.pass_(60_000)
    (stored,) = [open_signed(note, [KEY.verifier]) for _, note in Directory(tmp_path).notes()]
    assert stored == fork


def test_a_sink_that_refuses_one_partition_receives_the_others(
    receiver: CheckpointReceiver,
) -> None:
    receiver.answer(*[400] * 3)
    senders = Senders([CheckpointWebhook(receiver.url, receiver.name)], 1)
    for partition in range(3):
        send_checkpoints(senders, 1, partition=partition)
    eventually(lambda: len(receiver.notes()) == 3)
    senders.close()


def test_hanging_sinks_delay_neither_other_sinks_nor_closing(tmp_path: Path) -> None:
    working = tmp_path / "well"
    working.mkdir()
    with deaf() as port:
        url = f"http://127.0.0.1:{port}/{SECRET}"
        all_sinks = [
            CheckpointWebhook(url, "http://127.0.0.1"),
            CheckpointWebhook(f"{url}/2", "http://127.0.0.1"),
            Directory(working),
        ]
        senders = Senders(all_sinks, 1)
        for number in range(1, 4):
            send_checkpoints(senders, number)
            eventually(
                lambda last=number: last in numbers([n for _, n in Directory(working).notes()])
            )  # type: ignore[misc]
        eventually(lambda: overdue(senders) > 0)
        senders.close(0.2)  # returns, though two of them still hang


def test_a_sink_that_hangs_is_reported() -> None:
    with deaf() as port:
        sink = CheckpointWebhook(f"http://127.0.0.1:{port}/{SECRET}", "http://127.0.0.1", whole=2)
        sender = Sender(sink, 2, 1, slow=0.1)
        sender.take(of(1), signed(of(1)))
        hangs = "checkpoint sink 2: http://127.0.0.1 does not answer"
        late = "checkpoint sink 2: http://127.0.0.1 has not answered in 2 s"
        eventually(lambda: sender.trouble == hangs)
        eventually(lambda: sender.trouble == late)
        sender.end()


def test_messages_and_metrics_contain_no_secret(
    receiver: CheckpointReceiver,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    registry = CollectorRegistry()
    with caplog.at_level("DEBUG"):
        senders = Senders(
            [CheckpointWebhook(receiver.url, receiver.name, "Bearer header-secret")], 1
        )
        registry.register(senders)
        receiver.down()
        send_checkpoints(senders, 1)
        eventually(lambda: senders.notes)
        result = generate_latest(registry).decode() + "".join(senders.notes)
        receiver.up()
        eventually(lambda: not senders.notes)
        senders.close()
    result += caplog.text + "".join(capfd.readouterr())
    assert 'privacy_checkpoint_place_overdue_seconds{kind="webhook",place="1"}' in result
    assert result.count(receiver.name) >= 2  # in the note and in the log
    for secret in (SECRET, "header-secret"):
        assert secret not in result
