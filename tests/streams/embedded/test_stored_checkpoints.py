"""Checkpoints that a ledger's own process keeps, and what its next start does with them."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from accountant.partition import hash_of
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint
from streams.evidence.signed_checkpoint import open_signed as read_note
from streams.settings import Settings
from tests.faults.sqlite_life import die, forked
from tests.streams.bodies import asking
from tests.streams.embedded import ledger_files
from tests.streams.embedded.ledger_files import BORN, ask
from tests.streams.waiting import eventually


@pytest.fixture
def file(tmp_path: Path, checkpoint_directory: Path) -> Path:
    return tmp_path / "ledger.db"


def notes(place: Path) -> list[Checkpoint]:
    """Return the checkpoints in a place, each signed by its key."""
    if not (place / "key").exists():
        return []
    known = [SigningKey.load(place / "key").verifier]
    found = list[Checkpoint]()
    for path in place.rglob("*.note"):
        with suppress(FileNotFoundError):  # forgotten meanwhile
            found.append(read_note(path.read_bytes(), known))
    return sorted(found, key=lambda each: (each.branch, each.sequence))


def head_of(file: Path) -> tuple[int, str]:
    values = list(read_decisions(file))
    return len(values) - 1, hash_of(values[-1])


def opened(file: Path) -> EmbeddedService:
    """Open a ledger; a new one has decisions 0 and 1, its genesis and the opening of a dataset."""
    return EmbeddedService.open(file, Settings()) if file.exists() else ledger_files.opened(file)


def ask_and_close(file: Path, *numbers: int) -> None:
    service = opened(file)
    ask(service, *numbers)
    service.close_sync()


def back_up(file: Path) -> Path:
    copy = file.with_name("backup.db")
    with closing(apsw.Connection(str(file))) as db:
        db.execute("VACUUM INTO ?", (str(copy),))
    return copy


def test_a_checkpoint_follows_each_commit_and_the_end(
    file: Path, checkpoint_directory: Path
) -> None:
    service = opened(file)
    for number in range(1, 8):
        ask(service, number)
        eventually(
            lambda last=number + 1: (
                notes(checkpoint_directory)[-1:]
                and notes(checkpoint_directory)[-1].sequence == last
            )
        )  # type: ignore[misc]
    # Older ones are forgotten but for the first, and only once the newer one is there to be seen.
    eventually(lambda: [each.sequence for each in notes(checkpoint_directory)][1:] == [5, 6, 7, 8])
    ask(service, 8)
    service.close_sync()
    newest = notes(checkpoint_directory)[-1]
    assert (newest.sequence, newest.head) == head_of(file)
    assert newest.branch == 0
    assert stat.S_IMODE((checkpoint_directory / "key").stat().st_mode) == 0o600
    assert service.readiness().notes == []


def test_a_configured_key_signs_checkpoints(
    file: Path, checkpoint_directory: Path, tmp_path: Path, monkeypatch
) -> None:
    key = SigningKey.create(tmp_path / "own", "census.example.org")
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_KEY", str(tmp_path / "own"))
    ask_and_close(file, 1)
    (note,) = checkpoint_directory.rglob("*.note")
    assert read_note(note.read_bytes(), [key.verifier]).sequence == 2
    assert not (checkpoint_directory / "key").exists()


def cut(file: Path, *, to: int) -> None:
    """Take the end of a log away, and every row of its state."""
    with closing(apsw.Connection(str(file))) as db, db:
        db.execute("DELETE FROM decisions WHERE sequence > ?", (to,))
        db.execute("DELETE FROM state")


def put_back(file: Path) -> None:
    shutil.copy(file.with_name("backup.db"), file)


def put_back_and_continue(file: Path) -> None:
    """Put a backup back, and have it go on past what was lost, unseen."""
    put_back(file)
    service = EmbeddedService.open(file, Settings(checkpoints="off"))
    ask(service, 13, 14, 15)
    service.close_sync()


LOSSES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an old backup": (put_back, "ends at decision 2, but decision 4 was there"),
    "its end is cut": (lambda file: cut(file, to=3), "ends at decision 3, but decision 4 was"),
    "cut to its genesis": (lambda file: cut(file, to=0), "ends at decision 0, but decision 4"),
    "a backup that went on": (
        put_back_and_continue,
        "decision 4 of the log is another one than at",
    ),
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_start_refuses_a_log_that_has_lost_decisions(
    file: Path, checkpoint_directory: Path, how: str
) -> None:
    lose, reported = LOSSES[how]
    ask_and_close(file, 1)
    back_up(file)
    ask_and_close(file, 2, 3)
    lose(file)
    end = head_of(file)
    for _ in range(2):
        with pytest.raises(Refused, match=reported) as refused:
            EmbeddedService.open(file, Settings())
        assert "accountant accept-rollback --lost" in str(refused.value)
    assert head_of(file) == end  # nothing was decided
    assert notes(checkpoint_directory)[-1].sequence == 4  # and nothing signed


def test_a_moved_file_is_compared_and_continues(
    file: Path, checkpoint_directory: Path, tmp_path: Path
) -> None:
    ask_and_close(file, 1)
    back_up(file)
    ask_and_close(file, 2)
    moved = tmp_path / "moved.db"
    file.rename(moved)
    ask_and_close(moved, 3)
    moved.unlink()
    shutil.copy(tmp_path / "backup.db", tmp_path / "again.db")
    with pytest.raises(Refused, match="ends at decision 2, but decision 4 was there"):
        EmbeddedService.open(tmp_path / "again.db", Settings())


@pytest.fixture
def away(file: Path, checkpoint_directory: Path) -> Path:
    """A ledger of decisions 0 to 2 whose checkpoints cannot be reached, nor a place be made."""
    ask_and_close(file, 1)
    checkpoint_directory.rename(checkpoint_directory.with_name("elsewhere"))
    checkpoint_directory.write_text("no directory")
    return checkpoint_directory


def come_back(checkpoint_directory: Path) -> None:
    checkpoint_directory.unlink()
    checkpoint_directory.with_name("elsewhere").rename(checkpoint_directory)


def test_an_unreachable_directory_is_reported_and_caught_up_with(file: Path, away: Path) -> None:
    service = opened(file)
    ask(service, 2)
    readiness = service.readiness()
    assert readiness.ready
    assert "checkpoints cannot be stored in" in readiness.notes[0]
    come_back(away)
    eventually(lambda: not service.readiness().notes)
    assert notes(away)[-1].sequence == 3  # without a further decision
    service.close_sync()


def test_unreachable_checkpoints_refuse_the_start_if_required(file: Path, away: Path) -> None:
    with pytest.raises(Refused, match="ACCOUNTANT_CHECKPOINTS_REQUIRED is set"):
        EmbeddedService.open(file, Settings(checkpoints_required=True))
    come_back(away)
    EmbeddedService.open(file, Settings(checkpoints_required=True)).close_sync()


def test_a_ledger_without_its_checkpoints_is_refused_if_required(
    file: Path, checkpoint_directory: Path
) -> None:
    required = Settings(checkpoints_required=True)
    EmbeddedService.open(file, required).close_sync()  # a new ledger has none yet
    ledger_files.opened(file).close_sync()
    aside = checkpoint_directory.rename(checkpoint_directory.with_name("elsewhere"))
    missing = f"no checkpoint of this ledger is in {checkpoint_directory}, and ACCOUNTANT_CHECKP"
    for _ in range(2):  # the first one has begun none
        with pytest.raises(Refused, match=missing):
            EmbeddedService.open(file, required)
    assert not (checkpoint_directory / "key").exists()
    shutil.rmtree(checkpoint_directory)
    aside.rename(checkpoint_directory)
    EmbeddedService.open(file, required).close_sync()


def test_a_ledger_without_its_checkpoints_is_reported_until_it_has_one(
    file: Path, checkpoint_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ask_and_close(file, 1)
    assert "checkpoints_missing" not in caplog.text
    shutil.rmtree(checkpoint_directory)
    settings = Settings(checkpoint_seconds=86_400)
    service = EmbeddedService.open(file, settings)
    said = " ".join(service.readiness().notes)
    assert said.startswith(f"no checkpoint of this ledger is in {checkpoint_directory}: is it")
    assert "a new one is made" in said
    assert "checkpoints_missing" in caplog.text
    service.close_sync()
    service = EmbeddedService.open(file, settings)
    assert service.readiness().notes == []
    service.close_sync()


def test_checkpoints_that_go_away_are_not_begun_again_by_a_running_ledger(
    file: Path, checkpoint_directory: Path
) -> None:
    service = opened(file)
    eventually(lambda: notes(checkpoint_directory))
    aside = checkpoint_directory.rename(checkpoint_directory.with_name("elsewhere"))
    ask(service, 1)
    eventually(lambda: service.readiness().notes or checkpoint_directory.exists())
    assert not checkpoint_directory.exists()
    assert "had checkpoints of this log, and has none now" in service.readiness().notes[0]
    aside.rename(checkpoint_directory)
    eventually(lambda: not service.readiness().notes)
    service.close_sync()
    assert notes(checkpoint_directory)[-1].sequence == 2


def test_a_loss_found_late_stops_the_ledger(file: Path, checkpoint_directory: Path) -> None:
    ask_and_close(file, 1)
    back_up(file)
    ask_and_close(file, 2, 3)
    checkpoint_directory.rename(checkpoint_directory.with_name("elsewhere"))
    checkpoint_directory.write_text("no directory")
    put_back(file)
    service = opened(file)
    ask(service, 4)
    come_back(checkpoint_directory)
    eventually(lambda: not service.readiness().ready)
    assert "ends at decision 3, but decision 4 was there" in service.readiness().reasons[0]
    for number in (5, 6):
        with pytest.raises(Unavailable, match="an older copy was restored"):
            service.submit_sync("requests", asking("census", BORN, number), 10)
    service.close_sync()
    assert notes(checkpoint_directory)[-1].sequence == 4
    assert head_of(file)[0] <= 4


def test_decisions_written_into_a_replaced_file_are_not_signed(
    file: Path, checkpoint_directory: Path
) -> None:
    service = opened(file)
    ask(service, 1)
    copy = back_up(file)
    ask(service, 2)
    eventually(
        lambda: bool(notes(checkpoint_directory)) and notes(checkpoint_directory)[-1].sequence == 3
    )
    copy.replace(file)
    with pytest.raises(Unavailable, match="removed or replaced"):
        ask(service, 3)
    service.close_sync()
    assert notes(checkpoint_directory)[-1].sequence == 3


def test_a_key_readable_by_other_users_signs_nothing(
    file: Path, checkpoint_directory: Path
) -> None:
    ask_and_close(file, 1)
    (checkpoint_directory / "key").chmod(0o640)
    service = opened(file)
    ask(service, 2)
    assert "is accessible to other users" in service.readiness().notes[0]
    service.close_sync()
    (checkpoint_directory / "key").chmod(0o600)
    assert notes(checkpoint_directory)[-1].sequence == 2


def test_a_lost_key_is_created_again_and_the_log_still_compared(
    file: Path, checkpoint_directory: Path
) -> None:
    ask_and_close(file, 1)
    back_up(file)
    ask_and_close(file, 2)
    (checkpoint_directory / "key").unlink()
    put_back(file)
    with pytest.raises(Refused, match="ends at decision 2, but decision 3 was there"):
        EmbeddedService.open(file, Settings())


def checkpoint_report(service: EmbeddedService) -> tuple[list[str], dict[str, float]]:
    """Return the notes of `/readyz`, and what a scrape reads of checkpoints."""
    found = {
        sample.name: sample.value
        for collector in service.checkpoint_collectors
        for metric in collector.collect()
        for sample in metric.samples
    }
    return service.readiness().notes, found


def test_a_key_file_of_another_log_is_reported_at_each_start(
    file: Path, checkpoint_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ask_and_close(file, 1)
    first = SigningKey.load(checkpoint_directory / "key").verifier.text
    (checkpoint_directory / "key").unlink()
    for number in (2, 3):
        service = opened(file)
        why, gauges = checkpoint_report(service)
        assert any(f"the log's key is {first}, the key file has" in note for note in why)
        assert gauges["privacy_checkpoint_key_differs"] == 1
        ask(service, number)  # decisions go on
        service.close_sync()
        assert "checkpoint_key_differs" in caplog.text
        caplog.clear()


def test_a_replaced_ledger_is_reported_at_each_start(
    file: Path, checkpoint_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ask_and_close(file, 1)
    ledger = notes(checkpoint_directory)[-1].ledger
    service = opened(file)
    assert checkpoint_report(service) == (
        [],
        {
            "privacy_checkpoint_overdue_seconds": 0,
            "privacy_checkpoint_key_differs": 0,
            "privacy_ledgers_replaced": 0,
        },
    )
    service.close_sync()
    assert "ledger_replaced" not in caplog.text
    original = file.with_name("original")
    file.rename(original)
    EmbeddedService.open(file, Settings(), replace_ledger=True).close_sync()
    ledger_files.opened(file).close_sync()
    for number in (2, 3):
        ask_and_close(file, number)
        service = opened(file)
        why, gauges = checkpoint_report(service)
        assert any(f"checkpoints of ledger {ledger}, up to its decision 2" in note for note in why)
        assert gauges["privacy_ledgers_replaced"] == 1
        service.close_sync()
        assert "ledger_replaced" in caplog.text
        caplog.clear()
    shutil.rmtree(checkpoint_directory / ledger)  # given up for ever
    service = opened(file)
    assert checkpoint_report(service)[0] == []
    service.close_sync()
    # If the earlier file comes back, the other one did not replace it, and is named all the same.
    file.unlink()
    original.rename(file)
    service = opened(file)
    *_, note = checkpoint_report(service)[0]
    assert "it was here, too, and what it has granted is not charged in this one" in note
    service.close_sync()


def test_a_second_ledger_in_one_directory_is_not_reported_as_replaced(
    file: Path, checkpoint_directory: Path, tmp_path: Path
) -> None:
    ask_and_close(tmp_path / "other.db", 1)
    ask_and_close(file, 1)
    service = opened(file)
    assert checkpoint_report(service)[0] == []
    service.close_sync()


def test_an_edited_checkpoint_is_reported(file: Path, checkpoint_directory: Path) -> None:
    ask_and_close(file, 1)
    note = max(checkpoint_directory.rglob("*.note"))
    note.write_bytes(note.read_bytes().replace(b"branch 0", b"branch 1"))
    service = opened(file)
    assert (
        "1 checkpoints of this ledger cannot be read, or are signed by another key"
        in (service.readiness().notes[0])
    )
    service.close_sync()


@pytest.mark.parametrize("after", [0.0, 0.05, 0.1, 0.12, 0.3])
def test_a_kill_around_signing_leaves_no_false_alarm(
    file: Path, checkpoint_directory: Path, after: float
) -> None:
    def live() -> None:
        service = opened(file)
        ask(service, 1, 2, 3)
        time.sleep(after)
        ask(service, 4)
        die()

    os.waitpid(forked(live), 0)
    for number in (5, 6):  # nothing is refused, and each checkpoint is of the log
        ask_and_close(file, number)
        values = list(read_decisions(file))
        for each in notes(checkpoint_directory):
            assert hash_of(values[each.sequence]) == each.head
    assert notes(checkpoint_directory)[-1].sequence == len(values) - 1


def test_another_ledger_under_the_same_path_is_refused(
    file: Path, checkpoint_directory: Path, tmp_path: Path
) -> None:
    ask_and_close(file, 1)
    other = tmp_path / "other.db"
    ask_and_close(other, 11, 12)
    right = file.read_bytes()
    shutil.copy(other, file)
    end = head_of(file)
    for _ in range(2):
        with pytest.raises(Refused, match="another ledger's log was put in its place") as refused:
            EmbeddedService.open(file, Settings())
    assert head_of(file) == end
    ask_and_close(other, 13)  # where it belongs, it goes on
    file.write_bytes(right)
    ask_and_close(file, 2)  # and so does this one
    shutil.copy(other, file)
    (named,) = (
        each
        for each in (checkpoint_directory / "names").iterdir()
        if str(each) in str(refused.value)
    )
    named.unlink()
    ask_and_close(file, 14)


def test_a_partly_written_name_file_is_repaired(file: Path, checkpoint_directory: Path) -> None:
    ask_and_close(file, 1)
    (named,) = (checkpoint_directory / "names").iterdir()
    for number, text in enumerate(("", str(file), f"{file}\n\n"), 2):
        named.write_text(text)
        ask_and_close(file, number)
        assert named.read_text().splitlines() == [str(file), notes(checkpoint_directory)[-1].ledger]


def test_checkpoints_can_be_turned_off(file: Path, checkpoint_directory: Path) -> None:
    service = EmbeddedService.open(file, Settings(checkpoints="off"))
    assert service.readiness().notes == []
    service.close_sync()
    assert not checkpoint_directory.exists()
