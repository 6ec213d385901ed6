"""A new ledger takes the path of one that is gone only if somebody says so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from accountant.partition import hash_of
from streams.client import Accountant
from streams.embedded.checkpointing import ledger_id
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.evidence.ledger_binding import place_of
from streams.settings import Settings
from tests.faults.sqlite_life import die, forked
from tests.streams.embedded import ledger_files
from tests.streams.embedded.ledger_files import ask
from tests.streams.embedded.test_stored_checkpoints import ask_and_close, checkpoint_report

GONE = r"is missing, and ledger [0-9a-f]{32} was there, whose checkpoints go up to decision 2"


@pytest.fixture
def file(tmp_path: Path, checkpoint_directory: Path) -> Path:
    """A ledger's file with one grant, beside a copy of it in `right.db`."""
    file = tmp_path / "ledger.db"
    ask_and_close(file, 1)
    shutil.copy(file, tmp_path / "right.db")
    return file


def remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm", ".lock", ".index"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def replace(file: Path) -> EmbeddedService:
    return EmbeddedService.open(file, Settings(), replace_ledger=True)


def test_a_new_ledger_is_refused_before_its_file_is_made(file: Path) -> None:
    remove(file)
    for _ in range(2):
        with pytest.raises(Refused, match=GONE) as refused:
            EmbeddedService.open(file, Settings())
        assert "--replace-ledger" in str(refused.value)
        assert "replace_ledger=True" in str(refused.value)
        assert not file.exists()


def test_the_right_file_is_accepted_when_it_is_put_back(file: Path, tmp_path: Path) -> None:
    remove(file)
    with pytest.raises(Refused, match=GONE):
        EmbeddedService.open(file, Settings())
    shutil.copy(tmp_path / "right.db", file)
    ask_and_close(file, 2)
    assert len([*read_decisions(file)]) == 4


def test_a_replaced_ledger_that_is_put_back_is_accepted_and_the_other_reported(
    file: Path, tmp_path: Path
) -> None:
    right = ledger_id(file)
    remove(file)
    replace(file).close_sync()
    other = ledger_id(file)
    assert other != right
    service = ledger_files.opened(file)  # the name is its own by now
    ask(service, 7)
    service.close_sync()
    remove(file)
    shutil.copy(tmp_path / "right.db", file)
    ask_and_close(file, 2)
    service = EmbeddedService.open(file, Settings())
    assert any(f"checkpoints of ledger {other}" in each for each in checkpoint_report(service)[0])
    service.close_sync()


def test_a_ledger_without_a_decision_may_be_replaced(
    tmp_path: Path, checkpoint_directory: Path
) -> None:
    file = tmp_path / "empty.db"
    EmbeddedService.open(file, Settings()).close_sync()
    assert [*checkpoint_directory.rglob("*.note")]
    remove(file)
    EmbeddedService.open(file, Settings()).close_sync()


def test_a_new_ledger_whose_process_was_killed_must_be_confirmed_again(file: Path) -> None:
    remove(file)
    put_elsewhere = file.with_name("new.db")
    EmbeddedService.open(put_elsewhere, Settings(checkpoints="off")).close_sync()
    shutil.copy(put_elsewhere, file)
    with pytest.raises(Refused, match="holds a new ledger, and ledger"):
        EmbeddedService.open(file, Settings())

    def live() -> None:
        replace(file)
        die()

    os.waitpid(forked(live), 0)
    ask_and_close(file, 3) if len([*read_decisions(file)]) > 1 else replace(file).close_sync()
    EmbeddedService.open(file, Settings()).close_sync()


def other_spelling(file: Path) -> Path:
    (file.parent / "x").mkdir()
    return file.parent / "x" / ".." / file.name


def linked_directory(file: Path) -> Path:
    link = file.parent.with_name(f"{file.parent.name}-link")
    link.symlink_to(file.parent)
    return link / file.name


def linked_file(file: Path) -> Path:
    link = file.with_name("link.db")
    link.symlink_to(file)
    return link


@pytest.mark.parametrize("how", [other_spelling, linked_directory, linked_file])
def test_a_lost_ledger_is_known_by_every_path_that_leads_there(file: Path, how) -> None:
    path = how(file)
    remove(file)
    with pytest.raises(Refused, match="was there, whose checkpoints go up to decision 2"):
        EmbeddedService.open(path, Settings())


def test_a_ledger_served_by_a_link_is_known_by_its_own_path(
    file: Path, checkpoint_directory: Path
) -> None:
    shutil.rmtree(checkpoint_directory)
    link = linked_file(file)
    ask_and_close(link, 2)
    remove(file)
    with pytest.raises(Refused, match="was there, whose checkpoints go up to decision 3"):
        EmbeddedService.open(file, Settings())


def test_a_relative_path_is_known(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remove(file)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match=GONE):
        EmbeddedService.open(Path(file.name), Settings())


def test_a_damaged_record_of_a_path_forgets_no_ledger(
    file: Path, checkpoint_directory: Path
) -> None:
    remove(file)
    (checkpoint_directory / "names" / place_of(str(file))).write_text(str(file))
    with pytest.raises(Refused, match=GONE):
        EmbeddedService.open(file, Settings())


def test_a_damaged_checkpoint_still_tells_of_the_ledger(
    file: Path, checkpoint_directory: Path
) -> None:
    remove(file)
    for note in checkpoint_directory.rglob("*.note"):
        note.write_bytes(b"")
    with pytest.raises(Refused, match=GONE):
        EmbeddedService.open(file, Settings())


def test_the_place_of_a_moved_ledger_is_named(file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.db"
    file.rename(moved)
    ask_and_close(moved, 2)
    with pytest.raises(Refused, match=f"Put the right file back; it may be {moved}"):
        EmbeddedService.open(file, Settings())


def test_unreadable_checkpoints_make_no_ledger_if_they_are_required(
    file: Path, checkpoint_directory: Path
) -> None:
    remove(file)
    shutil.rmtree(checkpoint_directory / "names")
    (checkpoint_directory / "names").write_text("no directory")
    with pytest.raises(Refused, match="because ACCOUNTANT_CHECKPOINTS_REQUIRED is set"):
        EmbeddedService.open(file, Settings(checkpoints_required=True))
    assert not file.exists()


def test_a_client_replaces_a_ledger_only_by_an_argument(file: Path) -> None:
    remove(file)
    policy = {"filter": "basic", "epsilon": "1"}
    with (
        pytest.raises(Refused, match="is missing, and ledger"),
        Accountant(f"sqlite:///{file}") as ledger,
    ):
        ledger.as_owner("owner").open("census", policy, as_given=True)
    assert not file.exists()
    with Accountant(f"sqlite:///{file}", replace_ledger=True) as ledger:
        assert not file.exists()  # to connect creates nothing
        ledger.as_owner("owner").open("census", policy, as_given=True)
    first = hash_of(next(read_decisions(file)))
    with Accountant(f"sqlite:///{file}", replace_ledger=True, analyst="ana") as ledger:
        assert ledger.ask("census", "pure:0.1").granted  # it replaces nothing that is there
    assert hash_of(next(read_decisions(file))) == first
