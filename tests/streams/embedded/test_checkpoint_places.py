"""A ledger in a file sends the checkpoints that it keeps to other places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from accountant.partition import hash_of
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint, open_signed
from streams.evidence.store import Directory
from streams.kafka.log.topic_sink import topic_sink
from streams.settings import Settings
from tests.streams.embedded import ledger_files
from tests.streams.embedded.ledger_files import ask
from tests.streams.evidence.sinks.receiver import SECRET, CheckpointReceiver
from tests.streams.waiting import eventually


@pytest.fixture
def elsewhere(tmp_path: Path, checkpoint_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that they are sent to, at most each second."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_PLACES", str(place))
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_PLACES_SECONDS", "1")
    return place


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[CheckpointReceiver]:
    with CheckpointReceiver(tmp_path / "received") as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def newest(checkpoint_directory: Path, place: Path) -> tuple[int, str] | None:
    """Return number and hash of the newest checkpoint in a place, each signed by the own key."""
    notes = [note for _, note in Directory(place).notes()]
    if not notes:
        return None
    known = [SigningKey.load(checkpoint_directory / "key").verifier]
    found: list[Checkpoint] = sorted(
        (open_signed(each, known) for each in notes), key=lambda c: c[3]
    )
    return found[-1].sequence, found[-1].head


def head_of(file: Path) -> tuple[int, str]:
    values = list(read_decisions(file))
    return len(values) - 1, hash_of(values[-1])


def test_a_new_checkpoint_is_sent_to_the_sink_within_the_interval(
    file: Path, checkpoint_directory: Path, elsewhere: Path
) -> None:
    service = ledger_files.opened(file)
    for number in range(1, 5):
        ask(service, number)
        eventually(lambda: newest(checkpoint_directory, elsewhere) == head_of(file))
    assert service.readiness().notes == []
    service.close_sync()


def test_closing_sends_the_last_checkpoint_to_the_sink(
    file: Path, checkpoint_directory: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_PLACES_SECONDS", "86400")
    service = ledger_files.opened(file)
    eventually(lambda: newest(checkpoint_directory, elsewhere))  # the next is due in half a day
    ask(service, 1, 2, 3)
    service.close_sync()
    assert newest(checkpoint_directory, elsewhere) == head_of(file)


def test_a_checkpoint_that_cannot_be_stored_is_not_sent(
    file: Path, checkpoint_directory: Path, elsewhere: Path
) -> None:
    service = ledger_files.opened(file)
    eventually(lambda: newest(checkpoint_directory, elsewhere) == head_of(file))
    before = head_of(file)
    (note, *_) = checkpoint_directory.rglob("*.note")
    note.parent.rename(checkpoint_directory / "aside")
    note.parent.write_text("no directory")
    ask(service, 1, 2)
    eventually(lambda: service.readiness().notes)
    service.close_sync()  # sends what there is to send
    assert newest(checkpoint_directory, elsewhere) == before
    note.parent.unlink()
    (checkpoint_directory / "aside").rename(note.parent)
    service = ledger_files.opened(file)
    eventually(lambda: newest(checkpoint_directory, elsewhere) == head_of(file))
    service.close_sync()


def test_an_unreachable_sink_is_reported_and_decisions_continue(
    file: Path,
    checkpoint_directory: Path,
    receiver: CheckpointReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_PLACES", receiver.url)
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_PLACES_SECONDS", "1")
    receiver.down()
    service = ledger_files.opened(file)
    ask(service, 1, 2)
    eventually(lambda: service.readiness().notes)
    readiness = service.readiness()
    assert readiness.ready
    assert readiness.notes == [
        f"checkpoint sink 1: {receiver.name} cannot be reached: there is no connection"
    ]
    ask(service, 3)
    receiver.up()
    eventually(lambda: newest(checkpoint_directory, receiver.directory) == head_of(file))
    eventually(lambda: not service.readiness().notes)
    service.close_sync()


def test_a_missing_sink_directory_is_not_created(
    file: Path, checkpoint_directory: Path, elsewhere: Path
) -> None:
    elsewhere.rmdir()
    service = ledger_files.opened(file)
    eventually(lambda: service.readiness().notes)
    assert service.readiness().notes[0].endswith(f"{elsewhere} is not a directory")
    assert not elsewhere.exists()
    elsewhere.mkdir()
    eventually(lambda: newest(checkpoint_directory, elsewhere) == head_of(file))
    service.close_sync()


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "no place": (
        {"PLACES": f"ftp://h/{SECRET}"},
        "setting ACCOUNTANT_CHECKPOINT_PLACES: a sink must be",
    ),
    "another machine": (
        {"PLACES": f"http://192.0.2.7/{SECRET}"},
        "http://192.0.2.7 is another machine",
    ),
    "a relative directory": ({"PLACES": "elsewhere"}, "which begins with /"),
    "a topic of a ledger": ({"PLACES": "/a,kafka://h:1/decisions"}, "is a topic of a ledger"),
    "one secret for two": (
        {
            "PLACES": f"https://a/{SECRET},https://b/{SECRET}",
            "PLACES_AUTHORIZATION": f"Bearer {SECRET}",
        },
        "2 webhooks would get the same",
    ),
    "none are kept": ({"PLACES": "/a", "S": "off"}, "set ACCOUNTANT_CHECKPOINTS"),
}


@pytest.mark.parametrize("how", WRONG)
def test_invalid_sinks_refuse_the_start_without_showing_a_secret(
    file: Path, checkpoint_directory: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, why = WRONG[how]
    for name, value in given.items():
        separator = "" if name == "S" else "_"
        monkeypatch.setenv(f"ACCOUNTANT_CHECKPOINT{separator}{name}", value)
    with pytest.raises(Refused, match=why) as refused:
        EmbeddedService.open(file, Settings(), topic_sink=topic_sink)
    assert SECRET not in str(refused.value)
    for name in given:
        monkeypatch.delenv(f"ACCOUNTANT_CHECKPOINT{'' if name == 'S' else '_'}{name}")
    ledger_files.opened(file).close_sync()  # the file is free


def test_an_empty_setting_configures_no_sink(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_PLACES", " ")
    service = ledger_files.opened(file)
    assert service.checkpoint_places is None
    service.close_sync()
